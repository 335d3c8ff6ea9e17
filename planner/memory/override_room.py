"""Whether the blocks of --num-gpu-blocks-override can be allocated at all: vLLM plans with them whatever the memory.

Source: vllm/v1/core/kv_cache_planning.py:1512-1531 for the override; the tensors are allocated after it, and CUDA runs
out of memory there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..errors import StartupError
from ..resolve import Resolution
from ..trace import Finding
from .budget.budget import Budget, StageBudget
from .budget.rules import MANUAL, NO_ROOM_TO_CAPTURE
from .budget.shortages import shortages
from .estimates import GIB, between
from .kv.cache import KVCache, kv_cache
from .kv.capacity import OVERRIDE

FLAG = "--num-gpu-blocks-override"


def override_findings(deployment: Deployment, made: Budget, cache: KVCache | None) -> tuple[Finding, ...]:
    """CG577 where the blocks asked for are more than the whole GPU has room for; () without an override.

    An error where they are more than the high end of the estimate holds, a warning where they may be.
    """
    # What the KV cache takes, and what would stay free of the GPU beside it.
    rooms = [(s.held.low + s.unused.low, s.held.best + s.unused.best, s.held.high + s.unused.high) for s in made.stages]
    return _found(deployment, rooms, cache, "the GPU has")


def with_blocks(deployment: Deployment, resolution: Resolution, made: Budget) -> Budget:
    """The budget with the bytes that the blocks of --num-gpu-blocks-override take, and what then stays free.

    vLLM allocates so many pages of every layer: vllm/v1/core/kv_cache_utils.py:1357, 1393 @ 0.25.1.
    """
    override = deployment.num_gpu_blocks_override
    if override is None:
        return made
    try:
        sizes = kv_cache(deployment, resolution, [_MUCH] * len(made.stages)).plan.bytes_per_block
    except StartupError:
        return made  # the verdict says why
    stages = tuple(_with(stage, override * size) for stage, size in zip(made.stages, sizes, strict=True))
    made = replace(made, stages=stages)
    # How much may be asked for is said with the blocks.
    elsewhere = (NO_ROOM_TO_CAPTURE.code, MANUAL.code)
    found = tuple(one for one in shortages(made, deployment, resolution) if one.code not in elsewhere)
    return replace(made, findings=found)


_MUCH = 1 << 50


def _with(stage: StageBudget, taken: int) -> StageBudget:
    left, beside = stage.kv_cache, stage.unused
    low, best, high = (getattr(left, end) + getattr(beside, end) - taken for end in ("low", "best", "high"))
    return replace(stage, blocks=taken, unused=between(low, best, high, beside.source))


def override_in(deployment: Deployment, available: Sequence[int], cache: KVCache | None) -> tuple[Finding, ...]:
    """The same in KV caches of known size, bytes by pipeline stage."""
    return _found(deployment, [(size, size, size) for size in available], cache, "there are")


def _found(
    deployment: Deployment, rooms: Iterable[tuple[int, int, int]], cache: KVCache | None, has: str
) -> tuple[Finding, ...]:
    """The worst of all stages; `rooms` are low, best and high bytes for the blocks."""
    override = deployment.num_gpu_blocks_override
    if override is None or cache is None:
        return ()
    worst: Finding | None = None
    for (low, best, high), size in zip(rooms, cache.plan.bytes_per_block, strict=True):
        asked = override * size
        if not size or asked <= low:
            continue
        severity = "error" if asked > high else "warning"
        if worst is not None and (worst.severity == "error" or severity == "warning"):
            continue
        text = (
            f"{override} blocks take {asked / GIB:.2f} GiB, and {has} {max(0, best) / GIB:.2f} GiB for them:"
            " CUDA runs out of memory when they are allocated"
        )
        fits = max(0, low // size)
        fix = f"{FLAG} {fits} or less, or none" if fits else f"leave {FLAG} out"
        worst = Finding(OVERRIDE.code, severity, text, fix, FLAG)
    return () if worst is None else (worst,)
