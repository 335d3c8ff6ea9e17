"""The block size that a stage settles on, and what hybrid models need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kv_cases import B200, layers_of

from cgplan.memory.layers.block_size import cover_skip_layers
from cgplan.memory.layers.cache_settings import CacheSettings
from cgplan.memory.layers.hybrid_alignment import HybridPages, align
from cgplan.releases import facts

SETTINGS = CacheSettings("auto", 16, False, mamba_cache_mode="align", mamba_block_size=16)
# Qwen3-Next at TP 1: a state of 3 x 8192 and 32 x 128 x 128 bfloat16; 2 KV heads of 256.
NEXT = HybridPages(state_page=1097728, attention_token=2048, kernel_block=16, kernel_blocks=(16,))


def aligned(release: str, pages: HybridPages = NEXT, settings: CacheSettings = SETTINGS) -> CacheSettings:
    return align(settings, pages, facts("kv_cache", release)["hybrid"])


def test_a_page_of_attention_holds_a_state() -> None:
    found = aligned("0.32.0")
    assert found.block_size == 544
    assert found.mamba_block_size == 544
    assert found.mamba_page_size_padded == 544 * 2048


def test_blocks_hold_whole_steps_of_a_kernel_that_exports_states() -> None:
    pages = replace(NEXT, checkpoint_tokens=64)
    assert aligned("0.33.0", pages).block_size == 576
    assert aligned("0.33.0").block_size == 544


def test_a_state_that_fits_exactly_is_not_padded() -> None:
    found = aligned("0.33.0", replace(NEXT, state_page=32 * 2048))
    assert (found.block_size, found.mamba_page_size_padded) == (32, None)


def test_a_large_block_of_the_user_stays() -> None:
    found = aligned("0.33.0", settings=replace(SETTINGS, block_size=1024))
    assert (found.block_size, found.mamba_page_size_padded) == (1024, 1024 * 2048)


def test_mla_blocks_are_multiples_of_128() -> None:
    pages = replace(NEXT, attention_token=1152, use_mla=True)
    assert aligned("0.33.0", pages).block_size % 128 == 0
    assert aligned("0.26.0", pages).block_size % 128 != 0


def test_every_backend_or_the_first_one() -> None:
    pages = replace(NEXT, kernel_blocks=(16, 64), indexer_block=64)
    assert aligned("0.33.0", pages).block_size == 576
    assert aligned("0.31.0", pages).block_size == 576
    assert aligned("0.29.0", pages).block_size == 544


def test_mode_all_counts_in_chunks_of_the_prefill_kernel() -> None:
    settings = replace(SETTINGS, mamba_cache_mode="all")
    found = aligned("0.25.1", replace(NEXT, chunk_size=256), settings)
    assert (found.block_size, found.mamba_block_size) == (768, 768)
    assert aligned("0.25.1", replace(NEXT, user_mamba_block_size=64), settings).block_size == 576


@given(st.integers(1, 1 << 24), st.integers(64, 8192), st.sampled_from([16, 32, 64, 128]))
def test_the_page_always_holds_the_state(state: int, token: int, kernel: int) -> None:
    pages = HybridPages(state_page=state, attention_token=token, kernel_block=kernel, kernel_blocks=(kernel,))
    for release in ("0.20.2", "0.25.1", "0.33.0"):
        found = aligned(release, pages)
        page = found.block_size * token
        assert page >= state
        assert found.block_size % kernel == 0
        assert (found.mamba_page_size_padded or state) == page


def test_skip_layers_share_the_padded_page() -> None:
    found = cover_skip_layers(SETTINGS, primary_token=1024, skip_token=2048, kernel_block=16)
    assert (found.block_size, found.skip_page_size_padded) == (32, 32 * 1024)
    same = cover_skip_layers(SETTINGS, primary_token=2048, skip_token=2048, kernel_block=16)
    assert same == SETTINGS


def test_a_padded_state_follows_the_shared_page() -> None:
    padded = replace(SETTINGS, mamba_page_size_padded=100_000)
    found = cover_skip_layers(padded, primary_token=1000, skip_token=2000, kernel_block=16)
    assert found.skip_page_size_padded == found.mamba_page_size_padded == found.block_size * 1000 >= 100_000


@pytest.mark.parametrize(
    ("model", "fields", "block_size"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", {}, 16),
        ("meta-llama/Llama-3.1-8B-Instruct", {"block_size": 48}, 48),
        ("deepseek-ai/DeepSeek-V3", {}, 16),
        ("deepseek-ai/DeepSeek-V3", {"gpu": B200}, 32),
        ("deepseek-ai/DeepSeek-V3", {"kv_cache_dtype": "fp8"}, 64),
        ("deepseek-ai/DeepSeek-V3.2", {"kv_cache_dtype": "fp8"}, 64),
        ("deepseek-ai/DeepSeek-V4-Flash", {}, 256),
    ],
)
def test_the_backend_decides(model: str, fields: dict[str, Any], block_size: int) -> None:
    assert layers_of(model, tensor_parallel_size=8, **fields).settings[0].block_size == block_size
