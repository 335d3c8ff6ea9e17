"""Pages and blocks of one layer, as the reference's test vectors have them (bf16, 16 tokens a block)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.memory.kv_specs import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    EncoderOnlyAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    MultipleOf,
    RequestLimits,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

HEADS: dict[str, Any] = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16"}
STATE = MambaSpec(block_size=16, shapes=((3, 8), (4, 16)), dtypes=("bfloat16", "float32"), num_speculative_blocks=3)


def limits(length: int = 8192, in_flight: int = 16384, **more: Any) -> RequestLimits:
    return RequestLimits(max_model_len=length, max_in_flight_tokens=in_flight, **more)


@pytest.mark.parametrize(
    ("changes", "page"),
    [
        ({}, 65536),
        ({"num_kv_heads": 1}, 8192),
        ({"dtype": "uint8"}, 32768),
        ({"head_size_v": 64}, 49152),
        ({"state_content_bytes": 264}, 16 * 8 * 264),
        ({"num_head_slots": 16, "state_content_bytes": 72}, 16 * 16 * 72),
        ({"tokens_per_state": Fraction(1, 4)}, 4 * 65536),
        ({"page_size_padded": 70000}, 70000),
    ],
)
def test_page_of_attention(changes: dict[str, Any], page: int) -> None:
    assert FullAttentionSpec(**{**HEADS, **changes}).page_size_bytes == page


def test_page_of_mla_has_no_value() -> None:
    latent = MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype="bfloat16")
    assert latent.page_size_bytes == 64 * 1152
    assert replace(latent, dtype="uint8", state_content_bytes=656).page_size_bytes == 64 * 656


def test_alignment_pads_the_page_of_a_compressed_cache() -> None:
    spec = MLAAttentionSpec(
        block_size=256, num_kv_heads=1, head_size=132, dtype="uint8", tokens_per_state=4, alignment=576
    )
    assert (spec.unpadded_page_size_bytes, spec.page_size_bytes) == (8448, 8640)
    assert replace(spec, alignment=None, page_size_padded=None).page_size_bytes == 8448


def test_page_of_a_state_is_the_sum_of_its_parts() -> None:
    assert STATE.page_size_bytes == 3 * 8 * 2 + 4 * 16 * 4
    assert replace(STATE, page_size_padded=512).page_size_bytes == 512
    assert replace(STATE, page_size_padded=512).unpadded_page_size_bytes == 304


@pytest.mark.parametrize(
    ("length", "shards", "blocks"), [(8192, 1, 512), (8190, 1, 512), (8192, 2, 256), (8193, 2, 257), (1, 8, 1)]
)
def test_full_attention_keeps_every_token(length: int, shards: int, blocks: int) -> None:
    assert FullAttentionSpec(**HEADS).max_blocks(limits(length, context_shards=shards)) == blocks


def test_a_layer_that_is_not_sharded_keeps_all_on_every_rank() -> None:
    assert FullAttentionSpec(**HEADS, dcp_sharded=False).max_blocks(limits(8192, context_shards=2)) == 512


@pytest.mark.parametrize(
    ("length", "in_flight", "blocks"), [(1000, 16384, 64), (131072, 16384, 1033), (131072, 4096, 265)]
)
def test_sliding_window_keeps_one_block_more(length: int, in_flight: int, blocks: int) -> None:
    assert SlidingWindowSpec(**HEADS, sliding_window=128).max_blocks(limits(length, in_flight)) == blocks


def test_chunked_attention_keeps_a_chunk_and_what_is_in_flight() -> None:
    spec = ChunkedLocalAttentionSpec(**HEADS, attention_chunk_size=8192)
    assert spec.max_blocks(limits(131072)) == 1536
    assert spec.max_blocks(limits(1000)) == 63


@pytest.mark.parametrize(
    ("mode", "checkpoints", "blocks"), [("align", 0, 5), ("align", 1, 6), ("none", 1, 4), ("all", 0, 515)]
)
def test_blocks_of_a_state(mode: str, checkpoints: int, blocks: int) -> None:
    spec = replace(STATE, num_prefill_checkpoint_blocks=checkpoints)
    assert spec.max_blocks(limits(mamba_cache_mode=mode)) == blocks


def test_caches_that_do_not_grow() -> None:
    assert CircularBufferSpec(**HEADS).max_blocks(limits()) == 1
    assert EncoderOnlyAttentionSpec(**HEADS).max_blocks(limits()) == 0
    assert CrossAttentionSpec(**HEADS).max_blocks(limits(max_encoder_tokens=1500)) == 94


def test_what_prefixes_can_share() -> None:
    window: dict[str, Any] = {**HEADS, "sliding_window": 128}
    assert SlidingWindowMLASpec(**window).prefix_cacheable
    assert not SlidingWindowMLASpec(**window, bounded_replay=True).prefix_cacheable
    assert not CircularBufferSpec(**HEADS).prefix_cacheable


def test_stride_alignment_counts_whole_kernel_blocks() -> None:
    split = FullAttentionSpec(**{**HEADS, "block_size": 128}, block_stride_alignment=MultipleOf(64))
    assert split.stride_alignment_bytes == 64 * 4096
    assert replace(split, block_size=32).stride_alignment_bytes == 1
    assert replace(split, block_stride_alignment=1152).stride_alignment_bytes == 1152
    assert replace(split, block_stride_alignment=None).stride_alignment_bytes == 1


def test_a_draft_mark_makes_no_difference() -> None:
    assert FullAttentionSpec(**HEADS) == FullAttentionSpec(**HEADS, is_draft=True)
    assert FullAttentionSpec(**HEADS) != FullAttentionSpec(**HEADS, dcp_sharded=False)


@given(st.integers(1, 64), st.integers(1, 300_000), st.integers(1, 20_000), st.integers(1, 5000))
def test_a_window_never_needs_much_more_than_full_attention(block: int, length: int, flight: int, window: int) -> None:
    heads = {**HEADS, "block_size": block}
    asked = limits(length, flight)
    full = FullAttentionSpec(**heads).max_blocks(asked)
    assert SlidingWindowSpec(**heads, sliding_window=window).max_blocks(asked) <= full + 1
    assert ChunkedLocalAttentionSpec(**heads, attention_chunk_size=window).max_blocks(asked) <= full
