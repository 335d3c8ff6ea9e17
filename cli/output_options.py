"""Options that say in which form a command prints, where several commands have the same."""

from __future__ import annotations

from typing import Annotated

import typer

OUTPUT = "Output"
"""The panel of such options in the help of a command that has several panels."""

JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.", show_default=False)]

JsonInPanelOption = Annotated[
    bool, typer.Option("--json", help="JSON on stdout, nothing else.", rich_help_panel=OUTPUT, show_default=False)
]

MarkdownInPanelOption = Annotated[
    bool, typer.Option("--markdown", help="Markdown on stdout.", rich_help_panel=OUTPUT, show_default=False)
]

FailOnOption = Annotated[
    str,
    typer.Option("--fail-on", help="never, error, warning or info: exit 1 on such a finding.", rich_help_panel=OUTPUT),
]
