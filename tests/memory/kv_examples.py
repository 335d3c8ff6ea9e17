"""Small models for the KV cache tests."""

from __future__ import annotations

from typing import Any

from cgplan.memory.kv.cache_plan import PlanningSettings
from cgplan.memory.kv.layout import DEFAULT_PREFERENCE
from cgplan.memory.kv_specs import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    RequestLimits,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

GIB = 1 << 30
NEWEST = "0.33.0"


def full(**fields: Any) -> FullAttentionSpec:
    """8 heads of 128 in bfloat16 and blocks of 16: 65536 bytes a page."""
    return FullAttentionSpec(**{"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16", **fields})


def sliding(window: int = 128, **fields: Any) -> SlidingWindowSpec:
    values = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16", **fields}
    return SlidingWindowSpec(sliding_window=window, **values)


def chunked(chunk: int = 8192, **fields: Any) -> ChunkedLocalAttentionSpec:
    values = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16", **fields}
    return ChunkedLocalAttentionSpec(attention_chunk_size=chunk, **values)


def mla(**fields: Any) -> MLAAttentionSpec:
    return MLAAttentionSpec(**{"block_size": 64, "num_kv_heads": 1, "head_size": 576, "dtype": "bfloat16", **fields})


def mamba(**fields: Any) -> MambaSpec:
    return MambaSpec(
        **{"block_size": 528, "shapes": ((3, 2048), (8, 128, 128)), "dtypes": ("bfloat16", "float32"), **fields}
    )


def layers(**kinds: tuple[int, KVCacheSpec]) -> dict[str, KVCacheSpec]:
    """Layers named kind.0, kind.1 ..."""
    return {f"{kind}.{i}": spec for kind, (count, spec) in kinds.items() for i in range(count)}


def settings(length: int = 8192, tokens: int = 8192, release: str = NEWEST, **fields: Any) -> PlanningSettings:
    """As runner V2 with asynchronous scheduling: two batches are in flight since 0.26."""
    limits = {
        "max_model_len": length,
        "max_in_flight_tokens": 2 * tokens,
        "context_shards": fields.get("decode_context_parallel_size", 1),
        "mamba_cache_mode": fields.pop("mamba_cache_mode", "none"),
    }
    return PlanningSettings(release, RequestLimits(**limits), **{"layouts": DEFAULT_PREFERENCE, **fields})


def deepseek_v4() -> dict[str, KVCacheSpec]:
    """Four layers of each compression, and a window for each."""

    def window(block_size: int, width: int, head_size: int) -> SlidingWindowMLASpec:
        return SlidingWindowMLASpec(
            block_size=block_size, sliding_window=width, num_kv_heads=1, head_size=head_size, dtype="uint8"
        )

    return layers(
        window=(8, window(64, 128, 584)),
        narrow=(4, mla(block_size=256, head_size=584, dtype="uint8", tokens_per_state=4)),
        indexer=(4, mla(block_size=256, head_size=132, dtype="uint8", tokens_per_state=4)),
        wide=(4, mla(block_size=256, head_size=584, dtype="uint8", tokens_per_state=128)),
        state=(4, window(4, 8, 2048)),
    )
