"""An estimate of the graphs that is printed and not taken off the KV cache: what a later release does with it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from ..memory.capacity_plan import CapacityPlan, vllm_estimate
from ..memory.later_release import FIRST, planned_by_first
from ..memory.plan import plan_of
from ..resolve.memory_deduction import VARIABLE
from ..trace import Finding
from .estimate import is_implausible
from .known import deducts, gib, is_manual, release_of, total_of, utilization
from .record import Rank, Start
from .rules import AFTER_AN_UPGRADE
from .scene import LEAST_OUTSIDE, LEAST_SHARE

FEW = 1.1
"""Requests of the full length; with fewer one more option that takes memory may keep it from starting."""
OLDER = "In v0.19, CUDA graph memory profiling will be enabled"
"""How the line begins by which older releases print the estimate alone."""


class _Later(NamedTuple):
    """What FIRST does by its own rules: its estimate, and what else moves the KV cache, bytes; below 0: takes."""

    estimate: int
    more: int


def finding_of(start: Start, rank: Rank, plan: CapacityPlan | None = None) -> Finding | None:
    """What the KV cache is with the estimate taken off; None: it is taken off here, or never by choice.

    Args:
        plan: of this start; None: there is none, and the figures are the log's alone. The concurrency is in proportion.
    """
    if start.crash is not None:
        return None  # What keeps it from starting today comes first.
    estimate, cache, total = rank.graph_estimate_bytes, rank.kv_bytes, total_of(start, rank)
    if not estimate or not cache or estimate <= 0 or cache <= 0 or not _is_only_printed(start, rank):
        return None
    if is_implausible(estimate, rank.graph_actual_bytes, total):
        return None
    own, later = utilization(start, rank), _by_plan(plan, estimate)
    left, times = cache - estimate if later is None else cache - later.estimate + later.more, None
    share = f" at the same --gpu-memory-utilization{f' of {own:g}' if own is not None else ''}"
    which = " (which then may be another)" if later is None else f", there {gib(later.estimate)} by the plan"
    text = (
        f"the estimate of {gib(estimate)} is only printed here; since {FIRST} it is taken off{which}:{share} the KV"
        f" cache goes from {gib(cache)} to {gib(max(0, left))}"
    )
    if start.max_concurrency is not None and start.concurrency_length is not None:
        times = start.max_concurrency * max(0, left) / cache
        text += (
            f", and {start.max_concurrency:.2f} requests of {start.concurrency_length:,} tokens become about"
            f" {times:.2f}"
        )
    if left <= 0:
        text += ". With that it does not start"
    elif times is not None and times < 1:
        text += f". One does not fit then, and it does not start; about {_rounded(start, times):,} tokens would"
    elif times is not None and times < FEW:
        text += ". One more option that takes memory, such as drafts or more batched tokens, may keep it from starting"
    severity = "warning" if left <= 0 or (times is not None and times < FEW) else "info"
    return Finding(AFTER_AN_UPGRADE.code, severity, text, _fix(start, rank, cache, left, plan), rank.name)


def _by_plan(plan: CapacityPlan | None, estimate: int) -> _Later | None:
    """The printed estimate as many times larger or smaller as the plan's is by FIRST, at the same share."""
    mine = vllm_estimate(plan) if plan is not None else None
    if plan is None or plan.budget is None or mine is None or mine.best <= 0 or not plan.fits:
        return None
    # What is set for the plan of a log that only prints the estimate is no variable of the server's own.
    env = {name: value for name, value in plan.deployment.env.items() if name != VARIABLE}
    today = plan.budget
    own_env = replace(plan, deployment=plan.deployment.model_copy(update={"env": env}))
    then = planned_by_first(own_env, plan_of, today.utilization)
    if then is None or then.budget is None or not then.budget.deduction.deducted:
        return None
    own = then.budget.tightest.deducted.best
    moved = then.budget.tightest.kv_cache.best + own - today.tightest.kv_cache.best
    return _Later(round(estimate * own / mine.best), moved)


def _is_only_printed(start: Start, rank: Rank) -> bool:
    """Whether it is the release that leaves it, and no variable that a server keeps when it is upgraded."""
    if is_manual(start, rank):
        return False
    place = rank.places.get("raised_utilization")
    if place is not None and place.text.startswith(OLDER):
        return True
    release = release_of(start)
    return release is not None and VARIABLE not in start.environment and not deducts(start, rank)


def _rounded(start: Start, times: float) -> int:
    length = start.concurrency_length or 0
    return int(times * length) // 1024 * 1024


def _fix(start: Start, rank: Rank, cache: int, left: int, plan: CapacityPlan | None) -> str:
    """What keeps the KV cache of today: a share, where the GPU has so much, or its bytes."""
    own, total, raised = utilization(start, rank), total_of(start, rank), rank.raised_utilization
    budget = plan.budget if plan is not None else None
    planned = budget.free.high / budget.total.high if budget is not None else None
    if budget is not None and own is not None and total is not None:
        raised = ceil((own + (cache - left) / total) * 1000) / 1000 if left < cache else None
    parts = []
    if raised is not None and (raised <= 1 - LEAST_SHARE if total is None else _fits(rank, raised, total, planned)):
        parts.append(f"--gpu-memory-utilization {raised:g} keeps today's KV cache")
    parts.append(f"--kv-cache-memory-bytes {cache} keeps it whatever the estimate is")
    parts.append(f"{VARIABLE}=0 leaves the estimate out as today")
    return ", or ".join(parts) + "; graphs then take what is free beside it, as now"


def _fits(rank: Rank, raised: float, total: int, planned: float | None) -> bool:
    """Whether half a GiB stays free outside the share, of what is free by the log, or else by the plan."""
    free = rank.free_bytes
    if free is None:
        free = round(planned * total) if planned is not None else total
    return free - raised * total >= LEAST_OUTSIDE
