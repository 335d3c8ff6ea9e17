"""The terminal: colour where it is wanted, at most 120 columns, and plain ASCII where nothing else can be shown."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console
from rich.theme import Theme

WIDEST = 120

THEME = Theme(
    {
        "full": "green",
        "piecewise": "cyan",
        "eager": "yellow",
        "head": "bold",
        "key": "bold",
        "faint": "bright_black",
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


def console() -> Console:
    """The console on stdout."""
    file: IO[str] = sys.stdout
    if not (file.encoding or "").lower().replace("-", "").startswith("utf"):
        file = AsciiFile(file)  # type: ignore[assignment]
    found = Console(file=file, theme=THEME, highlight=False, emoji=False, markup=False)
    found.width = min(found.width, WIDEST)
    return found
