"""Lines of a file with a stretch underlined: tabs, wide characters, long lines and secrets are seen to."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Source
from ..inputs.secret_shapes import HIDDEN
from .check_places import MARK
from .check_secrets import Secrets

TAB = 4
MOST_LINES = 4
"""Lines of a stretch that are all shown; of more only the first and the last are."""

LEAST_ROOM = 20
CUT = "…"


class Underlined(NamedTuple):
    """One line of a text as it is shown.

    Attributes:
        number: of the line, from 1; 0 stands for lines that are left out.
        text: what is shown of it.
        marks: blanks and carets below it.
    """

    number: int
    text: str
    marks: str


class _Cell(NamedTuple):
    shown: str
    width: int
    marked: bool


def excerpt(at: Located, secrets: Secrets, width: int) -> list[Underlined]:
    """The lines of a place, cut to `width` columns around what is underlined."""
    source, span = at
    found = []
    line, begin = span.line, source.text.rfind("\n", 0, span.start) + 1
    last = span.line + source.text.count("\n", span.start, max(span.start, span.end - 1))
    while line <= last:
        end = source.text.find("\n", begin)
        end = len(source.text) if end < 0 else end
        if last - span.line < MOST_LINES or line in (span.line, last):
            found.append(_underlined(source, line, (begin, end), (span.start, span.end), secrets, width))
        elif line == span.line + 1:
            found.append(Underlined(0, "", ""))
        line, begin = line + 1, end + 1
    return found


def _underlined(
    source: Source, number: int, line: tuple[int, int], span: tuple[int, int], secrets: Secrets, width: int
) -> Underlined:
    begin, end = line
    start, stop = max(span[0], begin), min(max(span[1], span[0] + 1), end)
    # Of a long line only what may be shown is looked at.
    first, last = max(begin, start - 2 * width), min(end, start + 3 * width)
    hidden = secrets.within(source, first, last)
    if span[0] < begin:
        while start < stop and source.text[start] in " \t":
            start += 1
    cells = _cells(source.text, (first, last), (start, stop), hidden)
    room = max(width, LEAST_ROOM)
    mark = next((index for index, cell in enumerate(cells) if cell.marked), len(cells))
    cells, cut_left, cut_right = _window(cells, mark, room)
    text = "".join(cell.shown for cell in cells).rstrip()
    marks = "".join(("^" if cell.marked else " ") * cell.width for cell in cells)
    # Nothing is marked where the stretch is empty, at the end of a line.
    marks = marks.rstrip() if "^" in marks else marks + "^"
    left = CUT if cut_left or first > begin else ""
    right = CUT if cut_right or last < end else ""
    return Underlined(number, left + text + right, " " * len(left) + marks)


def _cells(text: str, line: tuple[int, int], span: tuple[int, int], hidden: list[tuple[int, int]]) -> list[_Cell]:
    cells: list[_Cell] = []
    column = 0
    for at in range(*line):
        char = text[at]
        if (char == "\r" and at == line[1] - 1) or char == MARK:
            continue
        secret = next((one for one in hidden if one[0] <= at < one[1]), None)
        if secret is not None:
            # The whole of it in the place of its first letter, so that not even its length shows.
            shown = HIDDEN if at == max(secret[0], line[0]) else ""
            size = len(shown)
        elif char == "\t":
            size = TAB - column % TAB
            shown = " " * size
        elif not char.isprintable():
            shown, size = "?", 1
        else:
            shown, size = char, width_of(char)
        cells.append(_Cell(shown, size, span[0] <= at < span[1]))
        column += size
    return cells


def width_of(char: str) -> int:
    """Columns that a terminal takes for a printable character: 0, 1 or 2."""
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _window(cells: list[_Cell], mark: int, room: int) -> tuple[list[_Cell], bool, bool]:
    """The cells that fit, with some room before the mark; and whether any are left out on either side."""
    if sum(cell.width for cell in cells) <= room:
        return cells, False, False
    room -= 2
    first, before = mark, 0
    while first > 0 and before + cells[first - 1].width <= room // 3:
        first -= 1
        before += cells[first].width
    last, taken = first, 0
    while last < len(cells) and taken + cells[last].width <= room:
        taken += cells[last].width
        last += 1
    while last == len(cells) and first > 0 and taken + cells[first - 1].width <= room:
        first -= 1
        taken += cells[first].width
    return cells[first:last], first > 0, last < len(cells)
