"""`tune`: the capture sizes for real traffic, the whole curve of them, and how sure their gain is.

The list of a number of sizes is the best there is (`optimise`, `two_modes`). Every list has today's largest size and
the fullest decode batch, so that no batch loses its graph. Each is fed back through `resolve` and the memory plan; one
that vLLM would not keep as it is, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...deployment import Deployment
from ...errors import InputError
from ...memory.budget.budget import MemoryFlags
from ...memory.budget.measured_record import Profile
from ...memory.plan import plan_of
from ...memory.request import MemoryRequest
from ...resolve import resolve
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..choices.candidate import Bench
from ..choices.other_choices import other_choices
from ..histogram import Workload
from ..mixture import Traffic
from ..sizes.densities import densities
from ..sizes.effect import Point, Setting, can_be_planned, with_sizes
from ..sizes.frame import Frame, Memo, frame_of
from ..sizes.limits import ROUNDING, Limits, knee_of, slack_of
from ..sizes.others import TrafficSteps, by_buckets, by_chance, guard_of, held_out, parts_of, traffic_steps
from ..sizes.prices import TOKENS, prices_from
from ..sizes.steps import Step
from ..tune_rules import NOT_KEPT
from .pick import pick
from .tune_findings import findings_of
from .tuning import Tuning

__all__ = ["SPREAD", "Tuning", "tune", "tune_of"]

SPREAD = 0.05
"""Share of the steps that a list is chosen for which may have any size."""


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
    given = traffic_steps(traffic, frame, resolution)
    steps = given.steps
    why_not = can_be_planned(deployment, resolution, request)
    guard = guard_of(steps, frame, resolution, spread)
    prices = prices.reaching(_widest((*steps, *guard), frame, resolution))
    setting = Setting(deployment, resolution, steps, guard, prices, None if why_not else request)
    today = setting.today()
    memo: Memo = {}
    allowed = replace(limits, graphs=limits.graphs if limits.graphs is not None else today.graphs)
    picked = pick(setting, given, frame, today, allowed, memo, spread, may_grow=limits.graphs is None)
    plain, frame = frame, picked.frame
    points, chosen, tuned, allowed = picked.points, picked.chosen, picked.tuned, picked.limits
    if chosen is not today:
        _check_promise(setting, chosen)
    bench = Bench(
        deployment=deployment, resolution=resolution, tuned=tuned, today=today, chosen=chosen, frame=frame, given=given,
        must=tuple(must), near=picked.near.sizes, limits=allowed, prices=prices, request=setting.request,
        spread=spread, memo=memo, slack=slack_of(today, setting.guarded(frame.trial)),
    )  # fmt: skip
    return Tuning(
        deployment=deployment,
        resolution=resolution,
        tuned=tuned,
        traffic=tuple(traffic),
        prices=prices,
        spread=spread,
        fixed=plain.fixed,
        multiple=frame.multiple,
        limits=allowed,
        today=today,
        points=points,
        chosen=chosen,
        knee=knee_of(points),
        verdict=picked.verdict,
        near=picked.near,
        densities=densities(setting, plain, today, chosen),
        beats_from=next((len(p.sizes) for p in points if p.cost <= today.cost * (1 + ROUNDING)), None),
        eager_anyway=max(0.0, 1 - sum(step.weight for step in steps) / given.weight),
        gain=1 - chosen.cost / today.cost,
        held_out=None if tuned is resolution else held_out(setting, given, frame, len(chosen.sizes), spread),
        chance=None if tuned is resolution else by_chance(given, given.graphed, resolution, tuned, prices),
        buckets=by_buckets(given, (frame.trial,), resolution, tuned, prices),
        shifts=picked.shifts,
        parts=parts_of(setting, given, frame, chosen, tuned, spread),
        others=other_choices(bench),
        findings=findings_of(deployment, given, frame, picked.dropped),
        notes=_notes(setting, given, frame, today, why_not),
    )


def _notes(setting: Setting, given: TrafficSteps, frame: Frame, today: Point, why_not: str) -> tuple[str, ...]:
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
