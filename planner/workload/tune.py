"""`tune`: the capture sizes for real traffic, the whole curve of them, and how sure their gain is.

The list of a number of sizes is the best there is (`optimise`, `two_modes`). Every list has today's largest size and
the fullest decode batch, so that no batch loses its graph. Each is fed back through `resolve` and the memory plan; one
that vLLM would not keep as it is, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..errors import InputError
from ..memory.budget.budget import MemoryFlags
from ..memory.budget.measured_record import Profile
from ..memory.plan import plan_of
from ..memory.request import MemoryRequest
from ..resolve import resolve
from ..resolve.resolution import Resolution
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .effect import Point, Setting, can_be_planned, with_sizes
from .frame import Frame, frame_of, lists, most_sizes
from .histogram import Workload
from .limits import ROUNDING, Limits, choose, knee_of
from .others import Given, given_of, guard_of, held_out, parts_of
from .prices import TOKENS, Prices, prices_from
from .robust import Interval, bootstrap, costs_of, of_buckets, shifts, together
from .steps import Group, Step, merged
from .traffic import Traffic
from .tune_rules import ABOVE_ALL_SIZES, NOT_KEPT
from .tuning import Tuning

__all__ = ["SPREAD", "Tuning", "tune", "tune_of"]

SPREAD = 0.05
"""Share of the steps that a list is chosen for which may have any size."""
WORTH_SAYING = 0.001
"""A smaller share of the steps is not told of."""


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
    given = given_of(traffic, frame, resolution)
    steps = given.steps
    why_not = can_be_planned(deployment, resolution, request)
    guard = guard_of(steps, frame, resolution, spread)
    setting = Setting(deployment, resolution, steps, guard, prices, None if why_not else request)
    today = setting.today()
    allowed = replace(limits, graphs=limits.graphs if limits.graphs is not None else today.graphs)
    found = [setting.with_sizes(sizes) for sizes in lists((*steps, *guard), frame, prices, most_sizes(allowed, today))]
    points = tuple(point for point in found if point is not None)
    chosen, verdict = choose(points, today, allowed, frame.fixed, setting.guarded(frame.trial))
    tuned = resolution if chosen is today else resolve(with_sizes(deployment, chosen.sizes))
    if chosen is not today:
        _check_promise(setting, chosen)
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
        eager_anyway=max(0.0, 1 - sum(step.weight for step in steps) / given.weight),
        gain=1 - chosen.cost / today.cost,
        held_out=None if tuned is resolution else held_out(setting, given, frame, len(chosen.sizes), spread),
        chance=_chance(given, resolution, tuned, prices),
        buckets=_buckets(given.graphed, resolution, tuned, prices),
        shifts=shifts(steps, resolution, tuned, prices),
        parts=parts_of(setting, given, frame, chosen, tuned, spread),
        findings=tuple(_findings(given, resolution, frame, len(found) - len(points))),
        notes=_notes(setting, given, frame, today, why_not),
    )


def _notes(setting: Setting, given: Given, frame: Frame, today: Point, why_not: str) -> tuple[str, ...]:
    """What was assumed, and what is not followed."""
    found = [note for part in given.traffic for note in part.notes] + list(setting.prices.notes)
    if beyond := setting.prices.beyond(_widest(given.steps, frame, setting.resolution)):
        found.append(beyond)
    if why_not:
        found.append(f"the memory is not planned: {why_not}")
    elif today.kv_tokens is None:
        found.append("by the plan it does not start; `cgplan plan` says why")
    if setting.resolution.data_parallel_ranks > 1:
        found.append("each rank is taken by itself: ranks that agree on a size are not followed")
    if setting.resolution.schedule is not None:
        found.append("of the dynamic numbers of drafts the longest query length is taken")
    return tuple(dict.fromkeys(found))


def _widest(steps: Sequence[Step], frame: Frame, resolution: Resolution) -> dict[CUDAGraphMode, int]:
    """The largest size that a step of each mode may have, of the modes that the traffic runs in."""
    fullest = resolution.max_num_seqs * resolution.uniform_decode_query_len
    found: dict[CUDAGraphMode, int] = {}
    for step in steps:
        mode = frame.trial.dispatch_batch(step.batch).mode
        most = min(frame.largest, fullest) if step.kind == "decode" else frame.largest
        found[mode] = max(found.get(mode, 0), most)
    return found


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


def _chance(given: Given, today: Resolution, tuned: Resolution, prices: Prices) -> Interval | None:
    if today is tuned or not all(part.is_measured for part in given.traffic):
        return None
    pairs = zip(given.traffic, given.parts, strict=True)
    scales = [after.workload.steps / before.workload.steps for before, after in pairs]
    costs = [
        [one._replace(weight=one.weight / scale) for one in together(costs_of(merged(of_part), today, tuned, prices))]
        for of_part, scale in zip(given.graphed, scales, strict=True)
    ]
    return bootstrap(costs, scales)


def _buckets(
    groups: Sequence[Sequence[Group]], today: Resolution, tuned: Resolution, prices: Prices
) -> Interval | None:
    every = [group for of_part in groups for group in of_part]
    if all(len(group) == 1 for group in every):
        return None
    return of_buckets(every, today, tuned, prices)


def _findings(given: Given, resolution: Resolution, frame: Frame, dropped: int) -> list[Finding]:
    found = []
    wide = [
        step
        for step in given.every
        if step.kind == "decode"
        and step.batch.num_tokens > frame.largest
        and step.batch.num_reqs <= resolution.max_num_seqs
    ]
    share = sum(step.weight for step in wide) / given.weight
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
