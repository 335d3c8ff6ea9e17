"""The terminal: colour where it is wanted, at most 120 columns, and plain ASCII where nothing else can be shown."""

from __future__ import annotations

import sys
from typing import IO, NoReturn, cast

from rich.console import Console
from rich.theme import Theme

WIDEST = 120

THEME = Theme(
    {
        "full": "green",
        "piecewise": "cyan",
        "eager": "yellow",
        "full.name": "bold green",
        "piecewise.name": "bold cyan",
        "eager.name": "bold yellow",
        "head": "bold",
        "key": "bold",
        "faint": "dim",
        "code": "bold magenta",
        "fix": "green",
        "error": "bold red",
        "warning": "yellow",
        "info": "cyan",
    }
)

ASCII = str.maketrans(
    {"█": "#", "▒": "=", "░": ".", "–": "-", "·": "|", "→": ">", "…": ".", "×": "x", "▲": "^", "•": "*", "±": "~"}
)


class AsciiFile:
    """A text file that writes ASCII only."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(text.translate(ASCII).encode("ascii", "replace").decode("ascii"))

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def encoding(self) -> str:
        return "ascii"


class _Screen(Console):
    """rich would end the process with status 1 where the reader of a pipe is gone."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console() -> Console:
    """The console on stdout."""
    file: IO[str] = sys.stdout
    if not (getattr(file, "encoding", None) or "").lower().startswith("utf"):
        file = cast("IO[str]", AsciiFile(file))
    found = _Screen(file=file, theme=THEME, highlight=False, emoji=False, markup=False)
    found.width = min(found.width, WIDEST)
    return found
