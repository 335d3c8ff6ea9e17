"""From the value of a YAML scalar back to the text it is written in, character by character.

Each style is read a second time here, with the place of everything; what comes out must be what the parser gave,
else nothing is claimed.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable

MAX_MAPPED = 1024 * 1024
"""Longest scalar, in characters of the source, whose value is traced back."""

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_KEPT_BREAKS = "\u2028\u2029"
_AFTER_BREAK = re.compile("[ \t\r\n\x85\u2028\u2029]*")
_HEADER = re.compile("[|>]([-+1-9]{0,2})(?:[ \t]+#[^\r\n]*|[ \t]*)(?=\r|\n|\x85|\u2028|\u2029|$)")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "\\": "\\", "/": "/", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


class Pieces:
    """A value as a row of pieces, each with its stretch of the source.

    A piece is copied, so that its characters stand in the source one by one, or it stands for its stretch as a whole,
    as an escape or a folded line break does. Without pieces nothing is known, and it is false.
    """

    def __init__(self) -> None:
        self._text = array("I")
        self._starts = array("I")
        self._ends = array("I")
        self._parts: list[str] = []
        self._length = 0
        self.known = True

    def __bool__(self) -> bool:
        return self.known

    def __len__(self) -> int:
        return len(self._text)

    @property
    def end(self) -> int:
        """Offset in the source behind the last piece."""
        return self._ends[-1] if self._ends else 0

    def copy(self, source: str, start: int, end: int) -> None:
        """source[start:end] as it is."""
        if end > start:
            self.put(source[start:end], start, end)

    def put(self, text: str, start: int, end: int) -> None:
        """`text`, for which source[start:end] stands."""
        self._text.append(self._length)
        self._starts.append(start)
        self._ends.append(end)
        self._parts.append(text)
        self._length += len(text)

    def check(self, text: str) -> bool:
        """Whether the pieces make up `text`, so that they are known. Nothing is put in after that."""
        self.known = self.known and self._length == len(text) and "".join(self._parts) == text
        self._parts = []
        return self.known

    def stretch(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of the source in which text[start:end] is written."""
        if not self._text:
            return 0, 0
        first = self._offset(min(start, self._length), 0)
        if end <= start:
            return first, first
        return first, self._offset(min(end, self._length) - 1, 1)

    def _offset(self, at: int, side: int) -> int:
        index = max(0, bisect_right(self._text, at) - 1)
        start, end = self._starts[index], self._ends[index]
        inside = at - self._text[index]
        length = (self._text[index + 1] if index + 1 < len(self._text) else self._length) - self._text[index]
        if inside >= length:
            return end
        return start + inside + side if end - start == length else (start, end)[side]


def pieces(source: str, start: int, end: int, style: str, text: str) -> Pieces:
    """The pieces of a scalar at source[start:end], whose value is `text`; false where they are unknown."""
    if end - start > MAX_MAPPED:
        return _unknown()
    if style in ("literal", "folded"):
        return _block(source, start, end, style == "folded", text)
    found = Pieces()
    if style == "plain":
        _folded(source, start, end, found, lambda at: at, None)
    elif end - start < 2 or source[start] != source[end - 1] or source[start] != ("'" if style == "single" else '"'):
        found.known = False
    else:
        reader = _single if style == "single" else _double
        reader(source, start + 1, end - 1, found)
    if not len(found):
        found.put("", start + (style != "plain"), start + (style != "plain"))
    found.check(text)
    return found


def _single(source: str, start: int, end: int, found: Pieces) -> None:
    def quote(at: int) -> int:
        found.put("'", at, at + 2)
        return at + 2

    _folded(source, start, end, found, quote, re.compile("''"))


def _double(source: str, start: int, end: int, found: Pieces) -> None:
    def escape(at: int) -> int:
        letter = source[at + 1 : at + 2]
        if letter in _HEX and letter:
            stop = at + 2 + _HEX[letter]
            try:
                found.put(chr(int(source[at + 2 : stop], 16)), at, stop)
            except (ValueError, OverflowError):
                found.known = False
            return stop
        if letter in _ESCAPES and letter:
            found.put(_ESCAPES[letter], at, at + 2)
            return at + 2
        joined = _BREAK.match(source, at + 1)
        if joined is None:
            found.known = False
            return at + 2
        following = re.compile("[ \t]*").match(source, joined.end(), end)
        at = following.end() if following else joined.end()
        while (blank := _BREAK.match(source, at, end)) is not None:
            found.put("\n", blank.start(), blank.end())
            following = re.compile("[ \t]*").match(source, blank.end(), end)
            at = following.end() if following else blank.end()
        return at

    _folded(source, start, end, found, escape, re.compile(r"\\"))


def _folded(
    source: str, start: int, end: int, found: Pieces, special: Callable[[int], int], mark: re.Pattern[str] | None
) -> None:
    """Text in which line breaks are folded; at each `mark` `special` takes over, and says where it ends."""
    pattern = re.compile(f"{_BREAK.pattern}|{mark.pattern}") if mark is not None else _BREAK
    at = start
    while at < end:
        hit = pattern.search(source, at, end)
        if hit is None:
            break
        if mark is not None and mark.match(source, hit.start()):
            found.copy(source, at, hit.start())
            at = special(hit.start())
            continue
        stop = hit.start()
        while stop > at and source[stop - 1] in " \t":
            stop -= 1
        found.copy(source, at, stop)
        following = _AFTER_BREAK.match(source, hit.end(), end)
        at = following.end() if following else hit.end()
        breaks = _BREAK.findall(source, hit.start(), at)
        kept = "" if breaks[0] not in _KEPT_BREAKS else breaks[0]
        rest = "".join(one if one in _KEPT_BREAKS else "\n" for one in breaks[1:])
        found.put(kept + rest or " ", stop, at)
    found.copy(source, min(at, end), end)


def _block(source: str, start: int, end: int, folds: bool, text: str) -> Pieces:
    header = _HEADER.match(source, start)
    if header is None or header.end() > end:
        return _unknown()
    chomping = "".join(one for one in header[1] if one in "+-")
    first = _BREAK.match(source, header.end(), end)
    if first is None:
        found = Pieces()
        found.put("", start + 1, start + 1)
        found.check(text)
        return found
    explicit = header[1].strip("+-") != ""
    deepest = _indentation(source, first.end(), end)
    for indent in range(deepest, max(-1, deepest - 10) if explicit else deepest - 1, -1):
        found = _block_lines(source, first.end(), end, indent, folds, chomping)
        if found.check(text):
            if not len(found):
                found.put("", header.end(), header.end())
            return found
    return _unknown()


def _unknown() -> Pieces:
    found = Pieces()
    found.known = False
    return found


def _indentation(source: str, at: int, end: int) -> int:
    """Spaces in front of the first line that is not blank, or of the longest blank one."""
    widest = 0
    blank = re.compile(" *")
    while at < end:
        found = blank.match(source, at, end)
        stop = found.end() if found else at
        widest = max(widest, stop - at)
        ended = _BREAK.match(source, stop, end)
        if ended is None:
            return stop - at if stop < end else widest
        at = ended.end()
    return widest


def _block_lines(source: str, at: int, end: int, indent: int, folds: bool, chomping: str) -> Pieces:
    found = Pieces()
    breaks, at, here = _blank_lines(source, at, end, indent)
    line_break: tuple[str, int, int] | None = None
    while here:
        for one in breaks:
            found.put(*one)
        leads = source[at] not in " \t"
        ended = _BREAK.search(source, at, end)
        stop = ended.start() if ended else end
        found.copy(source, at, stop)
        line_break = _break(ended) if ended else ("", stop, stop)
        breaks, at, here = _blank_lines(source, ended.end() if ended else end, end, indent)
        if not here:
            break
        if folds and line_break[0] == "\n" and leads and source[at] not in " \t":
            if not breaks:
                found.put(" ", line_break[1], at)
        else:
            found.put(*line_break)
    if chomping != "-" and line_break is not None and line_break[0]:
        found.put(*line_break)
    if chomping == "+":
        for one in breaks:
            found.put(*one)
    return found


def _blank_lines(source: str, at: int, end: int, indent: int) -> tuple[list[tuple[str, int, int]], int, bool]:
    """The breaks of blank lines, where the next line's content starts, and whether it belongs to the scalar."""
    breaks: list[tuple[str, int, int]] = []
    while True:
        column = 0
        while column < indent and at < end and source[at] == " ":
            at += 1
            column += 1
        found = _BREAK.match(source, at, end)
        if found is None:
            return breaks, at, column == indent and at < end
        breaks.append(_break(found))
        at = found.end()


def _break(found: re.Match[str]) -> tuple[str, int, int]:
    return (found[0] if found[0] in _KEPT_BREAKS else "\n"), found.start(), found.end()
