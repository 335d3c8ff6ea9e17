"""`cgplan schema`: the JSON Schema of what `--json` prints."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cgplan.errors import InputError, did_you_mean

DOCUMENTS = ("resolve", "check", "plan", "profile", "profile-dry-run", "logs", "workload", "tune", "error")

EPILOG = """\
Examples:
  cgplan schema resolve
  cgplan schema check
  cgplan schema plan
  cgplan schema error

Side effects: none.

Exit codes:
  0  printed
  2  there is no such document, or bad usage
"""


def command(
    document: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT",
            help="resolve, check, plan, profile (a measured record), profile-dry-run, logs, workload (steps), tune, "
            "or error: what --json prints on an error."
        ),
    ] = "resolve",
) -> int:
    """Print the JSON Schema of a command's --json document."""
    if document not in DOCUMENTS:
        raise InputError(
            f"there is no document {document[:40]!r}",
            code="CG902",
            where="cgplan schema",
            fix=did_you_mean(document, DOCUMENTS) or f"give one of {', '.join(DOCUMENTS)}",
        )
    if document == "error":
        from cgplan.report.error_schema import json_schema
    elif document == "check":
        from cgplan.report.check_schema import json_schema
    elif document == "plan":
        from cgplan.memory.document_schema import json_schema
    elif document == "logs":
        from cgplan.report.logs_schema import json_schema
    elif document == "workload":
        from cgplan.workload.document_schema import json_schema
    elif document == "tune":
        from cgplan.workload.tune.tune_schema import json_schema
    elif document == "profile":
        from cgplan.memory.budget.measured_record import json_schema
    elif document == "profile-dry-run":
        from cgplan.memory.profile.needs_schema import json_schema
    else:
        from cgplan.resolve.document_schema import json_schema
    print(json.dumps(json_schema(), indent=2))
    return 0
