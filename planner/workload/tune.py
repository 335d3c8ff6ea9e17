"""`tune`: the capture sizes for real traffic, the whole curve of them, and how sure their gain is.

The list of a number of sizes is the best there is (`optimise`, `two_modes`). Every list has today's largest size and
the fullest decode batch, so that no batch loses its graph. Each is fed back through `resolve` and the memory plan; one
that vLLM would not keep as it is, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..deployment import Deployment
from ..errors import CgplanError, InputError
from ..memory.budget.budget import MemoryFlags
from ..memory.budget.measured_record import Profile
from ..memory.plan import plan_of
from ..memory.request import MemoryRequest
from ..resolve import resolve
from ..resolve.resolution import Resolution
from ..trace import Finding
from .effect import Point, Setting, can_be_planned, tally_of, with_sizes
from .frame import Frame, frame_of, lists, most_sizes, nothing, with_graph
from .histogram import Workload
from .limits import ROUNDING, Limits, Verdict, choose, knee_of
from .prices import TOKENS, Prices, prices_from
from .robust import Interval, PartGain, Shift, bootstrap, costs_of, of_buckets, shifts
from .steps import Group, Step, anywhere, groups_of, merged
from .traffic import Traffic, weighed
from .tune_rules import ABOVE_ALL_SIZES, NOT_KEPT

SPREAD = 0.05
"""Share of the steps that a list is chosen for which may have any size."""
WORTH_SAYING = 0.001
"""A smaller share of the steps is not told of."""


@dataclass(frozen=True)
class Tuning:
    """The choice of capture sizes for a workload.

    Attributes:
        deployment: as it is today.
        resolution: its CUDA graphs today.
        tuned: the graphs with the chosen list.
        traffic: the parts of the mixture.
        prices: what the cost counts.
        spread: share of steps of any size that lists are chosen for.
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
    spread: float
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
    spread: float = SPREAD,
    flags: MemoryFlags | None = None,
) -> Tuning:
    """Choose `cudagraph_capture_sizes` for the traffic of a deployment.

    Args:
        workload: the steps, which ran under this deployment; or the parts of a mixture.
        limits: what is allowed.
        must: sizes that the list has to have, tokens.
        profile: a record with times by size: the cost is then seconds. None: the cost is computed tokens.
        spread: the list is chosen for the traffic and this share of steps of any size, so that traffic which was not
            seen is not padded without end; 0: for the traffic alone. No figure has these steps.
        flags: of memory; None: vLLM's defaults.

    Raises:
        InputError: CG720 no batch could have a graph, CG721 no list keeps to the limits, CG723 the profile has no
            times, CG903 a size of `must` cannot be, CG907 the profile is of another deployment.
        StartupError: vLLM would refuse the deployment.
    """
    parts = (Traffic(workload.source, workload),) if isinstance(workload, Workload) else tuple(workload)
    return tune_of(deployment, parts, limits or Limits(), must, profile, MemoryRequest(flags or MemoryFlags()), spread)


def tune_of(
    deployment: Deployment,
    traffic: Sequence[Traffic],
    limits: Limits,
    must: Sequence[int],
    profile: Profile | None,
    request: MemoryRequest,
    spread: float = SPREAD,
) -> Tuning:
    """The same, of the parts of a mixture and a MemoryRequest."""
    if not traffic:
        raise InputError("there is no traffic", code="CG903", where="workload", fix="give one part at least")
    if not 0 <= spread < 1:
        raise InputError(f"{spread} is no share", code="CG903", where="--spread", fix="give 0 to 0.9")
    resolution = resolve(deployment)
    prices = prices_from(profile, deployment, resolution) if profile is not None else TOKENS
    frame = frame_of(deployment, resolution, must)
    parts = weighed(traffic)
    groups = [groups_of(part.workload, resolution) for part in parts]
    graphed = [with_graph(of_part, frame.trial) for of_part in groups]
    steps = merged(group for of_part in graphed for group in of_part)
    every = sum(step.weight for of_part in groups for group in of_part for step in group)
    if not steps:
        raise nothing("no batch of the traffic could have a graph")
    why_not = can_be_planned(deployment, resolution, request)
    guard = _guard(steps, frame, resolution, spread)
    setting = Setting(deployment, resolution, steps, guard, prices, None if why_not else request)
    today = setting.today()
    allowed = replace(limits, graphs=limits.graphs if limits.graphs is not None else today.graphs)
    made = lists((*steps, *guard), frame, prices, most_sizes(allowed, today))
    found = [setting.with_sizes(sizes) for sizes in made]
    points = tuple(point for point in found if point is not None)
    chosen, verdict = choose(points, today, allowed, frame.fixed)
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
        spread=spread,
        fixed=frame.fixed,
        multiple=frame.multiple,
        limits=allowed,
        today=today,
        points=points,
        chosen=chosen,
        knee=knee_of(points),
        verdict=verdict,
        beats_from=next((len(p.sizes) for p in points if p.cost <= today.cost * (1 + ROUNDING)), None),
        eager_anyway=max(0.0, 1 - sum(step.weight for step in steps) / every),
        gain=1 - chosen.cost / today.cost,
        chance=_chance(traffic, parts, graphed, resolution, tuned, prices),
        buckets=_buckets(graphed, resolution, tuned, prices),
        shifts=shifts(steps, resolution, tuned, prices),
        parts=_parts(setting, parts, graphed, frame, chosen, tuned, spread),
        findings=tuple(_findings(groups, resolution, frame, every, len(found) - len(points))),
        notes=tuple(dict.fromkeys(notes)),
    )


def _guard(steps: Sequence[Step], frame: Frame, resolution: Resolution, spread: float) -> tuple[Step, ...]:
    """The steps of any size that a list is chosen for beside the traffic."""
    weight = sum(step.weight for step in steps) * spread / (1 - spread)
    found = (anywhere(resolution, frame.largest, weight),) if spread else ()
    return merged(with_graph(found, frame.trial))


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
    frame: Frame,
    chosen: Point,
    tuned: Resolution,
    spread: float,
) -> tuple[PartGain, ...]:
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
    guard = _guard(chosen_for, frame, setting.resolution, spread)
    best = lists((*chosen_for, *guard), frame, setting.prices, sizes)[-1]
    try:
        resolution = resolve(with_sizes(setting.deployment, best))
    except CgplanError:
        return None
    return tally_of(steps, resolution, setting.prices).cost


def _findings(
    groups: Sequence[Sequence[Group]], resolution: Resolution, frame: Frame, every: float, dropped: int
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
