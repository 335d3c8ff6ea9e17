"""Items of a flow sequence or a JSON array taken out or put in, with their commas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..launch import Span
from ..lines import line_end, line_start, newline_at, next_line
from .kinds import CannotEdit, Splice

_SPACE = re.compile(r"(?:[ \t\r\n]|\\(?=\r?\n)|(?<=[ \t\n,\[])#[^\r\n]*)*")
_REST = re.compile(r"[ \t]*(?P<on>\\(?=\r?\n))?(?P<comment>(?<=[ \t])#[^\r\n]*)?(?=\r?\n|\Z)")
_QUOTED_OR_COMMENT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:(?<=[ \t])|^)#.*")

UNUSUAL = "the commas around the item are laid out in an unusual way"


class Run(NamedTuple):
    """Items side by side.

    Attributes:
        start, end: from the first to the last.
        before: offset of the "[" or "," (of a mapping "{") in front.
        after: offset of the "]" or "," behind.
    """

    start: int
    end: int
    before: int
    after: int


def without_flow(text: str, spans: Sequence[Span]) -> list[Splice]:
    """Take out the items at these spans.

    Raises:
        CannotEdit: they are not parted by commas.
    """
    return [splice for run in _runs(text, spans) for splice in _without(text, run)]


def _runs(text: str, spans: Sequence[Span]) -> list[Run]:
    runs: list[Run] = []
    for span in sorted(set(spans)):
        if runs and text[runs[-1].after] == "," and _skip(text, runs[-1].after + 1) == span.start:
            runs[-1] = runs[-1]._replace(end=span.end, after=_after(text, span))
        else:
            runs.append(Run(span.start, span.end, _before(text, span), _after(text, span)))
    return runs


def _without(text: str, run: Run) -> list[Splice]:
    last = text[run.after] != ","
    line = line_start(text, run.start)
    if not text[line : run.start].strip(" \t"):
        rest = _REST.match(text, run.end if last else run.after + 1)
        if rest is not None:
            comma = [Splice(run.before, run.before + 1)] if last and text[run.before] == "," else []
            return [*comma, Splice(line, next_line(text, rest.end()))]
    if not last:
        end = run.after + 1
        while text[end : end + 1] in (" ", "\t"):
            end += 1
        return [Splice(run.start, end)]
    if text[run.before] != ",":
        return [Splice(run.start, run.end)]
    if "#" in text[run.before : run.start]:
        return [Splice(run.before, run.before + 1), Splice(run.start, run.end)]
    return [Splice(run.before, run.end)]


def with_flow(text: str, beside: Span, items: Sequence[str], *, before: bool) -> list[Splice]:
    """Put items in before or behind the one at `beside`, on lines of their own where that one has one."""
    line = line_start(text, beside.start)
    indent = text[line : beside.start]
    own_line = not indent.strip(" \t")
    if before:
        tail = f",{newline_at(text, line)}{indent}" if own_line else ", "
        return [Splice(beside.start, beside.start, "".join(f"{item}{tail}" for item in items))]
    after = _after(text, beside)
    last = text[after] != ","
    rest = _REST.match(text, beside.end if last else after + 1) if own_line else None
    if rest is None:
        return [Splice(beside.end, beside.end, "".join(f", {item}" for item in items))]
    end = line_end(text, rest.end())
    newline = newline_at(text, beside.end)
    go_on = " \\" if rest["on"] else ""
    lines = [f"{newline}{indent}{item},{go_on}" for item in items]
    if last:
        lines[-1] = lines[-1].removesuffix(go_on).removesuffix(",") + go_on
        return [Splice(beside.end, beside.end, ","), Splice(end, end, "".join(lines))]
    return [Splice(end, end, "".join(lines))]


def _after(text: str, span: Span) -> int:
    at = _skip(text, span.end)
    if text[at : at + 1] not in (",", "]", "}"):
        raise CannotEdit(UNUSUAL)
    return at


def _skip(text: str, at: int) -> int:
    """Past blanks, line ends and comments."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _before(text: str, span: Span) -> int:
    """Offset of the comma or bracket in front of an item; comments between are passed over."""
    at = span.start
    while True:
        line = line_start(text, at)
        part = text[line:at].rstrip(" \t\r\n\\")
        part = _without_comment(part).rstrip(" \t\r\n\\")
        if part:
            if part[-1] not in ",[{":
                raise CannotEdit(UNUSUAL)
            return line + len(part) - 1
        if line == 0:
            raise CannotEdit(UNUSUAL)
        at = line - 1


def _without_comment(line: str) -> str:
    for found in _QUOTED_OR_COMMENT.finditer(line):
        if found[0][0] == "#":
            return line[: found.start()]
    return line
