"""The typer app. Only the command that was asked for is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import typer

from cgplan.errors import CgplanError, InputError, did_you_mean

from . import failures, pasted, secrecy, streams
from .argv import normalise
from .help import HelpfulCommand, HelpfulGroup
from .renamed import current

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
    "demo",
    "completion",
)

HELP = """\
Tells, before vLLM starts and without a GPU, which CUDA graphs it will capture, which batches run in them, and why.
"""
START = """\
Tells, before vLLM starts and without a GPU, which CUDA graphs it will capture,
which batches run in them, and why.

  check a line     cgplan check -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300
  see its graphs   cgplan resolve Qwen/Qwen3-8B --gpu h100 --max-num-seqs 300
  plan its memory  cgplan plan Qwen/Qwen3-8B --gpu h100 --max-num-seqs 300

All commands: cgplan --help. A tour on built-in data: cgplan demo.
"""
"""What `cgplan` alone says."""

EPILOG = """\
Examples:
  cgplan check -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300
  cgplan resolve --model Qwen/Qwen3-8B --gpu h100 --max-num-seqs 256
  cgplan COMMAND --help

Side effects: none, but for files that an option names, --write, profile and --measure, which load a GPU, --ray, and
options that are given an http:// address.

Exit codes:
  0   nothing wrong
  1   findings at or above --fail-on
  2   bad usage or input, or vLLM would not start
  70  a bug of cgplan
  74  the output cannot be written
  130 interrupted
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
    secrecy.begin(argv)
    as_json = _prints_json(pasted.split(argv)[0])
    try:
        own, line = pasted.split(argv)
        if own[:1] == ["explain"] and line.words is not None:
            own, line = [*own, *line.words], pasted.Pasted()  # words of a question
        words = normalise(own)
        if not words:
            return _start(line)
        return _invoke(current(words), line)
    except CgplanError as error:
        return failures.report(failures.with_command(error, argv), as_json)
    except failures.ClickException as error:
        return failures.report(failures.usage_error(error, build), as_json)
    except OSError:
        raise
    except (KeyboardInterrupt, typer.Abort):
        streams.say("interrupted")
        return failures.INTERRUPTED
    except Exception as error:
        return failures.report_crash(error)


def _prints_json(words: Sequence[str]) -> bool:
    """Whether stdout is to hold a document. Of `profile`, --json names a file, and - is stdout."""
    if list(words[:1]) != ["profile"]:
        return "--json" in words
    return "--json=-" in words or any(pair == ("--json", "-") for pair in pairwise(words))


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


def _start(line: pasted.Pasted) -> int:
    """Answer `cgplan` alone."""
    if line.words is not None:
        raise InputError(
            "the command comes first, before --", code="CG905", where="cgplan", fix="cgplan check -- vllm serve ..."
        )
    print(START, end="")
    return 0


def _meant(word: str) -> str:
    """What to type in the place of a word that is no command."""
    if word in ("help", "version"):
        return f"write cgplan --{word}"
    if word == "vllm":
        return "put the line behind --: cgplan check -- vllm serve ..."
    return did_you_mean(word, COMMANDS) or f"give one of {', '.join(COMMANDS)}; cgplan --help says what they do"


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
            fix=_meant(first),
        )
    command: Any = typer.main.get_command(build([first] if first in COMMANDS else COMMANDS))
    try:
        # Not command.main(): it would turn a closed pipe and an interrupt into statuses of its own.
        with command.make_context("cgplan", argv, obj=line) as context:
            status = command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0
