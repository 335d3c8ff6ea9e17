"""Layers with a window that get the blocks of full attention: without the hybrid KV cache manager, or as a way out.

Only the allocation changes; the layers still compute their window.

Source: vllm/v1/core/kv_cache_planning.py:744-876.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...errors import StartupError
from ...trace import Finding, Rule
from ..kv_specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from .merge import Facts, UniformTypeKVCacheSpecs, bundle, merged

NOT_UNIFIED = Rule(
    "CG563",
    title="Without the hybrid KV cache manager all layers must take the same blocks.",
    why="One block table serves the whole model then. Windows can be cached as full attention, Mamba states cannot.",
    example="Nemotron-Nano-9B-v2 with --disable-hybrid-kv-cache-manager does not start.",
    instead="Leave --disable-hybrid-kv-cache-manager out.",
    source="vllm/v1/core/kv_cache_planning.py:810-814",
)
BOUNDED_REPLAY = Rule(
    "CG571",
    title="DeepSeek V4 needs the hybrid KV cache manager.",
    why="vLLM copies a field of the windowed layers that full layers do not have, and stops with a TypeError.",
    example="DeepSeek-V4-Flash with --disable-hybrid-kv-cache-manager does not start on 0.33.0.",
    instead="Leave --disable-hybrid-kv-cache-manager out.",
    source="vllm/v1/core/kv_cache_planning.py:792-808",
    since="0.31.0",
)
MANAGER_OFF = Rule(
    "CG578",
    title="Without the hybrid KV cache manager layers with a window are cached as full attention.",
    why="One block table serves all layers, so blocks outside a window are not freed.",
    example="gemma-3-27b-it with --disable-hybrid-kv-cache-manager keeps all tokens of its 52 sliding layers.",
    instead="Leave --disable-hybrid-kv-cache-manager out; the same memory then holds more tokens.",
    source="vllm/v1/core/kv_cache_planning.py:853-876",
)
FALLBACK = Rule(
    "CG579",
    title="MLA beside sliding windows of another page size is cached as full attention throughout.",
    why="The page of MLA cannot be padded to that of the other layers.",
    example="An MLA model with a draft model that slides a window.",
    instead="Use a draft model without a sliding window.",
    source="vllm/v1/core/kv_cache_planning.py:819-850",
    since="0.27.1",
)

Specs = dict[str, KVCacheSpec]
_STAGE = "initialize_kv_caches"


def without_hybrid_manager(specs: Specs, facts: Facts, found: list[Finding]) -> Specs:
    """The specs as the single block table holds them; a warning goes to `found` where they change.

    Raises:
        StartupError: CG563, CG571, CG572.
    """
    if not facts["promotion"]["apart_by_dcp_sharding"]:
        if _is_uniform(specs, facts):
            return specs
        found.append(_manager_off())
        return promoted(specs, facts)
    apart: dict[bool, Specs] = {}
    for name, spec in specs.items():
        apart.setdefault(isinstance(spec, AttentionSpec) and not spec.dcp_sharded, {})[name] = spec
    result = dict(specs)
    for part in apart.values():
        changed = promoted(part, facts)
        if changed != part:
            found.append(_manager_off())
            result.update(changed)
    return result


def _manager_off() -> Finding:
    return Finding(
        MANAGER_OFF.code,
        "warning",
        "the hybrid KV cache manager is off: layers with a window are cached as full attention",
        MANAGER_OFF.instead,
        "--disable-hybrid-kv-cache-manager",
    )


def promoted(specs: Specs, facts: Facts) -> Specs:
    """The specs with windows turned into full attention.

    Raises:
        StartupError: CG563, CG571, CG572.
    """
    if _is_uniform(specs, facts):
        return dict(specs)
    full_sizes = [spec.block_size for spec in specs.values() if isinstance(spec, FullAttentionSpec)]
    result = dict(specs)
    if full_sizes:
        for name, spec in specs.items():
            result[name] = _as_full(spec, _block_size(spec, full_sizes, facts), facts)
    if not _is_uniform(result, facts):
        raise StartupError(
            "without the hybrid KV cache manager the layers do not all take the same blocks",
            code=NOT_UNIFIED.code,
            stage=_STAGE,
            raised_as="ValueError",
            raised_in=facts["promotion"]["raised_in"],
            where="--disable-hybrid-kv-cache-manager",
            fix=NOT_UNIFIED.instead,
        )
    return result


def _is_uniform(specs: Specs, facts: Facts) -> bool:
    return not specs or merged(tuple(specs.values()), facts) is not None or bundle(specs, facts) is not None


def _block_size(spec: KVCacheSpec, full_sizes: list[int], facts: Facts) -> int:
    """Tokens of a block of the promoted layer."""
    if facts["promotion"]["takes_full_block_size"]:
        return full_sizes[0] if len(set(full_sizes)) == 1 else spec.block_size
    return full_sizes[0] if isinstance(spec, SlidingWindowMLASpec) else spec.block_size


def _as_full(spec: KVCacheSpec, block_size: int, facts: Facts) -> KVCacheSpec:
    how = facts["promotion"]
    if isinstance(spec, SlidingWindowMLASpec):
        target: type[FullAttentionSpec] = MLAAttentionSpec
        kept = how["sliding_mla_fields"]
    elif isinstance(spec, (SlidingWindowSpec, ChunkedLocalAttentionSpec)):
        target = FullAttentionSpec
        kept = how["sliding_fields"] if isinstance(spec, SlidingWindowSpec) else how["chunked_fields"]
    else:
        return spec
    if target is MLAAttentionSpec and how["chokes_on_bounded_replay"]:
        raise StartupError(
            "DeepSeek V4's layers cannot be cached as full attention",
            code=BOUNDED_REPLAY.code,
            stage=_STAGE,
            raised_as="TypeError",
            raised_in="replace_as",
            where="--disable-hybrid-kv-cache-manager",
            fix=BOUNDED_REPLAY.instead,
        )
    names = {f.name for f in fields(target)}
    if not how["keeps_all"]:
        names &= {"num_kv_heads", "head_size", "dtype", *kept}
    values: dict[str, Any] = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name in names}
    values["page_size_padded"] = _padded(spec, block_size) if how["takes_full_block_size"] else spec.page_size_padded
    return target(**{**values, "block_size": block_size})


def _padded(spec: AttentionSpec, block_size: int) -> int | None:
    if spec.page_size_padded is None:
        return None
    return max(spec.page_size_padded, spec.unpadded_page_size_bytes * block_size // spec.block_size)


def full_allocation(specs: Specs, facts: Facts, found: list[Finding]) -> UniformTypeKVCacheSpecs | None:
    """A bundle of all layers where MLA and sliding windows cannot share a page; None where that is no way out."""
    kinds = specs.values()
    if not facts["promotion"]["fallback"]:
        return None
    if any(isinstance(s, (HiddenStateCacheSpec, SlidingWindowMLASpec, ChunkedLocalAttentionSpec)) for s in kinds):
        return None
    if not any(isinstance(s, MLAAttentionSpec) for s in kinds) or not any(
        isinstance(s, SlidingWindowSpec) for s in kinds
    ):
        return None
    try:
        whole = bundle(promoted(specs, facts), facts)
    except StartupError as error:
        if error.raised_as != "ValueError":
            raise
        return None
    if whole is not None:
        found.append(
            Finding(
                FALLBACK.code,
                "warning",
                "pages of MLA and of sliding windows cannot be made equal: all layers are cached as full attention",
                FALLBACK.instead,
            )
        )
    return whole
