"""`cgplan gpus`: the GPUs that `--gpu` knows."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cgplan.releases.gpus import records

EPILOG = """\
Example:
  cgplan gpus

Side effects: none; the list is built in.

Exit codes:
  0  printed
  2  bad usage
"""


def command(
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON with every name and source.", show_default=False)
    ] = False,
) -> int:
    """List the GPUs that --gpu knows: names, memory as the driver reports it, multiprocessors."""
    if as_json:
        print(json.dumps({"schema_version": 1, "gpus": records()}))
    else:
        from cgplan.report.lists import show_gpus

        show_gpus(records())
    return 0
