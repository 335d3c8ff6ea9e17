"""A word of a file with something put in for its variables, before anything runs it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ....errors import shorten
from .word import SpanOf, Word

MAX_TEXT = 200_000
"""Longest word that variables are put into, and that comes of it; no system passes a longer one to a program."""


class Reference(NamedTuple):
    """A stretch of a word that stands for something else: `value`, or None where that is not known."""

    start: int
    end: int
    value: str | None


def put_in(word: Word, references: Iterable[Reference]) -> Word:
    """The word with its references put in; those whose value is not known stay and are named.

    Args:
        word: as the file has it.
        references: in the order of the text.
    """
    if len(word.text) > MAX_TEXT:
        return word
    parts: list[str] = []
    moves: list[tuple[int, int, int, int]] = []  # of the new text from, to; of the old one from, to
    unknown: list[str] = []
    at = length = 0
    for start, end, value in references:
        if value is None or length + len(value) > MAX_TEXT:
            unknown.append(shorten(word.text[start:end], 60))
            continue
        before = word.text[at:start]
        parts += (before, value)
        length += len(before)
        moves.append((length, length + len(value), start, end))
        length += len(value)
        at = end
    if not moves and not unknown:
        return word
    text = "".join([*parts, word.text[at:]])
    changed = tuple((start, end) for start, end, _, _ in moves)
    return word._replace(
        text=text,
        span_of=_moved(word.stretch, moves) if word.span_of is not None else None,
        unknown=(*word.unknown, *unknown),
        changed=changed,
    )


def _moved(span_of: SpanOf, moves: list[tuple[int, int, int, int]]) -> SpanOf:
    """Places of the new text; of what was put in, the place of the variable."""
    ends = [new_end for _, new_end, _, _ in moves]

    def before(at: int, side: int) -> int:
        index = bisect_right(ends, at)
        if index < len(moves) and at > moves[index][0]:
            return moves[index][side]
        return at + moves[index - 1][3] - moves[index - 1][1] if index else at

    return lambda start, end: span_of(before(start, 2), before(end, 3))
