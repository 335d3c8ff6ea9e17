"""What lay outside the budget where memory ran out after the KV cache was sized, held against what the graphs took."""

from __future__ import annotations

from .known import GIB, deducts, gib, is_manual, is_of_v0, requested_of, sized
from .record import Start
from .scene import Scene

AFTER = ("capture", "warm-up")
"""Steps at which only what lies outside the budget is left."""


def is_split(start: Start) -> bool:
    """Whether a model is spread over several GPUs, so that a figure of one is not that of the server."""
    return any((sized(start, f"{name}_parallel_size") or 1) > 1 for name in ("tensor", "pipeline"))


def outside_the_budget(scene: Scene) -> str:
    """ "; outside the budget lay 0.45 GiB (2% of 22.36), the graphs took 0.46 GiB", for the end of a clause; "": it
    was not that step, or the log does not say."""
    rank, total = scene.rank, scene.total
    if scene.step not in AFTER or not total or is_of_v0(scene.start) or is_manual(scene.start, rank):
        return ""
    actual = rank.graph_actual_bytes if rank is not None else None
    if scene.share is None:
        return "; what lay outside the budget the log does not say, for it does not name --gpu-memory-utilization"
    left = round((1 - scene.share) * total)
    text = f"; outside the budget lay {gib(left)}, {100 * (1 - scene.share):.4g}% of {gib(total)}"
    if actual is None or actual < 0 or rank is None:
        return text
    text += f", and the graphs took {gib(actual)}"
    estimate = rank.graph_estimate_bytes
    if not deducts(scene.start, rank):
        return f"{text} of it"
    if estimate is None:
        return f"{text}; how much of that was kept back the log does not say"
    return f"{text}, for which {gib(estimate)} were kept back"


def spent(scene: Scene) -> str:
    """What was asked for, and what the weights and the profile run took of it, for the end of a clause; "": the log
    does not say it all."""
    rank, total, share = scene.rank, scene.total, scene.share
    asked = requested_of(scene.start, rank)
    if rank is None or rank.weights_bytes is None or rank.kv_bytes is None or is_manual(scene.start, rank):
        return ""
    if not asked and total and share:
        asked = round(total * share)
    if not asked:
        return ""
    of = f", {share:g} x {total / GIB:.2f}" if total and share else ""
    left = asked - rank.weights_bytes
    if left <= 0:
        return f"; {gib(asked)} are asked for{of}, and the weights alone take {gib(rank.weights_bytes)}"
    estimate = max(0, rank.graph_estimate_bytes or 0) if deducts(scene.start, rank) else 0
    text = (
        f"; {gib(asked)} are asked for{of}, less {gib(rank.weights_bytes)} of weights {gib(left)}, and the profile run"
        f" took {gib(left - rank.kv_bytes - estimate)}"
    )
    return f"{text}, the graphs' estimate {gib(estimate)}" if estimate else text
