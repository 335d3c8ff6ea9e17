"""What lay outside the budget where memory ran out after the KV cache was sized, held against what the graphs took."""

from __future__ import annotations

from .known import deducts, gib, is_manual, is_of_v0, sized
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
