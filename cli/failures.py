"""How an error reaches the user: one line that says what, where and how to mend it; never a traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
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


_ASSUMED = re.compile(r"--assume-release [0-9.]+(?= answers by its rules)")


def with_command(error: CgplanError, argv: Sequence[str]) -> CgplanError:
    """The error; where the release is not known, with the whole command that the rules of the nearest answer."""
    if error.code == "CG801" and error.where in ("--from", "--to"):
        return _with_end(error, argv)
    found = _ASSUMED.match(error.fix or "")
    if error.code != "CG801" or found is None or any(word.startswith("--assume-release") for word in argv):
        return error
    at = argv.index("--") if "--" in argv else len(argv)
    words = ["cgplan", *argv[:at], *found[0].split(), *argv[at:]]
    known = (error.fix or "").partition("; ")[2]
    error.fix = f"{shlex.join(words)}, which answers by its rules; {known}"
    return error


def _with_end(error: CgplanError, argv: Sequence[str]) -> CgplanError:
    """The error of an end of `diff`, with the command that takes the nearest release for it."""
    flag, near = str(error.where), error.message.rpartition(" ")[2]
    at = argv.index("--") if "--" in argv else len(argv)
    words = list(argv[:at])
    place = next((number for number, word in enumerate(words) if word.partition("=")[0] == flag), None)
    if place is None:
        words += [flag, near]
    elif "=" in words[place]:
        words[place] = f"{flag}={near}"
    else:
        words[place + 1 : place + 2] = [near]
    error.fix = f"{shlex.join(['cgplan', *words, *argv[at:]])}; {error.fix}"
    return error


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


def usage_error(error: Any, build: Callable[[], Any]) -> InputError:
    """A complaint of the option parser in the shape of every other error.

    Args:
        build: gives the app with all commands; asked where another command may have the option.
    """
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cgplan"
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if option is not None and parameter is None and hasattr(error, "possibilities"):
        known = [name for p in context.command.params for name in p.opts + p.secondary_opts] if context else []
        from .owners import instead

        near = did_you_mean(option, [name for name in known if name.startswith("--")], ALIKE)
        fix = instead(option, command, build) or near
        none = "no command has it; " if option.startswith("--") else ""
        fix = fix or f"{none}{command} --help lists what this one takes"
        return InputError(f"unknown option {option[:60]}", code="CG905", where=command, fix=fix)
    nothing = "an argument is missing" if parameter is not None else type(error).__name__
    message = str(getattr(error, "message", error)).rstrip(".") or nothing
    if message.endswith("requires an argument"):
        return InputError(_lowered(message), code="CG905", where=option, fix=f"give its value after {option}")
    if "unexpected extra argument" in message and "(serve " in f"{message} ":
        fix = f"put the line behind --: {command} -- vllm serve ..."
        return InputError(_lowered(message), code="CG905", where=command, fix=fix)
    if "unexpected extra argument" in message:
        from .owners import LINES

        fix = "drop what is too many"
        if command.rpartition(" ")[2] in LINES:
            fix += f", or put a line of vLLM's behind --: {command} -- vllm serve MODEL ..."
        return InputError(_lowered(message), code="CG905", where=command, fix=fix)
    where = parameter.opts[0] if parameter is not None and parameter.opts else option or command
    if message.endswith("does not take a value"):
        return InputError(_lowered(message), code="CG905", where=where, fix=f"write {option} alone, or leave it out")
    if message == "an argument is missing":
        fix = f"give it: {command} {where.upper()}"
        return InputError(_lowered(message), code="CG905", where=where, fix=fix)
    return InputError(_lowered(message), code="CG905", where=where, fix=f"{command} --help shows what it takes")


def _lowered(message: str) -> str:
    return message[0].lower() + message[1:]
