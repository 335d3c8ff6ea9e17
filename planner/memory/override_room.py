"""Whether the blocks of --num-gpu-blocks-override can be allocated at all: vLLM plans with them whatever the memory.

Source: vllm/v1/core/kv_cache_planning.py:1512-1531 for the override; the tensors are allocated after it, and CUDA runs
out of memory there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..deployment import Deployment
from ..trace import Finding
from .budget.budget import Budget
from .estimates import GIB
from .kv.cache import KVCache
from .kv.capacity import OVERRIDE

FLAG = "--num-gpu-blocks-override"


def override_findings(deployment: Deployment, made: Budget, cache: KVCache | None) -> tuple[Finding, ...]:
    """CG577 where the blocks asked for are more than the whole GPU has room for; () without an override.

    An error where they are more than the high end of the estimate holds, a warning where they may be.
    """
    # What the budget gives, and what would stay free of the GPU beside it.
    rooms = [
        (s.kv_cache.low + s.unused.low, s.kv_cache.best + s.unused.best, s.kv_cache.high + s.unused.high)
        for s in made.stages
    ]
    return _found(deployment, rooms, cache, "the GPU has")


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
