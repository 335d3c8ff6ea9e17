"""Which pipeline stage a rank is of, and the KV cache of each stage."""

from __future__ import annotations

from ..deployment import Deployment
from .record import Rank, Start


def stage_of(rank: Rank, start: Start, stages: int) -> int:
    """The pipeline stage of a rank, by its name, else by its number."""
    for part in rank.name.replace("Worker_", "").split("_"):
        if part.startswith("PP") and part[2:].isdigit():
            return min(int(part[2:]), stages - 1)
    if rank.rank is not None and stages > 1 and start.ranks:
        wide = max(1, (max(one.rank or 0 for one in start.ranks) + 1) // stages)
        return min(rank.rank // wide, stages - 1)
    return 0


def kv_bytes_by_stage(start: Start, deployment: Deployment) -> list[int] | None:
    """The KV cache of each pipeline stage as the log has it, the least of its ranks; None: not of every stage."""
    stages = deployment.pipeline_parallel_size
    found: dict[int, int] = {}
    for rank in _of_first_engine(start):
        size = rank.kv_after_reserve_bytes if rank.kv_after_reserve_bytes is not None else rank.kv_bytes
        if size is not None:
            stage = stage_of(rank, start, stages)
            found[stage] = min(size, found.get(stage, size))
    if not found or min(found.values()) <= 0:
        return None
    if len(found) < stages:
        # The line is printed once by each process that has something of its own to say.
        return [min(found.values())] * stages
    return [found[stage] for stage in range(stages)]


def _of_first_engine(start: Start) -> list[Rank]:
    """Ranks of the engine whose tokens the start has: with data parallelism each has a pool of its own."""
    if len(start.kv_printed) < 2:
        return list(start.ranks)
    label = next((part for part in start.kv_printed[0][0].split("_") if part.startswith("DP")), None)
    own = [rank for rank in start.ranks if label in rank.name.split("_")]
    return own if label is not None and own else list(start.ranks)
