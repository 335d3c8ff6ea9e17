"""Steps and tokens by mode, as bounds: equal where everything is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from ...vocabulary import CUDAGraphMode
from ..ratio import extreme_ratio
from .outcomes import Outcome

MODES = (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE)


class Bounds(NamedTuple):
    """The true value lies between `low` and `high`."""

    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        return self.low == self.high


Weighed = tuple[float, Sequence[Outcome]]
"""A count of steps, and the ways in which each of them may have gone; never none."""


@dataclass(frozen=True)
class Tally:
    """What a number of steps ran in.

    Attributes:
        steps: counted.
        modes: steps by mode; FULL, PIECEWISE, NONE.
        tokens: of all batches, before padding.
        padding: tokens that were computed for nothing.
        waste: padding as a share of all computed tokens.
    """

    steps: float
    modes: dict[CUDAGraphMode, Bounds]
    tokens: Bounds
    padding: Bounds
    waste: Bounds

    def share(self, mode: CUDAGraphMode) -> Bounds:
        """Share of the steps that ran in `mode`, 0 to 1."""
        low, high = self.modes[mode]
        return Bounds(low / self.steps, high / self.steps) if self.steps else Bounds(0.0, 0.0)

    @property
    def is_exact(self) -> bool:
        return all(bounds.is_exact for bounds in (*self.modes.values(), self.tokens, self.padding))


def tally(weighed: Iterable[Weighed]) -> Tally:
    """The tally of steps, each of which goes in one of its ways, independently of the others."""
    given = tuple(weighed)
    modes = {mode: _sum(given, lambda one, mode=mode: one.mode is mode) for mode in MODES}  # type: ignore[misc]
    padding = _sum(given, lambda one: one.padding)
    return Tally(
        steps=fsum(count for count, _ in given),
        modes=modes,
        tokens=_sum(given, lambda one: one.tokens),
        padding=padding,
        waste=Bounds(_waste(given, min), _waste(given, max)),
    )


def _sum(given: Sequence[Weighed], value: Callable[[Outcome], float]) -> Bounds:
    return Bounds(
        fsum(count * min(value(one) for one in ways) for count, ways in given),
        fsum(count * max(value(one) for one in ways) for count, ways in given),
    )


def _waste(given: Sequence[Weighed], pick: Callable[..., tuple[float, float]]) -> float:
    """The least or largest share of padding that the steps can have together."""
    return extreme_ratio([(count, [(one.padding, one.computed) for one in ways]) for count, ways in given], pick)
