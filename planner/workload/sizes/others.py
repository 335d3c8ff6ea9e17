"""Lists that are chosen for some steps and held against others: parts of a mixture, and halves of the steps; and how
sure a gain is on the steps of all parts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from ...errors import CgplanError
from ...resolve import resolve
from ...resolve.resolution import Resolution
from ..mixture import Traffic, weighed
from ..ratio import Terms
from ..replay.replay import settled
from .effect import Point, Setting, tally_of, with_sizes
from .frame import Frame, lists, nothing, with_graph
from .prices import Prices
from .robust import MANY, SEED, Interval, PartGain, bootstrap, costs_of, of_ranges, together
from .steps import Group, Step, anywhere, groups_of, merged, ways_of


@dataclass(frozen=True)
class TrafficSteps:
    """The traffic: parts as given and in proportion, what they ran under, their entries, those that may have a graph,
    and these as steps.
    """

    traffic: tuple[Traffic, ...]
    parts: tuple[Traffic, ...]
    resolution: Resolution
    groups: tuple[tuple[Group, ...], ...]
    graphed: tuple[tuple[Group, ...], ...]
    steps: tuple[Step, ...]

    @property
    def every(self) -> Iterator[Step]:
        return (step for of_part in self.groups for group in of_part for step in group)

    @property
    def weight(self) -> float:
        return sum(step.weight for step in self.every)


def traffic_steps(traffic: Sequence[Traffic], frame: Frame, resolution: Resolution) -> TrafficSteps:
    """The steps of the parts, which ran under `resolution`.

    Raises:
        InputError: CG720, none may have a graph.
    """
    parts = weighed(traffic)
    groups = tuple(groups_of(part.workload, resolution) for part in parts)
    graphed = tuple(with_graph(of_part, frame.trial) for of_part in groups)
    steps = merged(group for of_part in graphed for group in of_part)
    if not steps:
        raise nothing("no batch of the traffic could have a graph")
    return TrafficSteps(tuple(traffic), parts, resolution, groups, graphed, steps)


def guard_of(steps: Sequence[Step], frame: Frame, resolution: Resolution, spread: float) -> tuple[Step, ...]:
    """The steps of any size that a list is chosen for beside the traffic."""
    weight = sum(step.weight for step in steps) * spread / (1 - spread)
    found = (anywhere(resolution, frame.largest, weight),) if spread else ()
    return merged(with_graph(found, frame.trial))


def parts_of(
    setting: Setting, given: TrafficSteps, frame: Frame, chosen: Point, tuned: Resolution, spread: float
) -> tuple[PartGain, ...]:
    """Each part of a mixture by itself; () for one part."""
    parts, groups = given.parts, given.graphed
    if len(parts) < 2:
        return ()
    whole = sum(part.workload.steps for part in parts)
    found = []
    for at, part in enumerate(parts):
        steps = merged(groups[at])
        if not steps:
            continue
        before = tally_of(steps, setting.resolution, setting.prices)
        after = tally_of(steps, tuned, setting.prices)
        others = merged(group for other, of_part in enumerate(groups) if other != at for group in of_part)
        costs = [
            _cost_of_own(setting, chosen_for, steps, frame, len(chosen.sizes), spread) for chosen_for in (steps, others)
        ]
        own, without = (None if cost is None else 1 - cost / before.cost for cost in costs)
        gain = 1 - after.cost / before.cost
        share = part.workload.steps / whole
        found.append(PartGain(part.name, share, before.waste, after.waste, gain, gain if own is None else own, without))
    return tuple(found)


def _cost_of_own(
    setting: Setting, chosen_for: Sequence[Step], steps: Sequence[Step], frame: Frame, sizes: int, spread: float
) -> float | None:
    """What `steps` cost with the best list of so many sizes for other steps; None: there is none."""
    if not chosen_for:
        return None
    guard = guard_of(chosen_for, frame, setting.resolution, spread)
    best = lists((*chosen_for, *guard), frame, setting.prices, sizes)[-1]
    try:
        resolution = resolve(with_sizes(setting.deployment, best))
    except CgplanError:
        return None
    return tally_of(steps, resolution, setting.prices).cost


def held_out(setting: Setting, given: TrafficSteps, frame: Frame, sizes: int, spread: float) -> float | None:
    """The share of the cost that a list of so many sizes saves on one half of the steps, chosen for the other half.

    A list is measured on the steps that it was chosen for, which flatters it where they are few. None: the traffic is
    no measurement, or too small to be halved.
    """
    if not all(part.is_measured for part in given.traffic):
        return None
    halves = _halves(given)
    saved = base = 0.0
    for chosen_for, steps in (halves, halves[::-1]):
        cost = _cost_of_own(setting, chosen_for, steps, frame, sizes, spread) if steps else None
        if cost is None:
            return None
        weight = sum(step.weight for step in steps)
        today = tally_of(steps, setting.resolution, setting.prices).cost
        base += weight * today
        saved += weight * (today - cost)
    return saved / base


def by_chance(
    given: TrafficSteps, groups: Sequence[Sequence[Group]], before: Resolution, after: Resolution, prices: Prices
) -> Interval | None:
    """Where the gain lies by chance in the counts of `groups`, by part; None: the traffic is no measurement."""
    if not all(part.is_measured for part in given.traffic):
        return None
    scales = [part.workload.steps / seen.workload.steps for seen, part in zip(given.traffic, given.parts, strict=True)]
    costs = [
        [one._replace(weight=one.weight / scale) for one in together(costs_of(merged(of_part), before, after, prices))]
        for of_part, scale in zip(groups, scales, strict=True)
    ]
    return bootstrap(costs, scales)


def by_buckets(
    given: TrafficSteps, trials: Sequence[Resolution], before: Resolution, after: Resolution, prices: Prices
) -> Interval | None:
    """Where the gain lies as the source knows sizes by bucket only; None: it knows them.

    Args:
        trials: resolutions that have every size; what has a graph in none of them is in no figure.
    """
    if all(len(group) == 1 for of_part in given.groups for group in of_part):
        return None
    largest = max(trial.max_capture_size for trial in trials)
    ways: list[tuple[float, Terms]] = []
    for part in given.parts:
        for item in settled(part.workload, given.resolution).batches:
            every = tuple(ways_of(item, given.resolution, largest))
            (graphed,) = with_graph((every,), *trials) or ((),)
            found = {(one.chosen, one.today) for one in costs_of(graphed, before, after, prices)}
            if found:
                ways.append((item.count, [*found, (0.0, 0.0)] if len(graphed) < len(every) else [*found]))
    return of_ranges(ways)


def _halves(given: TrafficSteps) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Each counted step in one half or the other, by chance."""
    rng = random.Random(SEED)
    found: tuple[list[Group], list[Group]] = ([], [])
    for before, after, groups in zip(given.traffic, given.parts, given.graphed, strict=True):
        scale = after.workload.steps / before.workload.steps
        for step in merged(groups):
            count = step.weight / scale
            heads = _heads(rng, count)
            for half, part in zip(found, (heads, count - heads), strict=True):
                if part > 0:
                    half.append((step._replace(weight=part * scale),))
    return merged(found[0]), merged(found[1])


def _heads(rng: random.Random, count: float) -> float:
    """How many of so many tosses of a coin; a part of one falls whole."""
    if count > MANY:
        return min(count, max(0.0, rng.gauss(count / 2, sqrt(count) / 2)))
    whole = int(count)
    heads = sum(rng.random() < 0.5 for _ in range(whole))
    return heads + (count - whole if rng.random() < 0.5 else 0.0)
