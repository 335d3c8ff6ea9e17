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
