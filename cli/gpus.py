"""`cgplan gpus`: the GPUs that `--gpu` knows."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from cgplan.releases.gpus import records

EPILOG = """\
Examples:
  cgplan gpus
  cgplan gpus h100

Side effects: none; the list is built in.

Exit codes:
  0  printed
  1  nothing matches
  2  bad usage
"""


def command(
    text: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="TEXT", help="Only names with it in them.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON with every name and source.", show_default=False)
    ] = False,
) -> int:
    """List the GPUs that --gpu knows: names, memory as the driver reports it, multiprocessors."""
    wanted = (text or "").casefold()
    found = [one for one in records() if any(wanted in name.casefold() for name in (one["name"], *one["aliases"]))]
    if as_json:
        print(json.dumps({"schema_version": 1, "gpus": found}))
    else:
        from cgplan.report.lists import show_gpus

        show_gpus(found)
    return 0 if found else 1
