"""Items of a YAML block sequence taken out or put in, a line each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..launch import Span
from ..lines import line_end, line_start, newline_at, next_line
from .kinds import CannotEdit, Splice

_DASH = re.compile(r"([ \t]*-[ \t]+)(?:[&!]\S+[ \t]+)*")
_REST = re.compile(r"[ \t]*(?:(?<=[ \t])#[^\r\n]*)?")

UNUSUAL = "the item does not stand on a line of its own"


def without_items(text: str, spans: Sequence[Span]) -> list[Splice]:
    """Take out the lines of these items, with the comments behind them; those above stay.

    Raises:
        CannotEdit: an item shares its line.
    """
    lines = []
    for span in sorted(set(spans)):
        _prefix(text, span)
        lines.append(Splice(line_start(text, span.start), next_line(text, _last(text, span))))
    return lines


def with_items(text: str, beside: Span, items: Sequence[str], *, before: bool) -> Splice:
    """Put lines in before or behind the item at `beside`, indented as that one."""
    prefix = _prefix(text, beside)
    newline = newline_at(text, beside.start)
    if before:
        start = line_start(text, beside.start)
        return Splice(start, start, "".join(f"{prefix}{item}{newline}" for item in items))
    end = line_end(text, _last(text, beside))
    return Splice(end, end, "".join(f"{newline}{prefix}{item}" for item in items))


def item_end(text: str, span: Span) -> int:
    """Where what the item says ends; the span of a block scalar takes the blank lines behind it along."""
    return len(text[: span.end].rstrip()) if text[span.start] in "|>" else span.end


def _prefix(text: str, span: Span) -> str:
    """Indentation, dash and blanks in front of an item."""
    found = _DASH.fullmatch(text, line_start(text, span.start), span.start)
    if found is None:
        raise CannotEdit(UNUSUAL)
    return found[1]


def _last(text: str, span: Span) -> int:
    """An offset in the last line of the item."""
    end = item_end(text, span)
    rest = _REST.match(text, end)
    if rest is None or rest.end() != line_end(text, end):
        raise CannotEdit(UNUSUAL)
    return end
