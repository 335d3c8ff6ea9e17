"""`tune`: the capture sizes for real traffic, the whole curve of them, and how sure their gain is.

The list of a number of sizes is the best there is (`optimise`, `two_modes`). Every list has today's largest size and
the fullest decode batch, so that no batch loses its graph. Each is fed back through `resolve` and the memory plan; one
that vLLM would not keep as it is, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Literal

from ..deployment import Deployment
from ..errors import CgplanError, InputError, StartupError
from ..memory.budget.budget import MemoryFlags
from ..memory.budget.measured_record import Profile
from ..memory.plan import plan_of
from ..memory.request import MemoryRequest
from ..resolve import resolve
from ..resolve.padding import round_up
from ..resolve.resolution import Resolution
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .effect import Point, Setting, can_be_planned, with_sizes
from .histogram import Workload
from .optimise import Demand, curve, demand_of
from .prices import TOKENS, Prices, prices_from
from .robust import Interval, PartGain, Shift, bootstrap, costs_of, of_buckets, shifts
from .steps import Group, Step, groups_of, merged
from .traffic import Traffic, weighed
from .tune_rules import ABOVE_ALL_SIZES, LIMITS_TOO_TIGHT, NOT_KEPT, NOTHING_TO_CHOOSE
from .two_modes import curve_of_modes

MOST_SIZES = 256
"""Sizes of the longest list that is looked at."""
SAME = 0.001
"""Sizes that save less than this share of the cost together are left out of the chosen list."""
ROUNDING = 1e-9
WORTH_SAYING = 0.001
"""A smaller share of the steps is not told of."""

Verdict = Literal["better", "fewer graphs", "best already", "within limits"]


@dataclass(frozen=True)
class Limits:
    """What the operator allows; None: as many graphs as today, else no limit.

    Attributes:
        graphs: number of graphs.
        graph_bytes: what capture takes of a GPU.
        capture_seconds: of the start.
    """

    graphs: int | None = None
    graph_bytes: int | None = None
    capture_seconds: float | None = None


@dataclass(frozen=True)
class Tuning:
    """The choice of capture sizes for a workload.

    Attributes:
        deployment: as it is today.
        resolution: its CUDA graphs today.
        tuned: the graphs with the chosen list.
        traffic: the parts of the mixture.
        prices: what the cost counts.
        fixed: sizes that every list has.
        multiple: every size is one of this.
        limits: as they were taken.
        today: the list of today.
        points: the curve, by rising number of sizes.
        chosen: of `points`; today's list where that is best.
        knee: of `points`, where the curve bends most; None: it has too few points.
        verdict: "better": it costs less; "fewer graphs": it costs the same; "best already": today's list stays;
            "within limits": today's list is not allowed, and the chosen one costs more.
        beats_from: fewest sizes that cost no more than today's list; None: no number of sizes does.
        eager_anyway: share of the steps that run without a graph whatever the sizes; they are in no figure.
        gain: share of the cost that the chosen list saves.
        chance: where the gain lies by chance in the counts; None: the traffic is no measurement.
        buckets: where it lies as the source knows sizes by bucket only; None: it knows them.
        shifts: the gain where the traffic moves.
        parts: the gain of each part of a mixture; () for one part.
        findings: what the operator should know.
        notes: what was assumed, one line each.
    """

    deployment: Deployment
    resolution: Resolution
    tuned: Resolution
    traffic: tuple[Traffic, ...]
    prices: Prices
    fixed: tuple[int, ...]
    multiple: int
    limits: Limits
    today: Point
    points: tuple[Point, ...]
    chosen: Point
    knee: Point | None
    verdict: Verdict
    beats_from: int | None
    eager_anyway: float
    gain: float
    chance: Interval | None
    buckets: Interval | None
    shifts: tuple[Shift, ...]
    parts: tuple[PartGain, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option of `vllm serve` that sets the chosen list."""
        return f"--cudagraph-capture-sizes {' '.join(map(str, self.chosen.sizes))}"


def tune(
    deployment: Deployment,
    workload: Workload | Sequence[Traffic],
    *,
    limits: Limits | None = None,
    must: Sequence[int] = (),
    profile: Profile | None = None,
    flags: MemoryFlags | None = None,
) -> Tuning:
    """Choose `cudagraph_capture_sizes` for the traffic of a deployment.

    Args:
        workload: the steps, which ran under this deployment; or the parts of a mixture.
        limits: what is allowed.
        must: sizes that the list has to have, tokens.
        profile: a record with times by size: the cost is then seconds. None: the cost is computed tokens.
        flags: of memory; None: vLLM's defaults.

    Raises:
        InputError: CG720 no batch could have a graph, CG721 no list keeps to the limits, CG723 the profile has no
            times, CG903 a size of `must` cannot be, CG907 the profile is of another deployment.
        StartupError: vLLM would refuse the deployment.
    """
    parts = (Traffic(workload.source, workload),) if isinstance(workload, Workload) else tuple(workload)
    return tune_of(deployment, parts, limits or Limits(), must, profile, MemoryRequest(flags or MemoryFlags()))


def tune_of(
    deployment: Deployment,
    traffic: Sequence[Traffic],
    limits: Limits,
    must: Sequence[int],
    profile: Profile | None,
    request: MemoryRequest,
) -> Tuning:
    """The same, of the parts of a mixture and a MemoryRequest."""
    if not traffic:
        raise InputError("there is no traffic", code="CG903", where="workload", fix="give one part at least")
    resolution = resolve(deployment)
    prices = prices_from(profile, deployment, resolution) if profile is not None else TOKENS
    frame = _frame(deployment, resolution, must)
    parts = weighed(traffic)
    groups = [groups_of(part.workload, resolution) for part in parts]
    with_graph = [_with_graph(of_part, frame.trial) for of_part in groups]
    steps = merged(group for of_part in with_graph for group in of_part)
    every = sum(step.weight for of_part in groups for group in of_part for step in group)
    if not steps:
        raise _nothing("no batch of the traffic could have a graph")
    why_not = can_be_planned(deployment, resolution, request)
    setting = Setting(deployment, resolution, steps, prices, None if why_not else request)
    today = setting.today()
    allowed = replace(limits, graphs=limits.graphs if limits.graphs is not None else today.graphs)
    lists = _lists(steps, frame, prices, _most(allowed, today))
    found = [setting.with_sizes(sizes) for sizes in lists]
    points = tuple(point for point in found if point is not None)
    chosen, verdict = _choose(points, today, allowed, frame)
    tuned = resolution if chosen is today else resolve(with_sizes(deployment, chosen.sizes))
    if chosen is not today:
        _check_promise(setting, chosen)
    widest = max(step.batch.num_tokens for step in steps)
    notes = [note for part in traffic for note in part.notes] + list(prices.notes)
    notes += [beyond] if (beyond := prices.beyond(max(widest, frame.largest))) else []
    notes += [f"the memory is not planned: {why_not}"] if why_not else []
    notes += ["each rank is taken by itself: ranks that agree on a size are not followed"] * (
        resolution.data_parallel_ranks > 1
    )
    return Tuning(
        deployment=deployment,
        resolution=resolution,
        tuned=tuned,
        traffic=tuple(traffic),
        prices=prices,
        fixed=frame.fixed,
        multiple=frame.multiple,
        limits=allowed,
        today=today,
        points=points,
        chosen=chosen,
        knee=_knee(points),
        verdict=verdict,
        beats_from=next((len(p.sizes) for p in points if p.cost <= today.cost * (1 + ROUNDING)), None),
        eager_anyway=max(0.0, 1 - sum(step.weight for step in steps) / every),
        gain=1 - chosen.cost / today.cost,
        chance=_chance(traffic, parts, with_graph, resolution, tuned, prices),
        buckets=_buckets(with_graph, resolution, tuned, prices),
        shifts=shifts(steps, resolution, tuned, prices),
        parts=_parts(setting, parts, with_graph, frame, chosen, tuned),
        findings=tuple(_findings(groups, resolution, frame, every, len(found) - len(points))),
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True)
class _Frame:
    """What all lists have in common.

    `trial` has every size that a list may have: what a batch runs in there, it can run in.
    """

    fixed: tuple[int, ...]
    multiple: int
    largest: int
    trial: Resolution


def _frame(deployment: Deployment, resolution: Resolution, must: Sequence[int]) -> _Frame:
    if resolution.cudagraph_mode is CUDAGraphMode.NONE or not resolution.capture_sizes:
        raise _nothing("the deployment captures no CUDA graphs")
    budget, today = resolution.max_num_batched_tokens, resolution.max_capture_size
    multiple = _multiple(deployment, resolution)
    largest = round_up(max(today, *must, 1), multiple)
    if largest > budget:
        largest = budget // multiple * multiple
    for size in must:
        if not 1 <= size <= largest:
            raise InputError(
                f"a size of {size} cannot be captured", code="CG903", where="--must", fix=f"give 1 to {largest}"
            )
    fullest = round_up(resolution.max_num_seqs * resolution.uniform_decode_query_len, multiple)
    wanted = {largest, *(round_up(size, multiple) for size in must)} | ({fullest} if fullest <= largest else set())
    trial = resolve(with_sizes(deployment, range(multiple, largest + 1, multiple)))
    return _Frame(tuple(sorted(wanted)), multiple, largest, trial)


def _multiple(deployment: Deployment, resolution: Resolution) -> int:
    """What vLLM keeps sizes to: asked of its own rules with every size there may be, and whole decode requests."""
    every = range(1, resolution.max_capture_size + 1)
    try:
        kept = resolve(with_sizes(deployment, every)).capture_sizes
    except StartupError:
        kept = resolution.capture_sizes
    found = gcd(*kept) if kept else 1
    length = resolution.uniform_decode_query_len if resolution.decode_mode is CUDAGraphMode.FULL else 1
    return lcm(found, length)


def _with_graph(groups: Sequence[Group], trial: Resolution) -> tuple[Group, ...]:
    """The steps that run in a graph where every size is captured."""
    found = (
        tuple(step for step in group if trial.dispatch_batch(step.batch).mode is not CUDAGraphMode.NONE)
        for group in groups
    )
    return tuple(group for group in found if group)


def _most(limits: Limits, today: Point) -> int:
    """Sizes of the longest list: each is a graph at least."""
    most = max(limits.graphs or 0, len(today.sizes))
    return min(most, MOST_SIZES)


def _lists(steps: Sequence[Step], frame: _Frame, prices: Prices, most: int) -> list[tuple[int, ...]]:
    """The best list of each number of sizes."""
    most = max(most, len(frame.fixed))
    demands = _demands(steps, frame.trial, by_mode=bool(prices.times))
    if len(demands) == 1:
        ((mode, demand),) = demands.items()
        found = curve(
            demand, most, fixed=frame.fixed, multiple=frame.multiple, largest=frame.largest,
            value=None if not prices.times else lambda size: prices.of(mode, size),
        )  # fmt: skip
        made = [choice.sizes for choice in found]
    else:
        priced = [(demand, _price(prices, mode)) for mode, demand in demands.items()]
        made = list(curve_of_modes(priced, most, fixed=frame.fixed, multiple=frame.multiple))
    return list(dict.fromkeys(made))


def _demands(steps: Sequence[Step], trial: Resolution, by_mode: bool) -> dict[CUDAGraphMode, Demand]:
    """Sizes and weights by the mode that the batches run in; one for all where the mode makes no difference."""
    found: dict[CUDAGraphMode, list[tuple[int, float]]] = {}
    for step in steps:
        mode = trial.dispatch_batch(step.batch).mode if by_mode else CUDAGraphMode.FULL
        found.setdefault(mode, []).append((step.batch.num_tokens, step.weight))
    return {mode: demand_of(batches) for mode, batches in found.items()}


def _price(prices: Prices, mode: CUDAGraphMode):  # type: ignore[no-untyped-def]
    return lambda size: prices.of(mode, size)


def _choose(points: Sequence[Point], today: Point, limits: Limits, frame: _Frame) -> tuple[Point, Verdict]:
    """The fewest sizes that cost about as little as the least within the limits, and no more than today's list."""
    inside = [point for point in points if _keeps(point, limits, today)]
    today_is_inside = _keeps(today, limits, today)
    if not inside:
        if today_is_inside:
            return today, "best already"
        raise _too_tight(points, limits, frame)
    least = min(point.cost for point in inside)
    if today_is_inside and least > today.cost * (1 + ROUNDING):
        return today, "best already"
    enough = least * (1 + SAME)
    if today_is_inside:
        enough = min(enough, today.cost * (1 + ROUNDING))
    chosen = min((point for point in inside if point.cost <= max(enough, least)), key=lambda p: len(p.sizes))
    if chosen.cost < today.cost * (1 - ROUNDING):
        return chosen, "better"
    if not today_is_inside:
        return chosen, "within limits"
    return (chosen, "fewer graphs") if chosen.graphs < today.graphs else (today, "best already")


def _keeps(point: Point, limits: Limits, today: Point) -> bool:
    """Within the limits; and it starts where today's list does."""
    if limits.graphs is not None and point.graphs > limits.graphs:
        return False
    if limits.graph_bytes is not None and (point.graph_bytes is None or point.graph_bytes > limits.graph_bytes):
        return False
    if limits.capture_seconds is not None and point.capture.best > limits.capture_seconds:
        return False
    return point.kv_tokens is not None or today.kv_tokens is None


def _knee(points: Sequence[Point]) -> Point | None:
    """The point farthest below the line from the first point to the last, both axes from 0 to 1."""
    if len(points) < 3 or points[0].cost <= points[-1].cost:
        return None
    first, last = points[0], points[-1]
    wide, high = len(last.sizes) - len(first.sizes), first.cost - last.cost

    def below(point: Point) -> float:
        return (first.cost - point.cost) / high - (len(point.sizes) - len(first.sizes)) / wide

    return max(points, key=below)


def _check_promise(setting: Setting, chosen: Point) -> None:
    """The whole plan of the chosen list says what the curve said.

    Raises:
        InputError: CG722, it does not.
    """
    if setting.request is None:
        return
    deployment = with_sizes(setting.deployment, chosen.sizes)
    made = plan_of(deployment, setting.request, advise=False)
    tokens = made.best.plan.tokens if made.best.plan is not None else None
    if made.resolution.capture_sizes != chosen.sizes or tokens != chosen.kv_tokens:
        raise InputError(
            f"the plan of the chosen list has {tokens} tokens of KV cache, not {chosen.kv_tokens}",
            code=NOT_KEPT.code, where="capture sizes", fix="report it: the list is not offered",
        )  # fmt: skip


def _chance(
    traffic: Sequence[Traffic],
    parts: Sequence[Traffic],
    groups: Sequence[Sequence[Group]],
    today: Resolution,
    tuned: Resolution,
    prices: Prices,
) -> Interval | None:
    if today is tuned or not all(part.is_measured for part in traffic):
        return None
    scales = [after.workload.steps / before.workload.steps for before, after in zip(traffic, parts, strict=True)]
    costs = [
        [one._replace(weight=one.weight / scale) for one in costs_of(merged(of_part), today, tuned, prices)]
        for of_part, scale in zip(groups, scales, strict=True)
    ]
    return bootstrap(costs, scales)


def _buckets(
    groups: Sequence[Sequence[Group]], today: Resolution, tuned: Resolution, prices: Prices
) -> Interval | None:
    every = [group for of_part in groups for group in of_part]
    if all(len(group) == 1 for group in every):
        return None
    return of_buckets(every, today, tuned, prices)


def _parts(
    setting: Setting,
    parts: Sequence[Traffic],
    groups: Sequence[Sequence[Group]],
    frame: _Frame,
    chosen: Point,
    tuned: Resolution,
) -> tuple[PartGain, ...]:
    if len(parts) < 2:
        return ()
    from .effect import tally_of

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
            _cost_of_own(setting, chosen_for, steps, frame, len(chosen.sizes)) for chosen_for in (steps, others)
        ]
        own, without = (None if cost is None else 1 - cost / before.cost for cost in costs)
        found.append(
            PartGain(
                part.name, part.workload.steps / whole, before.waste, after.waste,
                1 - after.cost / before.cost, own if own is not None else 1 - after.cost / before.cost, without,
            )  # fmt: skip
        )
    return tuple(found)


def _cost_of_own(
    setting: Setting, chosen_for: Sequence[Step], steps: Sequence[Step], frame: _Frame, sizes: int
) -> float | None:
    """What `steps` cost with the best list of so many sizes for other steps; None: there is none."""
    from .effect import tally_of

    if not chosen_for:
        return None
    best = _lists(chosen_for, frame, setting.prices, sizes)[-1]
    try:
        resolution = resolve(with_sizes(setting.deployment, best))
    except CgplanError:
        return None
    return tally_of(steps, resolution, setting.prices).cost


def _findings(
    groups: Sequence[Sequence[Group]], resolution: Resolution, frame: _Frame, every: float, dropped: int
) -> list[Finding]:
    found = []
    wide = [
        step
        for of_part in groups
        for group in of_part
        for step in group
        if step.kind == "decode"
        and step.batch.num_tokens > frame.largest
        and step.batch.num_reqs <= resolution.max_num_seqs
    ]
    share = sum(step.weight for step in wide) / every
    if share >= WORTH_SAYING:
        widest = min(
            resolution.max_num_seqs * resolution.uniform_decode_query_len, max(s.batch.num_tokens for s in wide)
        )
        message = f"{share:.1%} of the steps are decode batches above {frame.largest} tokens, the largest size"
        fix = f"ask again with --max-cudagraph-capture-size {widest}"
        found.append(Finding(ABOVE_ALL_SIZES.code, "warning", message, fix, "--cudagraph-capture-sizes"))
    if dropped:
        message = f"{dropped} lists are left out: vLLM would not keep them as they were chosen"
        found.append(Finding(NOT_KEPT.code, "info", message, None, "--cudagraph-capture-sizes"))
    return found


def _nothing(message: str) -> InputError:
    return InputError(message, code=NOTHING_TO_CHOOSE.code, where="capture sizes", fix=NOTHING_TO_CHOOSE.instead)


def _too_tight(points: Sequence[Point], limits: Limits, frame: _Frame) -> InputError:
    fixed = ", ".join(map(str, frame.fixed))
    if not points:
        message = "vLLM would keep no list as it was chosen"
    else:
        least = points[0]
        memory = f", {least.graph_bytes / 2**20:.0f} MiB" if least.graph_bytes is not None else ""
        message = (
            f"no list keeps to the limits: the shortest has {len(least.sizes)} sizes ({fixed} are fixed), "
            f"{least.graphs} graphs{memory}, {least.capture.best:g} s"
        )
    return InputError(message, code=LIMITS_TOO_TIGHT.code, where="--max-graphs", fix=LIMITS_TOO_TIGHT.instead)
