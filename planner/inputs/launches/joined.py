"""A text that was put together from stretches of a file, such as a line that continues on the next."""

from __future__ import annotations

from bisect import bisect_right

from .launch import Span
from .places import Places


class Joined:
    """Pieces of a source as one text; knows where each character stands."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.parts: list[str] = []
        self.at: list[int] = []
        self.starts: list[int] = []
        self.length = 0
        self._text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self.parts)
        return self._text

    def add(self, start: int, end: int) -> None:
        """Put source.text[start:end] behind what is there."""
        if end > start:
            self._put(self.places.source.text[start:end], start)

    def put(self, text: str, start: int) -> None:
        """Put a text behind it that stands for the character at `start`."""
        for char in text:
            self._put(char, start)

    def _put(self, text: str, start: int) -> None:
        self.parts.append(text)
        self.at.append(self.length)
        self.starts.append(start)
        self.length += len(text)
        self._text = None

    def offset(self, at: int) -> int:
        """Offset in the source of a character of the text."""
        if not self.at:
            return 0
        index = max(bisect_right(self.at, at) - 1, 0)
        return self.starts[index] + at - self.at[index]

    def span_of(self, start: int, end: int) -> Span:
        """Where text[start:end] stands in the source."""
        first = self.offset(start)
        return self.places.span(first, self.offset(end - 1) + 1 if end > start else first)

    def part(self, start: int, end: int) -> Joined:
        """A stretch of it."""
        found = Joined(self.places)
        index = max(bisect_right(self.at, start) - 1, 0)
        while index < len(self.parts) and self.at[index] < end:
            at, text = self.at[index], self.parts[index]
            first, last = max(start, at), min(end, at + len(text))
            if first < last:
                found._put(text[first - at : last - at], self.starts[index] + first - at)
            index += 1
        return found
