"""Whether the blocks of --num-gpu-blocks-override can be allocated at all: vLLM plans with them whatever the memory.

Source: vllm/v1/core/kv_cache_planning.py:1512-1531 for the override; the tensors are allocated after it, and CUDA runs
out of memory there.
"""

from __future__ import annotations

from ..deployment import Deployment
from ..trace import Finding
from .budget.budget import Budget
from .estimates import GIB
from .kv.cache import KVCache
from .kv.capacity import OVERRIDE


def override_findings(deployment: Deployment, made: Budget, cache: KVCache | None) -> tuple[Finding, ...]:
    """CG577 where the blocks asked for are more than the whole GPU has room for; () without an override.

    An error where they are more than the high end of the estimate holds, a warning where they may be.
    """
    override = deployment.num_gpu_blocks_override
    if override is None or cache is None:
        return ()
    worst: Finding | None = None
    for stage, size in zip(made.stages, cache.plan.bytes_per_block, strict=True):
        # What the budget gives, and what would stay free of the GPU beside it.
        low, best, high = (getattr(stage.kv_cache, end) + getattr(stage.unused, end) for end in ("low", "best", "high"))
        asked = override * size
        if not size or asked <= best:
            continue
        severity = "error" if asked > high else "warning"
        if worst is not None and worst.severity == "error":
            continue
        text = (
            f"{override} blocks take {asked / GIB:.2f} GiB, and the GPU has {max(0, best) / GIB:.2f} GiB for them:"
            " CUDA runs out of memory when they are allocated"
        )
        fits = max(0, low // size)
        fix = f"--num-gpu-blocks-override {fits} or less, or none" if fits else "leave --num-gpu-blocks-override out"
        worst = Finding(OVERRIDE.code, severity, text, fix, "--num-gpu-blocks-override")
    return () if worst is None else (worst,)
