"""The deployment with another value of one flag, and the best list of sizes that it has under the same limits.

It is held against the first answer of `tune`, the chosen list, on the same steps: all that have a graph in one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ...deployment import Deployment
from ...errors import CgplanError, InputError
from ...memory.request import MemoryRequest
from ...resolve import resolve
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..histogram import Batches
from ..replay.replay import settled
from ..sizes.effect import Point, Run, Setting, runs_of, with_sizes
from ..sizes.frame import Frame, Memo, frame_of, lists, most_sizes, with_graph
from ..sizes.limits import ROUNDING, Limits, keeps
from ..sizes.others import TrafficSteps, by_buckets, by_chance, guard_of
from ..sizes.prices import TOKENS, Prices
from ..sizes.robust import Interval
from ..sizes.steps import Step, merged

REAL = 0.085
"""A saving of time has to be larger: FULL steps of two measured runs differ by 8.2% (docs/tune.md)."""
TOO_SMALL = f"a saving below {REAL:.1%} may be the difference between two runs"
ENOUGH_STEPS = 3000
"""What did not come in so many steps is in less than 0.1% of them, with 95%: three in the number of steps."""
UNKNOWN_KINDS = 0.001
"""Largest share of steps of which it is not known whether they are decode steps."""


class Shares(NamedTuple):
    """Shares of the steps by what they run in."""

    full: float
    piecewise: float
    eager: float


class Listed(NamedTuple):
    """A deployment with its best list; `frame` is of its lists, None where it captures no graphs."""

    deployment: Deployment
    resolution: Resolution
    frame: Frame | None
    point: Point


@dataclass(frozen=True)
class Candidate:
    """One value of a flag with its own best list.

    Attributes:
        deployment: with the value and the list.
        resolution: of it.
        point: the list. Cost, padding and tokens are of the steps that may have a graph in it.
        shares: of the compared steps, by what they run in.
        cost: of a compared step, in tokens or seconds; None: it is not known, and `unpriced` says why.
        gain: share of the cost of the first answer that it saves on the compared steps; None: not known.
        same_runs: each compared step runs in the same kind of graph as with the first answer.
        unpriced: why the cost is not known, or cannot be compared; "": it is.
        trials: resolutions that have every size; the compared steps have a graph in one of them.
    """

    deployment: Deployment
    resolution: Resolution
    point: Point
    shares: Shares
    cost: float | None
    gain: float | None
    same_runs: bool
    unpriced: str
    trials: tuple[Resolution, ...]


@dataclass(frozen=True)
class Bench:
    """The first answer, and what all candidates are held against.

    Attributes:
        today, chosen: lists of `tune`.
        deployment, resolution: of today.
        tuned: the resolution with the chosen list.
        frame: of today's deployment.
        given: the traffic.
        must, limits, prices, request, spread: as `tune` took them.
        near: sizes that lists have beside these, where the limits leave room.
        memo: lists that were found.
        slack: what lists may cost more than the best one to be shorter, of a step.
    """

    deployment: Deployment
    resolution: Resolution
    tuned: Resolution
    today: Point
    chosen: Point
    frame: Frame
    given: TrafficSteps
    must: tuple[int, ...]
    near: tuple[int, ...]
    limits: Limits
    prices: Prices
    request: MemoryRequest | None
    spread: float
    memo: Memo
    slack: float

    @cached_property
    def counted(self) -> float:
        """Steps of the sources; 0 where one is no measurement."""
        if not all(part.is_measured for part in self.given.traffic):
            return 0.0
        return sum(part.workload.steps for part in self.given.traffic)

    @cached_property
    def unknown_kinds(self) -> float:
        """Share of the steps of which the source does not say whether they are decode steps."""
        return sum(one.count for one in self.entries if one.kind == "any") / sum(one.count for one in self.entries)

    @cached_property
    def entries(self) -> tuple[Batches, ...]:
        """What the sources say, with the kinds that the deployment leaves."""
        return tuple(item for part in self.given.parts for item in settled(part.workload, self.resolution).batches)

    def doubt(self) -> str:
        """Why the traffic says too little for another flag than sizes; "": it says enough."""
        if not self.counted:
            return "a shape is no measurement"
        if self.counted < ENOUGH_STEPS:
            return f"{self.counted:,.0f} steps are too few, {ENOUGH_STEPS:,} are needed"
        if self.unknown_kinds > UNKNOWN_KINDS:
            return f"of {self.unknown_kinds:.1%} of the steps it is not known whether they are decode steps"
        return ""


def listed(bench: Bench, deployment: Deployment, *, as_good: bool) -> Listed | str:
    """`deployment` with its best list within the limits; or why there is none.

    Args:
        as_good: the shortest list is enough that costs no more than the sizes of the first answer do there.
    """
    try:
        resolution = resolve(deployment)
        if resolution.cudagraph_mode is CUDAGraphMode.NONE:
            setting = Setting(deployment, resolution, bench.given.steps, (), bench.prices, bench.request)
            return Listed(deployment, resolution, None, setting.without_graphs())
        frame = frame_of(deployment, resolution, bench.must)
        frame, found = _in_frame(bench, deployment, resolution, frame, as_good)
    except CgplanError as error:
        return error.message
    if found is None:
        return "no list of sizes keeps to the limits"
    made = with_sizes(deployment, found.sizes)
    return Listed(made, resolve(made), frame, found)


def _in_frame(
    bench: Bench, deployment: Deployment, resolution: Resolution, frame: Frame, as_good: bool
) -> tuple[Frame, Point | None]:
    """The best list with the sizes near the traffic; without them where no such list keeps to the limits."""
    wider = frame.beside(bench.near)
    found = _best_list(bench, deployment, resolution, wider, as_good)
    if found is not None or wider == frame:
        return wider, found
    return frame, _best_list(bench, deployment, resolution, frame, as_good)


def trials_of(bench: Bench, found: Iterable[Listed | str]) -> tuple[Resolution, ...]:
    """The resolutions that have every size, of the first answer and of others."""
    frames = [one.frame for one in found if not isinstance(one, str)]
    return (bench.frame.trial, *(frame.trial for frame in frames if frame is not None))


def compared(bench: Bench, one: Listed, trials: Sequence[Resolution]) -> Candidate:
    """`one` beside the first answer, on the steps that have a graph in one of `trials`."""
    steps = _steps(bench, trials)
    before, after = (list(runs_of(steps, resolution, TOKENS)) for resolution in (bench.tuned, one.resolution))
    # A FULL graph for decode batches is another one than that for all batches.
    alike = one.resolution.cudagraph_mode.separate_routine is bench.tuned.cudagraph_mode.separate_routine
    same = alike and all(old.mode is new.mode for old, new in zip(before, after, strict=True))
    unpriced = _unpriced(bench, steps, before, after, same)
    cost = gain = None
    if not unpriced:
        cost, base = (_cost(steps, runs, bench.prices) for runs in (after, before))
        gain = 1 - cost / base
    shares = _shares(steps, after)
    return Candidate(one.deployment, one.resolution, one.point, shares, cost, gain, same, unpriced, tuple(trials))


def first_of(bench: Bench, trials: Sequence[Resolution]) -> Candidate:
    """The first answer on the same steps."""
    deployment = with_sizes(bench.deployment, bench.chosen.sizes)
    return compared(bench, Listed(deployment, bench.tuned, bench.frame, bench.chosen), trials)


def surely(bench: Bench, one: Candidate) -> Interval | None:
    """Where its gain lies, by chance in the counts and by the buckets of the source; None: not known."""
    if one.gain is None or not bench.counted:
        return None
    groups = tuple(with_graph(of_part, *one.trials) for of_part in bench.given.groups)
    chance = by_chance(bench.given, groups, bench.tuned, one.resolution, bench.prices)
    buckets = by_buckets(bench.given, one.trials, bench.tuned, one.resolution, bench.prices)
    if chance is None or buckets is None:
        return chance
    return Interval(min(chance.low, buckets.low), max(chance.high, buckets.high))


def not_measured(bench: Bench, one: Candidate) -> str:
    """Which times its cost hangs on that were drawn on beyond what was measured; "": none."""
    steps = _steps(bench, one.trials)
    widest: dict[CUDAGraphMode, int] = {}
    for resolution in (bench.tuned, one.resolution):
        for run in runs_of(steps, resolution, TOKENS):
            widest[run.mode] = max(widest.get(run.mode, 0), run.tokens)
    return bench.prices.beyond(widest)


def _best_list(
    bench: Bench, deployment: Deployment, resolution: Resolution, frame: Frame, as_good: bool
) -> Point | None:
    """The shortest list within the limits that costs about as little as the least, or as the first answer's sizes do.

    Not each number of sizes is looked at: graphs, memory and seconds grow with it, and the cost falls.
    """
    steps = merged(group for of_part in bench.given.groups for group in with_graph(of_part, frame.trial))
    if not steps:
        raise InputError(
            "no batch of the traffic would have a graph", code="CG720", where="--workload",
            fix="give traffic of steps that may have one",
        )  # fmt: skip
    guard = guard_of(steps, frame, resolution, bench.spread)
    setting = Setting(deployment, resolution, steps, guard, bench.prices, bench.request)
    made = lists((*steps, *guard), frame, bench.prices, most_sizes(bench.limits, bench.today), bench.memo)
    points: dict[int, Point | None] = {}

    def point(at: int) -> Point | None:
        if at not in points:
            points[at] = setting.with_sizes(made[at])
        return points[at]

    def is_too_much(at: int) -> bool:
        found = point(at)
        return found is None or not keeps(found, bench.limits, bench.today)

    inside = bisect_left(range(len(made)), True, key=is_too_much)
    best = point(inside - 1) if inside else None
    if best is None:
        return None
    enough = best.guarded + bench.slack
    if as_good:
        fitting = (size for size in bench.chosen.sizes if size < frame.largest)
        same = setting.with_sizes(sorted({*frame.fixed, *fitting}))
        enough = max(enough, same.guarded if same is not None else 0.0)
    enough *= 1 + ROUNDING

    def is_enough(at: int) -> bool:
        found = point(at)
        return found is not None and found.guarded <= enough

    return point(min(inside - 1, bisect_left(range(inside), True, key=is_enough)))


def _steps(bench: Bench, trials: Sequence[Resolution]) -> tuple[Step, ...]:
    return merged(group for of_part in bench.given.groups for group in with_graph(of_part, *trials))


def _unpriced(bench: Bench, steps: Sequence[Step], before: list[Run], after: list[Run], same: bool) -> str:
    """Why the costs of the two cannot be compared; "": they can."""
    if not bench.prices.times:
        return "" if same else "tokens do not say what another kind of graph, or none, takes"
    for run in (*before, *after):
        if run.mode not in bench.prices.times:
            return bench.prices.why_none(run.mode)
    # The times of FULL steps are those of decode batches.
    mixed = [(old, new) for step, old, new in zip(steps, before, after, strict=True) if step.kind == "mixed"]
    if not same and any(CUDAGraphMode.FULL in (old.mode, new.mode) for old, new in mixed):
        return "the profile has no times of batches with a prefill in a FULL graph"
    return ""


def _cost(steps: Sequence[Step], runs: Sequence[Run], prices: Prices) -> float:
    both = zip(steps, runs, strict=True)
    return sum(s.weight * prices.of(run.mode, run.tokens) for s, run in both) / sum(s.weight for s in steps)


def _shares(steps: Sequence[Step], runs: Sequence[Run]) -> Shares:
    whole = sum(step.weight for step in steps)
    found = dict.fromkeys((CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE), 0.0)
    for step, run in zip(steps, runs, strict=True):
        found[run.mode] += step.weight / whole
    return Shares(*found.values())
