"""Python values as vLLM prints them: literals, enums, and objects by their repr. Nothing is evaluated."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

MAX_DEPTH = 40
MAX_NODES = 50_000
MAX_TEXT = 10_000

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,4})?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w.]{0,200}")
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_ENUM = re.compile(r"<(?P<kind>\w{1,100})\.(?P<name>\w{1,100}): ")
_KEY = re.compile(r"(?P<key>[A-Za-z_]\w{0,100})=")
_CUT = re.compile(r"\[\.\.\.\],? ?")
_ESCAPES = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|(.))", re.DOTALL
)
_NAMED = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS = {"None": None, "True": True, "False": False}
_PLAIN = re.compile(r"[^'\"{}\[\]()<>,:]+")
_CLOSES = {"{": "}", "[": "]", "(": ")", "<": ">"}


class Unreadable(ValueError):
    """A value that is not of the form of a Python value."""


def parse_dict(text: str) -> dict[str, Any] | None:
    """The dict that `text` prints, whole; None where it is none. An enum is its name, another object its text.

    "[...]", which is left where a log was cut by hand, is passed over.
    """
    reader = _Reader(text)
    try:
        value = reader.value(0)
        reader.blank()
    except (Unreadable, RecursionError):
        return None
    return value if isinstance(value, dict) and reader.at == len(text) else None


def parse_settings(text: str) -> dict[str, Any] | None:
    """The settings of a line "name=value, name=value"; a value of no known form is its text. None: not such a line."""
    reader = _Reader(text)
    settings: dict[str, Any] = {}
    try:
        while reader.at < len(text):
            reader.skip_cuts()
            if reader.at >= len(text):
                break
            key = _KEY.match(text, reader.at)
            if key is None:
                return None
            reader.at = key.end()
            settings[key["key"]] = reader.loose(until=",")
            reader.skip(", ")
    except (Unreadable, RecursionError):
        return None
    return settings or None


class _Reader:
    """Goes through a text once, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.nodes = 0
        self.steps = 8 * len(text) + 1000

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def skip(self, literal: str) -> bool:
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def skip_cuts(self) -> None:
        self.blank()
        while match := _CUT.match(self.text, self.at):
            self.at = match.end()

    def value(self, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise Unreadable
        self.blank()
        first = self.text[self.at : self.at + 1]
        if first == "{":
            return self._braces(depth)
        if first in ("[", "("):
            return self._items(_CLOSES[first], depth)
        if first in ("'", '"'):
            return self._string()
        if first == "<":
            return self._object()
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return _number(number[0])
        return self._word(depth)

    def loose(self, until: str) -> Any:
        """A value up to a separator of this level: of a known form, else its text."""
        start = self.at
        try:
            value = self.value(0)
            if self.at >= len(self.text) or self.text[self.at] in until:
                return value
        except Unreadable:
            pass
        self.at = start
        self._over(until)
        text = self.text[start : self.at]
        return {"None": None, "True": True, "False": False}.get(text, text[:MAX_TEXT])

    def _braces(self, depth: int) -> Any:
        self.at += 1
        found: dict[Any, Any] = {}
        while True:
            self.skip_cuts()
            if self.skip("}"):
                return found
            key = self.value(depth + 1)
            self.blank()
            if not self.skip(":"):
                found[str(key)] = True  # A set: its members.
            else:
                found[str(key)] = self._member(depth, "}")
            self.blank()
            self._comma("}")

    def _items(self, close: str, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while True:
            self.skip_cuts()
            if self.skip(close):
                return items
            items.append(self._member(depth, close))
            self._comma(close)

    def _member(self, depth: int, close: str) -> Any:
        """A value inside brackets. One of no known form is its text, up to the next comma of this level."""
        self.blank()
        start, nodes = self.at, self.nodes
        try:
            value = self.value(depth + 1)
            self.blank()
            if self.text[self.at : self.at + 1] in (",", close):
                return value
        except Unreadable:
            if self.nodes > MAX_NODES:
                raise
        self.at, self.nodes = start, nodes + 100
        self._over("," + close)
        return self.text[start : self.at].strip()[:MAX_TEXT]

    def _comma(self, close: str) -> None:
        self.blank()
        if not self.skip(",") and self.text[self.at : self.at + 1] != close:
            raise Unreadable

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise Unreadable
        self.at = match.end()
        return _ESCAPES.sub(_escape, match[0][1:-1])

    def _object(self) -> Any:
        """<Kind.NAME: value> as "NAME"; any other <...> as its text."""
        start, enum = self.at, _ENUM.match(self.text, self.at)
        self.at += 1
        self._over(">")
        if not self.skip(">"):
            raise Unreadable
        return enum["name"] if enum else self.text[start : self.at][:MAX_TEXT]

    def _word(self, depth: int) -> Any:
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise Unreadable
        self.at = match.end()
        if not self.text.startswith("(", self.at):
            return _WORDS.get(match[0], match[0])
        start = match.start()
        self.at += 1
        self._over(")")
        if not self.skip(")"):
            raise Unreadable
        return self.text[start : self.at][:MAX_TEXT]

    def _spend(self, steps: int) -> None:
        """A text may be gone over a few times, not once for each of its brackets."""
        self.steps -= steps
        if self.steps < 0:
            self.nodes = MAX_NODES + 1
            raise Unreadable

    def _over(self, until: str) -> None:
        """Goes to the next of `until` outside brackets and strings, or to the end."""
        text = self.text
        open_: list[str] = []
        while self.at < len(text):
            if plain := _PLAIN.match(text, self.at):
                self._spend(plain.end() - self.at)
                self.at = plain.end()
                continue
            self._spend(1)
            char = text[self.at]
            if not open_ and char in until:
                return
            if char in "'\"" and (match := _STRING.match(text, self.at)):
                self.at = match.end()
                continue
            if char in _CLOSES:
                open_.append(_CLOSES[char])
            elif open_ and char == open_[-1]:
                open_.pop()
            self.at += 1


def _number(digits: str) -> float | int | str:
    """The number; one that no float holds stays text, as JSON has no infinity."""
    if not set(digits) & set(".eE"):
        return int(digits)
    found = float(digits)
    return found if isfinite(found) else digits


def _escape(match: re.Match[str]) -> str:
    if code := match[1] or match[2] or match[3]:
        return chr(int(code, 16))
    return _NAMED.get(match[4], match[4])
