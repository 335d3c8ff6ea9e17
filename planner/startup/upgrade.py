"""An estimate of the graphs that is printed and not taken off the KV cache: what a later release does with it."""

from __future__ import annotations

from ..resolve.memory_deduction import VARIABLE
from ..trace import Finding
from .estimate import is_implausible
from .known import deducts, gib, is_manual, release_of, total_of, utilization
from .record import Rank, Start
from .rules import AFTER_AN_UPGRADE
from .scene import LEAST_OUTSIDE, LEAST_SHARE

FEW = 1.1
"""Requests of the full length; with fewer one more option that takes memory may keep it from starting."""
TAKEN_OFF_SINCE = "0.20.2"
OLDER = "In v0.19, CUDA graph memory profiling will be enabled"
"""How the line begins by which older releases print the estimate alone."""


def finding_of(start: Start, rank: Rank) -> Finding | None:
    """What the KV cache is with the estimate taken off; None: it is taken off here, or never by choice.

    The figures are the log's alone: bytes, and the concurrency in proportion.
    """
    if start.crash is not None:
        return None  # What keeps it from starting today comes first.
    estimate, cache, total = rank.graph_estimate_bytes, rank.kv_bytes, total_of(start, rank)
    if not estimate or not cache or estimate <= 0 or cache <= 0 or not _is_only_printed(start, rank):
        return None
    if is_implausible(estimate, rank.graph_actual_bytes, total):
        return None
    left, times = cache - estimate, None
    own = utilization(start, rank)
    share = f" at the same --gpu-memory-utilization{f' of {own:g}' if own is not None else ''}"
    text = (
        f"the estimate of {gib(estimate)} is only printed here; since {TAKEN_OFF_SINCE} it is taken off:{share} the KV"
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
    return Finding(AFTER_AN_UPGRADE.code, severity, text, _fix(rank, cache, total), rank.name)


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


def _fix(rank: Rank, cache: int, total: int | None) -> str:
    """What keeps the KV cache of today: a share, where the GPU has so much, or its bytes."""
    raised = rank.raised_utilization
    parts = []
    if raised is not None and (raised <= 1 - LEAST_SHARE if total is None else _fits(rank, raised, total)):
        parts.append(f"--gpu-memory-utilization {raised:g} keeps today's KV cache")
    parts.append(f"--kv-cache-memory-bytes {cache} keeps it whatever the estimate is")
    parts.append(f"{VARIABLE}=0 leaves the estimate out as today")
    return ", or ".join(parts) + "; graphs then take what is free beside it, as now"


def _fits(rank: Rank, raised: float, total: int) -> bool:
    free = rank.free_bytes if rank.free_bytes is not None else total
    return free - raised * total >= LEAST_OUTSIDE
