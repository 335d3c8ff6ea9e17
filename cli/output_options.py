"""Options that say in which form a command prints, where several commands have the same."""

from __future__ import annotations

from typing import Annotated

import typer

from cgplan.errors import InputError

OUTPUT = "Output"
"""The panel of such options in the help of a command that has several panels."""

JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.", show_default=False)]

MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Markdown on stdout.", show_default=False)]

JsonInPanelOption = Annotated[
    bool, typer.Option("--json", help="JSON on stdout, nothing else.", rich_help_panel=OUTPUT, show_default=False)
]

MarkdownInPanelOption = Annotated[
    bool, typer.Option("--markdown", help="Markdown on stdout.", rich_help_panel=OUTPUT, show_default=False)
]

FailOnOption = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help="error, warning, info or never: exit 1 on such a finding.",
        rich_help_panel=OUTPUT,
    ),
]


def check_one_form(*, as_json: bool, as_markdown: bool) -> None:
    """Refuse two forms on one stdout.

    Raises:
        InputError: CG907, both are asked for.
    """
    if as_json and as_markdown:
        raise InputError(
            "--json and --markdown exclude each other", code="CG907", where="--markdown", fix="drop one of the two"
        )
