"""The terminal: colour where it is wanted, at most 120 columns, and plain ASCII where nothing else can be shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import IO, NoReturn, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

WIDEST = 120
NARROWEST = 40
"""Below it words would be cut to pieces; the terminal may wrap the lines as it likes."""
USUAL = 80
"""Where COLUMNS says 0, as some runners of jobs do: not known."""

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


_LINE_END = re.compile(r"(?: |\x1b\[[0-9;]*m)+(?=\n)")


def _shown(text: str) -> str:
    """`text` with ? for what moves the cursor or changes the terminal; line ends stay."""
    return "".join(c if c.isprintable() or c in "\n\xa0" else "?" for c in text)


class TidyFile:
    """A text file without blanks at the ends of lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(self.form(text))

    def form(self, text: str) -> str:
        """`text` as it is written."""
        return _LINE_END.sub(lambda end: end[0].replace(" ", ""), text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def encoding(self) -> str:
        return str(getattr(self._file, "encoding", "utf-8"))


class AsciiFile(TidyFile):
    """A text file that writes ASCII only."""

    def form(self, text: str) -> str:
        return super().form(text).translate(ASCII).encode("ascii", "replace").decode("ascii")

    @property
    def encoding(self) -> str:
        return "ascii"


class _Screen(Console):
    """A console that shows no control characters: texts of files that nobody vouches for come by here, too.

    rich would end the process with status 1 where the reader of a pipe is gone.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                yield Segment(_shown(text), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console() -> Console:
    """The console on stdout."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    kind = TidyFile if encoding.lower().startswith("utf") else AsciiFile
    found = _Screen(file=cast("IO[str]", kind(sys.stdout)), theme=THEME, highlight=False, emoji=False, markup=False)
    found.width = max(NARROWEST, min(found.width or USUAL, WIDEST))
    return found
