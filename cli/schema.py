"""`cgplan schema`: the JSON Schema of what `--json` prints."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Annotated, Any

import typer

from cgplan.errors import InputError, did_you_mean

MODULES = {
    "resolve": "resolve.document_schema",
    "check": "report.check_schema",
    "plan": "memory.document_schema",
    "profile": "memory.budget.measured_record",
    "profile-dry-run": "memory.profile.needs_schema",
    "logs": "report.logs_schema",
    "workload": "workload.document_schema",
    "tune": "workload.tune.tune_schema",
    "tune-concurrency": "workload.tune.concurrency_schema",
    "sweep": "report.sweep_schema",
    "diff": "report.diff_schema",
    "backends": "report.backends_schema",
    "rules": "report.lists_schema",
    "explain": "report.lists_schema",
    "models": "report.lists_schema",
    "gpus": "report.lists_schema",
    "error": "report.error_schema",
}
"""Each document and the module of cgplan that has its form."""
ALIKE = {"explain": "rules"}
"""Documents of one form."""
DOCUMENTS = tuple(MODULES)

EPILOG = """\
Examples:
  cgplan schema resolve
  cgplan schema check
  cgplan schema sweep
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
            "tune-concurrency, sweep (one record), diff, backends, rules, explain, models, gpus, or error (what --json "
            "prints on one).",
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
    module: Any = import_module(f"cgplan.{MODULES[document]}")
    of_lists = module.__name__.endswith("lists_schema")
    schema = module.json_schema(ALIKE.get(document, document)) if of_lists else module.json_schema()
    print(json.dumps(schema, indent=2))
    return 0
