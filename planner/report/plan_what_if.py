"""The table of `cgplan plan --what-if`: its columns, its rows, and what is to be known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..memory.estimates import GIB, MIB
from ..memory.what_if import Outcome
from .plan_answer import meant, verdict, warned
from .plan_numbers import gib, seconds

HEAD = ("starts", "KV GiB", "blocks", "tokens", "at once", "graphs", "graphs GiB", "capture s")
LEAST_TOLD = ("blocks", "capture s", "graphs GiB", "graphs", "at once", "outside GiB")
"""Columns that a narrow screen leaves out, in this order."""
MOST_TOLD = 4
MOST_REASONS = 8
SHOWN_FROM = 10 * MIB
"""A peak that moves by less between the rows is no column."""


class Column(NamedTuple):
    """A column that only some tables have: its head, what it holds, and what that means."""

    head: str
    of: Callable[[Outcome], int | None]
    meaning: str


OUTSIDE = Column(
    "outside GiB",
    lambda one: one.unasked_bytes,
    "the GPU less what is asked for; CUDA's context and the graphs have to fit into it",
)
PEAK = Column("peak GiB", lambda one: one.activation_bytes, "of a step, as vLLM profiles it; the KV cache gives it up")
FREE = Column("free GiB", lambda one: one.surely_free_bytes, "what surely stays free while idle")
PREFILL = Column(
    "prefill GiB",
    lambda one: one.prefill_bytes,
    "what a prefill of all batched tokens takes at most beyond that peak (CG552); it has to fit into what stays free",
)


def _columns(shown: Sequence[Outcome]) -> list[Column]:
    """What stays outside the budget where the graphs have to fit into that; the peak and what stays free where the
    peak moves from row to row."""
    found = [OUTSIDE] if any(one.unasked_bytes is not None for one in shown) else []
    peaks = [one.activation_bytes for one in shown if one.activation_bytes is not None]
    if not peaks or max(peaks) - min(peaks) < SHOWN_FROM:
        return found
    prefill = [PREFILL] if any(one.prefill_bytes is not None for one in shown) else []
    return [*found, PEAK, FREE, *prefill]


def head(shown: Sequence[Outcome]) -> tuple[str, ...]:
    """The columns behind the value."""
    return (*HEAD, *(column.head for column in _columns(shown)))


def least_told(heads: Sequence[str]) -> tuple[int, ...]:
    """Places of the columns that a narrow screen leaves out first."""
    return tuple(heads.index(name) for name in LEAST_TOLD if name in heads)


def rows(shown: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """A row of each, with the cells that `head` names behind the value."""
    more = _columns(shown)
    return [(*_row(one), *(_size(column.of(one)) for column in more)) for one in shown]


def to_know(shown: Sequence[Outcome], varied: Sequence[Outcome]) -> list[str]:
    """What columns and words mean, and what a plan of a value warns of; `varied`: the rows that are values."""
    columns = [f"{column.head}: {column.meaning}" for column in _columns(shown)]
    return [*columns, *meant(shown), *warned(shown), *_taken_off(varied)]


def why_not(shown: Sequence[Outcome]) -> list[str]:
    """What keeps values from starting, each reason once, with the values that it is of."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        if one.why_not[0]:
            found.setdefault(one.why_not, []).append(one.name)
    return [
        f"{code}, of {', '.join(names[:MOST_TOLD])}{' and more' if len(names) > MOST_TOLD else ''}: {message}"
        for (code, message), names in list(found.items())[:MOST_REASONS]
    ]


def _size(value: int | None) -> str:
    return "" if value is None else gib(value)


def _row(one: Outcome) -> tuple[str, ...]:
    return (
        one.name,
        verdict(one),
        _size(one.kv_bytes),
        "" if one.num_blocks is None else f"{one.num_blocks:,}",
        "" if one.tokens is None else f"{one.tokens:,}",
        "" if one.max_concurrency is None else f"{one.max_concurrency:.2f}x",
        "" if one.kv_bytes is None else str(one.graphs),
        _size(one.graph_bytes),
        seconds(one),
    )


def _taken_off(outcomes: Sequence[Outcome]) -> list[str]:
    """Of which values vLLM takes much more off for its graphs than capture takes: their KV cache is out of line."""
    found = [
        f"{one.name}: vLLM takes {gib(one.deducted_bytes)} GiB off for graphs that take {gib(one.graph_bytes)} GiB; "
        "`cgplan plan` of it says why"
        for one in outcomes
        if one.deducted_bytes and one.graph_bytes is not None and one.deducted_bytes > 1.5 * one.graph_bytes + GIB // 10
    ]
    more = len(found) - MOST_TOLD
    return [*found[:MOST_TOLD], f"so it is of {more} more"] if more > 0 else found
