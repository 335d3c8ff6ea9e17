"""What helps where memory ran out and the log does not say at which step: by the numbers of torch's line alone."""

from __future__ import annotations

from .known import GIB, MIB, gib
from .scene import LEAST_OUTSIDE, LEAST_SHARE, Remedy, Scene, down, less_cache, up

BEFORE_CACHE = (
    "if it was while weights were loaded or in the profile run, the share is no help: fewer --max-num-batched-tokens,"
    " or smaller weights"
)


OF_NO_STEP = (
    "by where it was: in capture or in a step a lower --gpu-memory-utilization, by 0.05 to begin with; in the profile"
    " run fewer --max-num-batched-tokens; while weights are loaded smaller weights or more GPUs. Torch's own words"
    " behind it (`Tried to allocate ...`) say by how much, and the frames above them where"
)


def remedy(scene: Scene) -> Remedy | None:
    """By the numbers of torch's line alone: what was missing, and what has to stay free beside it."""
    tried, free, total = (scene.values.get(name) for name in ("tried_bytes", "free_bytes", "total_bytes"))
    if tried is None or free is None or not total:
        return Remedy(OF_NO_STEP, {}) if scene.start.is_part else None
    missing = max(0, tried - free)
    largest: dict[str, int | float] = {}
    parts = less_cache(scene, missing, largest)
    if not parts:
        parts = lower_by(missing, int(total))
    if not parts:
        return None
    return Remedy(f"{', or '.join(parts)}; {BEFORE_CACHE}{_not_graphs(scene)}", largest)


def lower_by(missing: int, total: int) -> list[str]:
    """By how much the share has to be lower, where the log does not say what it was; []: by all of it."""
    least = up(max(missing, 1) / total)
    most = down(1 - max(LEAST_OUTSIDE, LEAST_SHARE * total) / total)
    if least >= most:
        return []
    return [
        f"a --gpu-memory-utilization at least {least:g} below what it was, which frees {gib(least * total)}, and at"
        f" most {most:g}: {_mib(missing)} were missing, and half a GiB or 2% of {gib(total)} has to stay free"
    ]


FEW = 0.02
FEW_BYTES = 256 * MIB
"""Of what a process holds; where its graphs have less than both, fewer of them are no help."""


def _not_graphs(scene: Scene) -> str:
    """That the graphs are not what is too large, by their pools in torch's line; "": it does not say, or they are."""
    process, pools = scene.values.get("process_bytes"), scene.values.get("private_pool_bytes")
    if not process or pools is None or pools > min(FEW_BYTES, FEW * process):
        return ""
    return (
        f"; the graphs have {_mib(pools)} of the {gib(process)} in use, so fewer of them are no help: workspaces and"
        " NCCL take memory after the profile run"
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB" if size < GIB else gib(size)
