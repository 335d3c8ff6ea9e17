"""Bytes that are known, measured or estimated: a best value between two bounds, and where it is from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MIB = 1 << 20
GIB = 1 << 30


class Interval(NamedTuple):
    """Bytes, or a difference of bytes.

    Attributes:
        low, best, high: ascending. Equal where the value is exact or was measured.
        source: where the value is from, in words for a person.
    """

    low: int
    best: int
    high: int
    source: str

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def plus(self, other: Interval, source: str | None = None) -> Interval:
        """The sum: both may be at their bounds at once."""
        return Interval(self.low + other.low, self.best + other.best, self.high + other.high, source or self.source)

    def as_dict(self) -> dict[str, int | str]:
        return {"low": self.low, "best": self.best, "high": self.high, "source": self.source}


def exactly(value: int, source: str) -> Interval:
    """A value that is known, measured or worked out without doubt."""
    return Interval(value, value, value, source)


def between(low: float, best: float, high: float, source: str) -> Interval:
    """Whole bytes, in order whatever the rounding did; `best` counts where the bounds cross it."""
    middle = round(best)
    return Interval(min(round(low), middle), middle, max(round(high), middle), source)


def total(parts: Iterable[Interval], source: str) -> Interval:
    """The sum of `parts`; of none: 0."""
    low = best = high = 0
    for part in parts:
        low, best, high = low + part.low, best + part.best, high + part.high
    return Interval(low, best, high, source)
