"""How sure the gain of a list is: chance in the counts, buckets of the source, other traffic, each log by itself."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import NamedTuple

from ...errors import InputError
from ...resolve.resolution import Resolution
from ..ratio import Terms, extreme_ratio
from .effect import runs_of, tally_of
from .prices import Prices
from .steps import Step, scaled

DRAWS = 400
SEED = 20_261_130
"""The same answer each time."""
INTERVAL = 0.95
SHIFTS = (0.5, 0.75, 1.25, 1.5, 2.0)
MANY = 50
"""Above so many steps a count is drawn from a normal distribution in the place of Poisson's."""


class Interval(NamedTuple):
    """Shares of the cost of today's list; above 0: saved."""

    low: float
    high: float


@dataclass(frozen=True)
class Shift:
    """The same traffic with `factor` times as many requests: padding and cost of a step with either list."""

    factor: float
    waste_today: float
    waste_chosen: float
    gain: float


@dataclass(frozen=True)
class PartGain:
    """One part of a mixture by itself.

    Attributes:
        name: of the part.
        share: of the steps.
        waste_today, waste_chosen: padding with either list.
        gain: share of the cost that the chosen list saves.
        own_gain: what as many sizes save that are chosen for this part alone.
        gain_without: what the list saves here that is chosen for the other parts alone; None: there are none.
    """

    name: str
    share: float
    waste_today: float
    waste_chosen: float
    gain: float
    own_gain: float
    gain_without: float | None


class _Costs(NamedTuple):
    """Of one entry of the workload, by step: weight, cost today, cost with the chosen list."""

    weight: float
    today: float
    chosen: float


def costs_of(steps: Sequence[Step], today: Resolution, chosen: Resolution, prices: Prices) -> list[_Costs]:
    """The cost of each step, ascending by tokens, with either list."""
    both = zip(steps, runs_of(steps, today, prices), runs_of(steps, chosen, prices), strict=True)
    return [_Costs(step.weight, before.cost, after.cost) for step, before, after in both]


def together(costs: Iterable[_Costs]) -> list[_Costs]:
    """Steps of the same costs as one entry: their counts are drawn together."""
    found: dict[tuple[float, float], float] = {}
    for one in costs:
        found[one.today, one.chosen] = found.get((one.today, one.chosen), 0.0) + one.weight
    return [_Costs(weight, *pair) for pair, weight in found.items()]


def bootstrap(parts: Sequence[Sequence[_Costs]], scales: Sequence[float]) -> Interval:
    """Where the gain lies if the steps are drawn anew, as many on average: Poisson's bootstrap.

    It takes the steps as independent of each other. Steps of a server follow each other and look alike, so that a
    short log says less than the interval does.

    Args:
        parts: by part of the mixture, with weights that are counts of steps.
        scales: what a counted step of each part stands for in the mixture.
    """
    rng = random.Random(SEED)
    gains = []
    for _ in range(DRAWS):
        today = saved = 0.0
        for costs, scale in zip(parts, scales, strict=True):
            for one in costs:
                count = _drawn(rng, one.weight) * scale
                today += count * one.today
                saved += count * (one.today - one.chosen)
        gains.append(saved / today if today else 0.0)
    gains.sort()
    edge = round(DRAWS * (1 - INTERVAL) / 2)
    return Interval(gains[edge], gains[-1 - edge])


def of_ranges(ways: Sequence[tuple[float, Terms]]) -> Interval:
    """The least and the largest gain that the steps can have, each anywhere in the range that its source says.

    Args:
        ways: (steps, what one of them may cost: with the chosen list, today); (0, 0): it has no graph, and so is in no
            figure.
    """
    return Interval(1 - extreme_ratio(ways, max), 1 - extreme_ratio(ways, min))


def shifts(steps: Sequence[Step], today: Resolution, chosen: Resolution, prices: Prices) -> tuple[Shift, ...]:
    """The same traffic with fewer and with more requests; without those that run in what has no price."""
    found = []
    for factor in SHIFTS:
        moved = scaled(steps, factor, today)
        try:
            before, after = tally_of(moved, today, prices), tally_of(moved, chosen, prices)
        except InputError:
            continue  # More requests may run eager, and the profile has no times of that.
        found.append(Shift(factor, before.waste, after.waste, 1 - after.cost / before.cost))
    return tuple(found)


def _drawn(rng: random.Random, mean: float) -> float:
    """A count by Poisson's law."""
    if mean > MANY:
        return max(0.0, rng.gauss(mean, sqrt(mean)))
    limit, count, product = exp(-mean), 0, rng.random()
    while product > limit:
        count += 1
        product *= rng.random()
    return count
