"""What one more token of a request takes of the KV cache, and what a request takes with every window at full length."""

from __future__ import annotations

from dataclasses import replace

from ...deployment import Deployment
from ...errors import CgplanError
from ...resolve import Resolution
from ..kv_specs import FullAttentionSpec
from .cache import kv_cache
from .cache_plan import KVCachePlan, PlannedGroup
from .groups import GroupSpec
from .merge import UniformTypeKVCacheSpecs

ENOUGH = 1 << 60
"""Bytes in which every request fits."""


def keeps_all(spec: GroupSpec) -> bool:
    """Whether a group keeps every token; where its layers keep specs of their own, each does."""
    if isinstance(spec, UniformTypeKVCacheSpecs):
        return all(isinstance(one, FullAttentionSpec) for one in spec.specs.values())
    return isinstance(spec, FullAttentionSpec)


def growing(plan: KVCachePlan) -> PlannedGroup | None:
    """The one group of layers that keeps every token; None: there is none, or more than one."""
    found = [group for group in plan.groups if keeps_all(group.spec)]
    return found[0] if len(found) == 1 else None


def token_bytes(plan: KVCachePlan) -> int | None:
    """Bytes of one rank that a further token of a long request takes, of the stage with the most; None: not known.

    A block is as large as the longest group of layers needs.
    """
    group = growing(plan)
    return None if group is None else max(plan.bytes_per_block) // group.spec.block_size


def request_bytes(deployment: Deployment, resolution: Resolution, length: int, *, hybrid: bool) -> int | None:
    """Bytes of one rank that a request of `length` tokens takes with the hybrid KV cache manager on, or off.

    None: vLLM refuses that.
    """
    asked = {"disable_hybrid_kv_cache_manager": not hybrid, "num_gpu_blocks_override": None}
    try:
        changed = deployment.model_copy(update=asked)
        found = kv_cache(changed, replace(resolution, max_model_len=length), [ENOUGH]).plan
    except CgplanError:
        return None
    if found.refusal is not None:
        return None
    return max(found.bytes_per_block) * sum(group.blocks_per_request for group in found.groups)
