"""Lines and columns of one text."""

from __future__ import annotations

import re
from bisect import bisect_right

from .launch import Source, Span


class Places:
    """Spans of one text, by offsets."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lines: list[int] = []

    def span(self, start: int, end: int) -> Span:
        if not self._lines:
            self._lines = [0, *(found.end() for found in re.finditer("\n", self.source.text))]
        line = bisect_right(self._lines, start)
        return Span(start, end, line, start - self._lines[line - 1] + 1)
