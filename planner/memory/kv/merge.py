"""Which layers share one spec, and which share one kind of block: vLLM's two ways of putting layers together.

Specs *merge* when one spec can stand for all of them. They are of *one type* when a request needs the same blocks of
all of them, whatever the bytes; then a bundle keeps each layer's own spec.

Source: vllm/v1/kv_cache_interface.py, the methods merge and is_uniform_with_collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ...errors import StartupError
from ...light_dataclass import dataclass
from ...trace import Rule
from ..kv_specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    EncoderOnlyAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    RSWASpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

Facts = Mapping[str, Any]
"""The facts `kv_planning` of one release."""

WINDOWS_DIFFER = Rule(
    "CG572",
    title="Layers that are cached as full attention must not have different windows.",
    why="One spec stands for all of them, and it has one window.",
    example="A model with windows of 512 and 1024 tokens and --disable-hybrid-kv-cache-manager does not start.",
    instead="Leave the hybrid KV cache manager on.",
    source="vllm/v1/kv_cache_interface.py:650-660",
)

_ATTENTION_FIELDS = tuple(f.name for f in fields(AttentionSpec) if f.compare)


@dataclass(frozen=True, eq=False)
class UniformTypeKVCacheSpecs:
    """Layers of one type that keep their own specs: each takes the same blocks, of its own bytes.

    Attributes:
        block_size: tokens of one block of every layer.
        specs: layer name to spec, in layer order; never empty.
    """

    block_size: int
    specs: dict[str, KVCacheSpec]

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def first_spec(self) -> KVCacheSpec:
        return next(iter(self.specs.values()))

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block of all layers together."""
        return sum(spec.page_size_bytes for spec in self.specs.values())

    @property
    def dcp_sharded(self) -> bool:
        return self.first_spec.dcp_sharded

    @property
    def prefix_cacheable(self) -> bool:
        return all(spec.prefix_cacheable for spec in self.specs.values())

    def page_sizes(self) -> list[int]:
        """The distinct page sizes, ascending."""
        return sorted({spec.page_size_bytes for spec in self.specs.values()})

    def by_page_size(self) -> dict[int, list[str]]:
        """Page size to the layers that have it."""
        found: dict[int, list[str]] = {}
        for name, spec in self.specs.items():
            found.setdefault(spec.page_size_bytes, []).append(name)
        return found

    def most_layers_of_one_page_size(self) -> int:
        return max(len(names) for names in self.by_page_size().values())


def merged(specs: Sequence[KVCacheSpec], facts: Facts) -> KVCacheSpec | None:
    """One spec for all of `specs`; None where there is none.

    Raises:
        StartupError: CG572.
    """
    first = specs[0]
    if isinstance(first, MLAAttentionSpec):
        return _merged_mla(first, specs, facts["merging"])
    if isinstance(first, FullAttentionSpec):
        return _merged_full(first, specs)
    if isinstance(first, SlidingWindowMLASpec):
        alike = all(isinstance(spec, SlidingWindowMLASpec) for spec in specs)
        return first if alike and _equal(specs, facts["merging"]["sliding_mla_fields"]) else None
    return first if all(spec == first for spec in specs[1:]) else None


def _merged_mla(first: MLAAttentionSpec, specs: Sequence[KVCacheSpec], facts: Facts) -> KVCacheSpec | None:
    if not all(isinstance(spec, MLAAttentionSpec) for spec in specs) or not _equal(specs, facts["mla_fields"]):
        return None
    if facts["mla_compares_attention_fields"] and not _equal(specs, _ATTENTION_FIELDS):
        return None
    return first


def _merged_full(first: FullAttentionSpec, specs: Sequence[KVCacheSpec]) -> KVCacheSpec | None:
    full = [spec for spec in specs if isinstance(spec, FullAttentionSpec) and not isinstance(spec, MLAAttentionSpec)]
    if len(full) != len(specs):
        return None
    if isinstance(first, RSWASpec) and {getattr(spec, "rswa_window", None) for spec in full} != {first.rswa_window}:
        return None
    windows = {spec.sliding_window for spec in full if spec.sliding_window is not None}
    chunks = {spec.attention_chunk_size for spec in full if spec.attention_chunk_size is not None}
    if len(windows) > 1 or len(chunks) > 1:
        raise StartupError(
            f"layers cached as full attention have different windows: {sorted(windows or chunks)}",
            code=WINDOWS_DIFFER.code,
            stage="initialize_kv_caches",
            raised_as="ValueError",
            raised_in="merge_window_sizes",
            where="--model",
            fix=WINDOWS_DIFFER.instead,
        )
    if not _equal(full, _ATTENTION_FIELDS) or (windows and chunks):
        return None
    return replace(
        first,
        sliding_window=next(iter(windows), None),
        attention_chunk_size=next(iter(chunks), None),
        non_causal=any(spec.non_causal for spec in full),
    )


def _equal(specs: Iterable[KVCacheSpec], names: Iterable[str]) -> bool:
    distinct = list({id(spec): spec for spec in specs}.values())  # layers built alike share one
    return len(distinct) == 1 or all(len({getattr(spec, name) for spec in distinct}) == 1 for name in names)


def are_alike(specs: Sequence[KVCacheSpec], facts: Facts) -> bool:
    """Whether the specs merge, for a caller to whom different windows are merely a no."""
    try:
        return merged(specs, facts) is not None
    except StartupError:
        return False


def is_same_type(first: KVCacheSpec, other: KVCacheSpec, facts: Facts) -> bool:
    """Whether `other` may lie in a bundle that `first` opened."""
    if first.block_size != other.block_size:
        return False
    if facts["merging"]["compares_dcp_sharding"] and first.dcp_sharded != other.dcp_sharded:
        return False
    if isinstance(first, SlidingWindowMLASpec):
        return (
            isinstance(other, SlidingWindowMLASpec)
            and other.sliding_window == first.sliding_window
            and other.bounded_replay == first.bounded_replay
        )
    if isinstance(first, SlidingWindowSpec):
        return isinstance(other, SlidingWindowSpec) and other.sliding_window == first.sliding_window
    if isinstance(first, ChunkedLocalAttentionSpec):
        return isinstance(other, ChunkedLocalAttentionSpec) and other.attention_chunk_size == first.attention_chunk_size
    if isinstance(first, MambaSpec):
        return isinstance(other, MambaSpec) and _equal((first, other), facts["merging"]["mamba_fields"])
    for kind in (FullAttentionSpec, CrossAttentionSpec, CircularBufferSpec, EncoderOnlyAttentionSpec):
        if isinstance(first, kind):
            return isinstance(other, kind)
    return False


def bundle(specs: Mapping[str, KVCacheSpec], facts: Facts) -> UniformTypeKVCacheSpecs | None:
    """A bundle of all layers; None where they are not of one type."""
    first = next(iter(specs.values()))
    if not all(is_same_type(first, spec, facts) for spec in specs.values()):
        return None
    return UniformTypeKVCacheSpecs(first.block_size, dict(specs))
