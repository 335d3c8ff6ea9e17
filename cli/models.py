"""`cgplan models`: the models whose shape is known by name."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from cgplan.inputs.catalogue import catalogue_ids

from .output_options import JsonOption

EPILOG = """\
Examples:
  cgplan models
  cgplan models qwen3

Side effects: none; the list is built in.

Exit codes:
  0  printed
  1  nothing matches
  2  bad usage
"""


def command(
    text: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="TEXT", help="Only ids and architectures with it in them.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the models that --model knows by name, and how sure their shape is."""
    wanted = (text or "").casefold()
    found = [e for e in catalogue_ids() if wanted in e.model_id.casefold() or wanted in e.architecture.casefold()]
    if as_json:
        print(json.dumps({"schema_version": 1, "models": [entry._asdict() for entry in found]}))
    else:
        from cgplan.report.lists import show_models

        show_models(found)
    return 0 if found else 1
