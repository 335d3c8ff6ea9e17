"""Offsets of a text as lines and columns, as editors and other programs count them."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Source

MARK = "\ufeff"
"""A byte order mark; no editor counts it as a column."""


class Region(NamedTuple):
    """A stretch of a text; lines and columns from 1, the end column is the first behind it."""

    line: int
    column: int
    end_line: int
    end_column: int


def region_of(at: Located, utf16: bool = False) -> Region:
    """The region of a place. Columns are characters; with `utf16`, UTF-16 code units."""
    return region(at.source, at.span.start, at.span.end, utf16, at.span.line)


def region(source: Source, start: int, end: int, utf16: bool = False, line: int | None = None) -> Region:
    """The region from offset `start` to before `end`; `line` is that of the start, where it is known."""
    text = source.text
    first = line if line is not None else text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, end)
    return Region(first, _column(text, start, utf16), last, _column(text, end, utf16))


def _column(text: str, at: int, utf16: bool) -> int:
    begin = text.rfind("\n", 0, at) + 1
    if begin == 0 and text.startswith(MARK):
        begin = min(1, at)
    if not utf16:
        return at - begin + 1
    return len(text[begin:at].encode("utf-16-le", "surrogatepass")) // 2 + 1


def line_text(source: Source, at: int) -> str:
    """The line that offset `at` is in, without its end."""
    begin = source.text.rfind("\n", 0, at) + 1
    end = source.text.find("\n", at)
    return source.text[begin : len(source.text) if end < 0 else end].rstrip("\r").removeprefix(MARK)
