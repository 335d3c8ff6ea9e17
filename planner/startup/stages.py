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


def engine_of(name: str) -> str | None:
    """The data parallel engine that a process is of, as its name says it ("DP1"); None: it says none."""
    for part in name.replace("Worker_", "").replace("EngineCore_", "").split("_"):
        if part.startswith("DP") and part[2:].isdigit():
            return part
    return None


def kv_bytes_by_stage(start: Start, deployment: Deployment, engine: str | None = None) -> list[int] | None:
    """The KV cache of each pipeline stage as the log has it, the least of its ranks; None: not of every stage.

    Args:
        engine: of data parallelism; None: the first that printed its tokens.
    """
    stages = deployment.pipeline_parallel_size
    found: dict[int, int] = {}
    for rank in _of_engine(start, engine):
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


def _of_engine(start: Start, engine: str | None) -> list[Rank]:
    """Ranks of one engine: with data parallelism each has a pool of its own."""
    if engine is None and len(start.kv_printed) >= 2:
        engine = engine_of(start.kv_printed[0][0])
    own = [rank for rank in start.ranks if engine_of(rank.name) == engine]
    return own if engine is not None and own else list(start.ranks)
