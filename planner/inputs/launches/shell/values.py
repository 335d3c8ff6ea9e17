"""Values of a script: words as a program gets them, and the variables that hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_FIELDS = 6_000
MAX_RUNS = 1_000
MAX_WORK = 4_000_000
"""Characters put in for variables in all; a script of doublings would never end."""

MAX_TEXT = 200_000
"""Longest value; a program cannot get a longer argument."""
_SPLIT = re.compile(r"[^ \t\n]+")


class Run(NamedTuple):
    """`length` characters of a text from `at` stand in the script from `start`, just so."""

    at: int
    start: int
    length: int


class Field(NamedTuple):
    """One word as a program gets it.

    Attributes:
        text: its text; unknown parts as they are written.
        start, end: offsets of the word in the script; -1 where it is not of the script.
        literal: it stands there just so.
        runs: which parts of the text stand where.
        unknown: the parts that are not known, as written.
        several: variables in it that take several values, of which the first was taken.
        outer: what it was before the script, where it is not of the script.
    """

    text: str
    start: int = -1
    end: int = -1
    literal: bool = False
    runs: tuple[Run, ...] = ()
    unknown: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    outer: object = None


class Value(NamedTuple):
    """What a variable holds.

    Attributes:
        fields: one field, or those of an array.
        array: it is an array.
        known: its value is in the script.
        maybe: what the script adds to it only under a condition.
    """

    fields: tuple[Field, ...] = ()
    array: bool = False
    known: bool = True
    maybe: tuple[Field, ...] = ()

    @property
    def text(self) -> str | None:
        return self.fields[0].text if self.known and self.fields else "" if self.known else None

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(field.text for field in self.fields)


UNKNOWN = Value(known=False)


class Scope:
    """Variables as they stand at one point of a script."""

    def __init__(self) -> None:
        self.variables: dict[str, Value] = {}
        self.arguments: Sequence[Field] | None = None
        self.work = MAX_WORK
        self.used: set[str] = set()
        self.maybe: list[Field] = []

    def find(self, name: str) -> Value | None:
        if name in ("@", "*"):
            return None if self.arguments is None else Value(tuple(self.arguments), True)
        if name.isdigit():
            if self.arguments is None or name == "0":
                return None
            index = int(name) - 1 if len(name) < 6 else MAX_FIELDS
            return Value((self.arguments[index],)) if index < len(self.arguments) else Value((Field(""),))
        self.used.add(name)
        value = self.variables.get(name)
        if value is not None and len(self.maybe) < MAX_RUNS:
            self.maybe.extend(value.maybe)
        return value


def joined(one: Value, other: Value) -> Value:
    """What `NAME+=other` makes of a variable."""
    if one.array or other.array:
        return Value((*one.fields, *other.fields)[:MAX_FIELDS], True, one.known, one.maybe + other.maybe)
    if not one.known or not one.fields or not other.fields:
        return one if one.known and one.fields else UNKNOWN if not one.known else other
    first, second = one.fields[0], other.fields[0]
    runs = (*first.runs, *(run._replace(at=run.at + len(first.text)) for run in second.runs))[:MAX_RUNS]
    text = (first.text + second.text)[:MAX_TEXT]
    field = Field(text, second.start, second.end, False, runs, first.unknown + second.unknown, first.several)
    return Value((field,), maybe=one.maybe + other.maybe)


def element(fields: tuple[Field, ...], index: str) -> tuple[Field, ...]:
    number = index.strip("[]") or "0"
    if number.isdigit() and len(number) < 6:
        return fields[int(number) : int(number) + 1]
    return fields[:1]


def split_at_blanks(field: Field) -> list[tuple[Field, bool]]:
    """A value cut at blanks, as an unquoted variable is."""
    found: list[tuple[Field, bool]] = []
    first = 0
    for part in _SPLIT.finditer(field.text):
        if part[0] == field.text:
            return [(field, True)]
        start, end = part.span()
        while first < len(field.runs) and field.runs[first].at + field.runs[first].length <= start:
            first += 1
        runs = []
        for index in range(first, len(field.runs)):
            run = field.runs[index]
            if run.at >= end:
                break
            at = max(run.at, start)
            runs.append(Run(at - start, run.start + at - run.at, min(run.at + run.length, end) - at))
        unknown = _unknown_in(part[0], field.unknown)
        found.append((Field(part[0], runs=_merged(tuple(runs)), unknown=unknown, several=field.several), False))
        if len(found) > MAX_FIELDS:
            break
    return found


def _unknown_in(text: str, unknown: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the parts that are not known are in a word; of very many, only whether there are any."""
    if len(unknown) <= MAX_RUNS:
        return tuple(name for name in unknown if name in text)
    return (text,) if any(sign in text for sign in "$`…") else ()


def _merged(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Runs that follow each other as one."""
    found: list[Run] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.at + last.length == run.at and last.start + last.length == run.start:
            found[-1] = last._replace(length=last.length + run.length)
        else:
            found.append(run)
    return tuple(found)
