"""The typer app. Only the command that was asked for is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import typer

from cgplan.errors import CgplanError, InputError, did_you_mean

from . import failures, pasted, streams
from .argv import normalise
from .help import HelpfulCommand, HelpfulGroup

COMMANDS = (
    "check",
    "resolve",
    "plan",
    "profile",
    "logs",
    "tune",
    "report",
    "sweep",
    "diff",
    "backends",
    "explain",
    "rules",
    "models",
    "gpus",
    "schema",
    "completion",
)

HELP = """\
Tells, before vLLM starts and without a GPU, which CUDA graphs it will capture, which batches run in them, and why.
"""
EPILOG = """\
Example:
  cgplan resolve --model Qwen/Qwen3-8B --gpu h100 --max-num-seqs 256

Exit codes:
  0  nothing wrong
  1  findings at or above --fail-on
  2  bad usage or input, or vLLM would not start
  74 the output cannot be written
"""


def run(argv: Sequence[str]) -> int:
    """Run one command line. Returns the exit status; errors are printed, never raised."""
    try:
        status = _guarded(argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return streams.reader_gone()
    except OSError as error:
        # Reading a file names it; only writing to stdout does not.
        return failures.report_crash(error) if error.filename is not None else streams.write_failed(error)


def _guarded(argv: Sequence[str]) -> int:
    as_json = "--json" in pasted.split(argv)[0]
    try:
        own, line = pasted.split(argv)
        return _invoke(normalise(own) or ["--help"], line)
    except CgplanError as error:
        return failures.report(error, as_json)
    except failures.ClickException as error:
        return failures.report(failures.usage_error(error), as_json)
    except OSError:
        raise
    except (KeyboardInterrupt, typer.Abort):
        return failures.INTERRUPTED
    except Exception as error:
        return failures.report_crash(error)


def build(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The app with the commands of these names."""
    app = typer.Typer(
        name="cgplan",
        help=HELP,
        epilog=EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        cls=HelpfulGroup,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f".{name}", __package__)
        app.command(name, cls=HelpfulCommand, epilog=module.EPILOG)(module.command)
    return app


def _root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version.", show_default=False),
) -> None:
    """Read by typer; `--version` is answered in main.py."""


def _invoke(argv: list[str], line: pasted.Pasted) -> int:
    first = argv[0]
    if first.startswith("-") and first not in ("-h", "--help", "--version", "-V"):
        raise InputError(
            f"the command comes first, before {first[:40]}",
            code="CG905",
            where="cgplan",
            fix=f"cgplan resolve {first[:40]} ...; commands: {', '.join(COMMANDS)}",
        )
    if not first.startswith("-") and first not in COMMANDS:
        raise InputError(
            f"unknown command {first[:40]}",
            code="CG905",
            where="cgplan",
            fix=did_you_mean(first, COMMANDS) or f"commands: {', '.join(COMMANDS)}",
        )
    command: Any = typer.main.get_command(build([first] if first in COMMANDS else COMMANDS))
    try:
        # Not command.main(): it would turn a closed pipe and an interrupt into statuses of its own.
        with command.make_context("cgplan", argv, obj=line) as context:
            status = command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0
