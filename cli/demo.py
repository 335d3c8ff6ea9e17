"""`cgplan demo`: a tour that runs the commands themselves, on built-in data."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from cgplan.errors import InputError

from .failures import INTERRUPTED

if TYPE_CHECKING:
    from cgplan.demo import Step

EPILOG = """\
Examples:
  cgplan demo
  cgplan demo --step resolve
  cgplan demo --pause
  cgplan demo --print crash.log | cgplan logs - --gpu h100

Side effects: none; no file is written, no network and no GPU is used. --pause reads the Enter key.

Exit codes:
  0  shown
  1  a step did not end as the tour says
  2  bad usage, or there is no such step or file
"""
FAILED = 1

_Text = Optional[str]  # noqa: UP045


def command(
    *,
    step: Annotated[
        _Text, typer.Option("--step", metavar="NAME", help="Only this step; --list has the names.", show_default=False)
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the steps and the built-in files.", show_default=False)
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Whole outputs, not shortened.", show_default=False)] = False,
    pause: Annotated[
        bool, typer.Option("--pause", help="In a terminal, wait for Enter between the steps.", show_default=False)
    ] = False,
    printed: Annotated[
        _Text,
        typer.Option(
            "--print", metavar="FILE", help="Print a built-in file, to pipe into a command.", show_default=False
        ),
    ] = None,
) -> int:
    """Show on built-in data what cgplan does: six commands, each with its line and its output.

    Needs no network, no GPU and no vLLM. Long outputs are cut at the end, and the tour says so.
    """
    from cgplan.demo import STEPS, step_of, text_of

    chosen = [name for name, given in (("--list", only_list), ("--print", printed), ("--step", step)) if given]
    if len(chosen) > 1:
        raise InputError(
            f"{chosen[0]} and {chosen[1]} exclude each other", code="CG907", where=chosen[1], fix="drop one of the two"
        )
    if printed is not None:
        print(text_of(printed), end="")
        return 0
    if only_list:
        _list()
        return 0
    steps = STEPS if step is None else (step_of(step),)
    waits = pause and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    failed = False
    for number, one in enumerate(steps, 1):
        if number > 1:
            if waits and not _goes_on():
                break
            print()
        status = _show(one, number, len(steps), full)
        if status == INTERRUPTED:
            return INTERRUPTED  # the step has said so, and the tour ends with it
        failed |= status != one.status
    else:
        if step is None:
            from cgplan.report.demo_text import show_next

            show_next()
    return FAILED if failed else 0


def _list() -> None:
    from cgplan.demo import FILES, STEPS
    from cgplan.report.demo_text import show_list

    show_list([(step.name, step.shows) for step in STEPS], FILES)


def _goes_on() -> bool:
    """Wait for Enter. False for q, and where nothing more can be read."""
    try:
        return input("Enter goes on, q stops: ").strip().casefold() not in ("q", "quit")
    except EOFError:
        return False


def line_of(step: Step) -> str:
    """The step as it is typed in a shell."""
    line = f"cgplan {shlex.join(step.words)}"
    return line if step.reads is None else f"cgplan demo --print {step.reads} | {line}"


def _show(step: Step, number: int, count: int, full: bool) -> int:
    """Run one step and print it. Returns its exit status; of one that was interrupted only the line is printed."""
    from cgplan.report.demo_text import cut, show_end, show_head

    show_head(number, count, step.shows, line_of(step))
    sys.stdout.flush()
    status, lines = _run(step)
    if status == INTERRUPTED:
        return status
    shown, left = (lines, 0) if full else cut(lines, step.lines)
    sys.stdout.write("".join(f"{line}\n" for line in shown))
    show_end(left, step.name, status)
    return status


def _run(step: Step) -> tuple[int, list[str]]:
    """The exit status of a step, and the lines that it printed."""
    from cgplan.demo import text_of

    from .app import run

    with _read_from("" if step.reads is None else text_of(step.reads)), _written_to(_Paper(sys.stdout)) as paper:
        status = run(list(step.words))
    return status, paper.getvalue().splitlines()


class _Paper(io.StringIO):
    """Text kept in memory by who takes it for stdout: a terminal where stdout is one, and of its encoding."""

    def __init__(self, stdout: object) -> None:
        super().__init__()
        self._stdout = stdout

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(getattr(self._stdout, "encoding", None) or "utf-8")

    def isatty(self) -> bool:
        return bool(getattr(self._stdout, "isatty", lambda: False)())


@contextmanager
def _written_to(paper: _Paper) -> Iterator[_Paper]:
    kept, sys.stdout = sys.stdout, paper
    try:
        yield paper
    finally:
        sys.stdout = kept


@contextmanager
def _read_from(text: str) -> Iterator[None]:
    kept, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = kept
