"""A KV cache that is larger than planned because the weights are smaller, as of a quantised checkpoint."""

from __future__ import annotations

from ..memory.capacity_plan import CapacityPlan
from .known import deducts, gib, tightest
from .record import Start

WORTH = 0.2
"""Share of the planned weights by which they have to be smaller."""
FIX = (
    "a quantised checkpoint? --model takes its config.json or its id, `cgplan plan --weights-bytes` what the log says"
    " after `Model loading took`"
)


def lighter(start: Start, plan: CapacityPlan | None) -> str | None:
    """By how much the weights of the log are smaller than those planned, in words; None: they may be the same.

    Where the log has no line of the weights, they are what the KV cache has above the plan, less what the estimates of
    the graphs differ by.
    """
    rank = tightest(start.ranks) or next(iter(start.ranks), None)
    if plan is None or plan.budget is None or rank is None or len(plan.budget.stages) != 1:
        return None
    (stage,) = plan.budget.stages
    planned = stage.weights.best
    if rank.weights_bytes is not None:
        less, by = planned - rank.weights_bytes, "by its own line"
        if rank.weights_bytes >= stage.weights.low:
            return None
    elif rank.kv_bytes is None or rank.kv_bytes <= stage.kv_cache.high:
        return None
    else:
        less, by = rank.kv_bytes - stage.kv_cache.best, "by its KV cache"
        if rank.graph_estimate_bytes is not None and deducts(start, rank):
            less -= stage.deducted.best - rank.graph_estimate_bytes
    if not WORTH * planned < less < planned:
        return None
    return f"the weights of the log are about {gib(less)} of each GPU smaller than the {gib(planned)} planned, {by}"
