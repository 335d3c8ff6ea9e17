"""How an error reaches the user: one line that says what, where and how to mend it; never a traceback."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import typer

from cgplan.errors import CgplanError, InputError, NoRoomError, did_you_mean

from . import secrecy
from .streams import CANNOT_WRITE, say

WRONG = 2
CRASHED = 70
INTERRUPTED = 130
ALIKE = 0.65
"""Least likeness of an option that is suggested: of a hundred short ones some are always a little alike."""

# click, wherever typer keeps it: BadParameter is a UsageError, which is a ClickException.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def report(error: CgplanError, as_json: bool) -> int:
    """Print `error`; with `as_json` also as a document on stdout. Returns the exit status."""
    error = secrecy.without_secrets(error)
    where = f" [{error.where}]" if error.where and error.where not in error.message else ""
    fix = f"; fix: {error.fix}" if error.fix else ""
    say(f"error[{error.code}]: {error.message}{where}{fix}")
    if as_json:
        print(json.dumps({"schema_version": 1, "error": error.as_dict()}, indent=2))
    return CANNOT_WRITE if isinstance(error, NoRoomError) else WRONG


def report_crash(error: Exception) -> int:
    """Print an error that is a bug of cgplan."""
    if os.environ.get("CGPLAN_DEBUG") == "1":
        print(secrecy.masked("".join(traceback.format_exception(error))), file=sys.stderr)
    said = secrecy.masked(" ".join(str(error).split())[:200])
    say(
        f"cgplan failed, which is a bug of cgplan ({type(error).__name__}: {said}); "
        "report it with the command line and the output of CGPLAN_DEBUG=1 cgplan ..."
    )
    return CRASHED


def usage_error(error: Any) -> InputError:
    """A complaint of the option parser in the shape of every other error."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cgplan"
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if option is not None and parameter is None and hasattr(error, "possibilities"):
        known = [name for p in context.command.params for name in p.opts + p.secondary_opts] if context else []
        fix = did_you_mean(option, [name for name in known if name.startswith("--")], ALIKE)
        return InputError(
            f"unknown option {option[:60]}", code="CG905", where=command, fix=fix or f"see {command} --help"
        )
    nothing = "an argument is missing" if parameter is not None else type(error).__name__
    message = str(getattr(error, "message", error)).rstrip(".") or nothing
    if message.endswith("requires an argument"):
        return InputError(_lowered(message), code="CG905", where=option, fix=f"give its value after {option}")
    if "unexpected extra argument" in message and "(serve " in f"{message} ":
        fix = f"put the line behind --: {command} -- vllm serve ..."
        return InputError(_lowered(message), code="CG905", where=command, fix=fix)
    where = parameter.opts[0] if parameter is not None and parameter.opts else option or command
    return InputError(_lowered(message), code="CG905", where=where, fix=f"see {command} --help")


def _lowered(message: str) -> str:
    return message[0].lower() + message[1:]
