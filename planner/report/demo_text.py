"""What `cgplan demo` says around the outputs of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from .console import console
from .words import counted


def show_head(number: int, count: int, shows: str, line: str) -> None:
    """What there is to see, and the line to type. The line is not wrapped, so that it can be copied."""
    screen = console()
    screen.print(Text.assemble((f"{number} of {count}  " if count > 1 else "", "faint"), (shows, "head")))
    screen.print(Text(f"$ {line}", "code"), soft_wrap=True)
    screen.print()


def cut(lines: Sequence[str], most: int) -> tuple[Sequence[str], int]:
    """The first lines, blank ones at the end aside, and how many were left out; a few more are not cut off."""
    if len(lines) <= most + 2:
        return lines, 0
    shown = list(lines[:most])
    while shown and not shown[-1].strip():
        shown.pop()
    return shown, len(lines) - len(shown)


def show_end(left: int, name: str, status: int) -> None:
    """What was cut off, and the exit status where it is not 0."""
    screen = console()
    if left:
        screen.print(Text(f"… {counted(left, 'more line')}: cgplan demo --step {name} --full", "faint"))
    if status:
        screen.print(Text(f"exit status {status}", "faint"))


def show_next() -> None:
    """What to type after the tour."""
    screen = console()
    screen.print()
    screen.print("Now yours: cgplan check -- and a line of your own. All commands: cgplan --help.")


def show_list(steps: Iterable[tuple[str, str]], files: Mapping[str, str]) -> None:
    """The steps by name, and the built-in files."""
    screen = console()
    table = Table.grid(padding=(0, 2))
    for name, text in (*steps, ("", ""), *((f"--print {name}", text) for name, text in files.items())):
        table.add_row(Text(name, "key", no_wrap=True), text)
    screen.print(table)
