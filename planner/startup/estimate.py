"""vLLM's estimate of its graphs where it keeps the KV cache too small: whether it can be true, and what helps first."""

from __future__ import annotations

from ..memory.budget.estimate_findings import IMPLAUSIBLE_SHARE
from ..releases.gpus import records
from ..resolve.memory_deduction import VARIABLE
from .known import GIB, deducts, gib, total_of
from .record import Rank, Start
from .scene import LEAST_OUTSIDE, Scene, down

LIKELY = 2 * GIB
"""More than graphs of one pool took; where nothing else is known, what to keep for them."""


def is_implausible(estimate: int | None, actual: int | None, total: int | None) -> bool:
    """Whether graphs cannot take that much.

    Args:
        actual: what capture took; None: the log ends before it, and the size alone tells.
        total: memory of the GPU; None: not known, and the largest GPU is taken.
    """
    if estimate is None:
        return False
    if estimate < 0:
        return True
    return estimate > IMPLAUSIBLE_SHARE * (total or _largest()) and (actual is None or estimate > 2 * actual)


def _largest() -> int:
    return max(int(record["memory_bytes"]) for record in records())


def size_without(start: Start) -> int | None:
    """The KV cache that fits on every rank whatever the estimate says, where capture never came; None: not known."""
    sizes = []
    for rank in start.ranks:
        if rank.kv_bytes is None or rank.graph_estimate_bytes is None or rank.graph_estimate_bytes < 0:
            return None
        sizes.append(rank.kv_bytes + rank.graph_estimate_bytes - LIKELY)
    return min(sizes) if sizes and min(sizes) > 0 else None


def switched_off(scene: Scene, needed: int) -> str | None:
    """The switch that gives the KV cache back what the estimate keeps, with what it leaves.

    Args:
        needed: bytes of KV cache that a request takes.

    Returns:
        None: the estimate is not taken off, or without it the cache is too small as well.
    """
    rank = scene.rank
    if rank is None or rank.kv_bytes is None or not deducts(scene.start, rank):
        return None
    estimate, cache = rank.graph_estimate_bytes or 0, rank.kv_bytes
    if estimate <= 0 or cache >= needed or cache + estimate < needed:
        return None
    cache += estimate
    outside = _outside(scene)
    gives = f"which gives the KV cache {gib(cache)}"
    if outside is None:
        return f"{VARIABLE}=0, {gives}, with memory for the graphs left outside the budget"
    total, share, free = outside
    takes = _takes(scene, rank, total) + LEAST_OUTSIDE
    room = free - round(share * total)
    if room >= takes:
        return f"{VARIABLE}=0, {gives} and leaves {gib(room)} outside the budget for the graphs"
    lower = down((free - takes) / total)
    cache -= round((share - lower) * total)
    if lower <= 0 or cache < needed:
        return None
    return f"{VARIABLE}=0 with --gpu-memory-utilization {lower:g}, which gives the KV cache {gib(cache)}"


def without_implausible(scene: Scene) -> str | None:
    """The switch where the estimate cannot be true and the log does not say what is left for the KV cache; None: it may
    be true, or is not taken off."""
    rank = next((one for one in scene.start.ranks if one.graph_estimate_bytes is not None), None)
    if rank is None or rank.kv_bytes is not None or not deducts(scene.start, rank):
        return None
    estimate = rank.graph_estimate_bytes or 0
    if estimate <= 0 or not is_implausible(estimate, rank.graph_actual_bytes, scene.total or scene.gpu_bytes):
        return None
    return (
        f"{VARIABLE}=0, for an estimate of {gib(estimate)} is implausible and the KV cache gets as much less for it,"
        f" with {SOME_ROOM}"
    )


SOME_ROOM = "2 GiB or more left for the graphs outside the budget: a --gpu-memory-utilization of 0.85 to 0.9"
"""See LIKELY: so much is outside on a GPU of 24 GiB and more."""


def _outside(scene: Scene) -> tuple[int, float, int] | None:
    """The GPU's bytes, the share of them that is asked for, and the bytes free before the start; None: not known."""
    total = scene.total or scene.gpu_bytes
    if not total or scene.share is None:
        return None
    return total, scene.share, scene.free if scene.free is not None else total


def _takes(scene: Scene, rank: Rank, total: int) -> int:
    """What the graphs take: the estimate, unless it cannot be true."""
    estimate = rank.graph_estimate_bytes or 0
    if not is_implausible(estimate, rank.graph_actual_bytes, total_of(scene.start, rank) or total):
        return estimate
    return scene.graphs if scene.graphs is not None else LIKELY


SEGMENT = 20 << 20
"""Bytes that torch's allocator takes at once for blocks of 1 to 10 MiB: what a sample is too high by, where one fell in
it (c10/cuda/CUDACachingAllocator, kLargeBuffer)."""


def outlier(rank: Rank) -> str:
    """Which of vLLM's samples makes its estimate too high, in words for the end of a clause; "": none, or not known.

    Of two kinds the one whose further graphs are far above the other's, where by the other's the sum is nearer to what
    capture took.
    """
    if len(rank.samples) != 2 or rank.graph_estimate_bytes is None or rank.graph_actual_bytes is None:
        return ""
    low, high = sorted(rank.samples, key=lambda sample: sample.per_graph_bytes)
    if high.per_graph_bytes < 3 * max(1, low.per_graph_bytes):
        return ""
    less = (high.graphs - 1) * (high.per_graph_bytes - low.per_graph_bytes)
    whole = rank.graph_estimate_bytes - less
    if abs(whole - rank.graph_actual_bytes) > abs(rank.graph_estimate_bytes - rank.graph_actual_bytes) / 2:
        return ""
    each, other = (f"{sample.per_graph_bytes / (1 << 20):.0f} MiB" for sample in (high, low))
    by = high.per_graph_bytes - low.per_graph_bytes
    why = ", one piece of 20 MiB that torch's allocator took just then," if abs(by - SEGMENT) < 1 << 20 else ""
    return (
        f"; the outlier is the second {high.mode} sample of {each}{why} counted {high.graphs - 1} times: with the"
        f" {other} of {low.mode} the sum is {gib(whole)}"
    )
