"""`cgplan explain`: the page of one code, or the list of all."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from cgplan.report import rules
from cgplan.rules import all_rules

from .output_options import JsonOption

EPILOG = """\
Examples:
  cgplan explain CG701
  cgplan explain

Side effects: none.

Exit codes:
  0  printed
  2  there is no such code, or bad usage
"""


def command(
    code: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="CODE", help="Such as CG701. Without it all codes are listed.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say what a rule or an error is, why it exists, and what to do instead."""
    if as_json:
        found = [rules.find(code)] if code is not None else all_rules().values()
        print(json.dumps({"schema_version": 1, "rules": [rules.as_document(rule) for rule in found]}))
    elif code is not None:
        rules.show_page(rules.find(code))
    else:
        rules.show_list()
    return 0
