"""What one layer keeps in the KV cache: vLLM's spec classes, by vLLM's names, for all releases alike.

Follows vllm/v1/kv_cache_interface.py at 0.33.0. Older releases work the bytes of a packed page out inside the
classes; here whoever makes a spec gives them (`state_content_bytes`), so one formula serves every release.
Sizes are bytes, lengths tokens, unless a name says otherwise. Merging specs into groups is `kv_groups.py`'s.
"""

from __future__ import annotations

from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, prod
from typing import ClassVar, TypeVar

from ..light_dataclass import dataclass
from .kv_dtypes import dtype_bytes

Spec = TypeVar("Spec", bound="KVCacheSpec")


@dataclass(frozen=True)
class RequestLimits:
    """What bounds the blocks of one request.

    Attributes:
        max_model_len: tokens of the longest request.
        max_in_flight_tokens: tokens scheduled and not yet settled: max_num_batched_tokens times the concurrent
            batches; in the releases that count one batch, max_num_batched_tokens.
        context_shards: ranks that share a request's tokens: decode context parallelism, in the old releases times
            prefill context parallelism.
        max_encoder_tokens: max_num_encoder_input_tokens of the scheduler.
        mamba_cache_mode: of the engine: "none", "align" or "all".
    """

    max_model_len: int
    max_in_flight_tokens: int
    context_shards: int = 1
    max_encoder_tokens: int = 0
    mamba_cache_mode: str = "none"


@dataclass(frozen=True)
class MultipleOf:
    """A kernel that takes every multiple of `base` tokens for its block size."""

    base: int

    def __str__(self) -> str:
        return f"MultipleOf({self.base})"


@dataclass(frozen=True, kw_only=True)
class KVCacheSpec:
    """The cache of one layer.

    Attributes:
        block_size: tokens of one block.
        dcp_sharded: decode context parallelism spreads the tokens over ranks.
        block_stride_alignment: the stride between blocks must be a multiple of these bytes; MultipleOf(n): whole
            kernel blocks of up to n tokens.
        is_draft: the layer belongs to a draft model; it plays no part in comparing specs.
    """

    prefix_cacheable: ClassVar[bool] = True

    block_size: int
    dcp_sharded: bool = False
    block_stride_alignment: int | MultipleOf | None = None
    is_draft: bool = field(default=False, compare=False)

    @property
    def kind(self) -> str:
        """The name of vLLM's class."""
        return type(self).__name__

    @cached_property
    def page_size_bytes(self) -> int:
        """Bytes of one block of this layer, with padding."""
        raise NotImplementedError

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes of one block of this layer, without padding."""
        raise NotImplementedError

    def max_blocks(self, limits: RequestLimits) -> int:
        """The most blocks that one request holds."""
        raise NotImplementedError

    def copy_with_new_block_size(self: Spec, block_size: int) -> Spec:
        """The same layer in blocks of `block_size` tokens."""
        return replace(self, block_size=block_size)

    @cached_property
    def stride_alignment_bytes(self) -> int:
        """Bytes that the stride between blocks must be a multiple of; 1: any."""
        alignment = self.block_stride_alignment
        if not isinstance(alignment, MultipleOf):
            return alignment or 1
        kernel_block_size = gcd(alignment.base, self.block_size)
        if kernel_block_size == self.block_size:
            return 1
        return self.copy_with_new_block_size(kernel_block_size).page_size_bytes


@dataclass(frozen=True, kw_only=True)
class AttentionSpec(KVCacheSpec):
    """The cache of an attention layer: `num_heads` slots of `num_states` states of `state_size_bytes` bytes.

    Attributes:
        num_kv_heads: on one rank.
        head_size, head_size_v: elements of a key and of a value; None: a value is as long as a key.
        dtype: torch name of the stored type.
        kv_quant_mode: name of vLLM's KVQuantMode.
        page_size_padded: bytes that a block takes instead of what it needs.
        num_head_slots: slots where that is not one a KV head.
        state_content_bytes: bytes a slot and state where that is not key and value in `dtype`.
        tokens_per_state: tokens that one state covers; a fraction below 1: several states a token.
        max_tp_shards: different shards that tensor parallelism makes of the cache, or None.
        indexes_kv_by_block_stride: the backend reads padded pages by their stride (releases before 0.29).
    """

    dcp_sharded: bool = True
    num_kv_heads: int
    head_size: int
    dtype: str
    head_size_v: int | None = None
    kv_quant_mode: str = "NONE"
    page_size_padded: int | None = None
    num_head_slots: int | None = None
    state_content_bytes: int | None = None
    tokens_per_state: int | Fraction = 1
    max_tp_shards: int | None = None
    indexes_kv_by_block_stride: bool = False

    def __post_init__(self) -> None:
        if self.head_size_v is None:
            object.__setattr__(self, "head_size_v", self.head_size)

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads if self.num_head_slots is None else self.num_head_slots

    @property
    def num_states(self) -> int:
        return int(self.block_size // self.tokens_per_state)

    @property
    def state_size_bytes(self) -> int:
        if self.state_content_bytes is not None:
            return self.state_content_bytes
        return (self.head_size + (self.head_size_v or 0)) * dtype_bytes(self.dtype)

    @property
    def unpadded_page_size_bytes(self) -> int:
        return self.num_heads * self.num_states * self.state_size_bytes

    @cached_property
    def page_size_bytes(self) -> int:
        return self.unpadded_page_size_bytes if self.page_size_padded is None else self.page_size_padded


@dataclass(frozen=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """Every token is kept. The window fields say what the layer computes where all tokens are kept all the same."""

    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    non_causal: bool = False

    def max_blocks(self, limits: RequestLimits) -> int:
        shards = limits.context_shards if self.dcp_sharded else 1
        return _cdiv(_cdiv(limits.max_model_len, shards), self.block_size)


class TQFullAttentionSpec(FullAttentionSpec):
    """A TurboQuant layer; a class of its own up to 0.28."""


@dataclass(frozen=True, kw_only=True)
class RSWASpec(FullAttentionSpec):
    """Reference sliding window attention: the prompt and the last `rswa_window` tokens."""

    rswa_window: int


@dataclass(frozen=True, kw_only=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with `sink_len` tokens that are no request's own."""

    sink_len: int | None = None


@dataclass(frozen=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """One latent vector a state, no separate value. `alignment`: a block is rounded up to a multiple of it."""

    head_size_v: int | None = 0
    cache_dtype_str: str | None = None
    topk_buffer_width: int | None = None
    alignment: int | None = None
    model_version: str | None = None
    cache_role: str = "SPARSE"
    is_index_group_leader: bool = False
    non_causal_multi_token_decode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _pad_to_alignment(self, self.alignment)


class HiddenStateCacheSpec(MLAAttentionSpec):
    """Hidden states kept for `extract_hidden_states`."""


@dataclass(frozen=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Attention within chunks of `attention_chunk_size` tokens."""

    attention_chunk_size: int

    def max_blocks(self, limits: RequestLimits) -> int:
        kept = min(self.attention_chunk_size + limits.max_in_flight_tokens, limits.max_model_len)
        return _cdiv(kept, self.block_size)


@dataclass(frozen=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """The last `sliding_window` tokens, and `extra_retained_tokens` that drafts may read again."""

    sliding_window: int
    extra_retained_tokens: int = 0

    def max_blocks(self, limits: RequestLimits) -> int:
        kept = self.sliding_window - 1 + self.extra_retained_tokens + limits.max_in_flight_tokens
        # One more: the window need not begin where a block begins.
        return _cdiv(min(kept, limits.max_model_len), self.block_size) + 1


@dataclass(frozen=True, kw_only=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    """A sliding window in MLA's format. `bounded_replay`: the blocks are never shared between requests."""

    head_size_v: int | None = 0
    cache_dtype_str: str | None = None
    alignment: int | None = None
    model_version: str | None = None
    bounded_replay: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _pad_to_alignment(self, self.alignment)

    @property
    def prefix_cacheable(self) -> bool:  # type: ignore[override]
        return not self.bounded_replay


class CircularBufferSpec(AttentionSpec):
    """A ring of `block_size` tokens, one block a request."""

    prefix_cacheable: ClassVar[bool] = False

    def max_blocks(self, limits: RequestLimits) -> int:
        return 1


class EncoderOnlyAttentionSpec(AttentionSpec):
    """Attention that keeps nothing between steps."""

    def max_blocks(self, limits: RequestLimits) -> int:
        return 0


class CrossAttentionSpec(AttentionSpec):
    """The encoder's states of an encoder-decoder model."""

    def max_blocks(self, limits: RequestLimits) -> int:
        return _cdiv(limits.max_encoder_tokens, self.block_size)


@dataclass(frozen=True, kw_only=True)
class MambaSpec(KVCacheSpec):
    """A state that does not grow with the request, one a block.

    Attributes:
        shapes, dtypes: of each part of the state, on one rank.
        page_size_padded: bytes that a block takes, as much as an attention layer's.
        mamba_type: name of vLLM's backend.
        mamba_cache_mode: "none", "align" or "all".
        num_speculative_blocks: states kept for drafts.
        num_prefill_checkpoint_blocks, prefill_checkpoint_alignment: the checkpoint that a prefill may leave.
        tp_replicated: every rank holds the whole state.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    page_size_padded: int | None = None
    mamba_type: str = "MAMBA2"
    mamba_cache_mode: str = "none"
    num_speculative_blocks: int = 0
    num_prefill_checkpoint_blocks: int = 0
    prefill_checkpoint_alignment: int | None = None
    num_heads: int = 1
    tokens_per_state: int = -1
    tp_replicated: bool = False

    @property
    def unpadded_page_size_bytes(self) -> int:
        return sum(prod(shape) * dtype_bytes(dtype) for shape, dtype in zip(self.shapes, self.dtypes, strict=True))

    @cached_property
    def page_size_bytes(self) -> int:
        return self.unpadded_page_size_bytes if self.page_size_padded is None else self.page_size_padded

    def max_blocks(self, limits: RequestLimits) -> int:
        if limits.mamba_cache_mode == "all":
            return _cdiv(limits.max_model_len, self.block_size) + self.num_speculative_blocks
        if limits.mamba_cache_mode == "align":
            return 2 + self.num_speculative_blocks + self.num_prefill_checkpoint_blocks
        return 1 + self.num_speculative_blocks


def _pad_to_alignment(spec: AttentionSpec, alignment: int | None) -> None:
    if alignment is None:
        return
    needed = spec.unpadded_page_size_bytes
    padded = _cdiv(needed, alignment) * alignment
    if padded != needed:
        object.__setattr__(spec, "page_size_padded", padded)


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)
