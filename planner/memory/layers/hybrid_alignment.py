"""Hybrid models: one page of attention must hold a whole state, so the block grows: platforms/interface.py:940-1137."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm
from typing import Any

from ...light_dataclass import dataclass
from .cache_settings import CacheSettings

DEFAULT_CHUNK = 2048
"""Tokens of a prefill step where config.json names none, vllm/config/model.py:1422-1437 @ 0.25.1."""


@dataclass(frozen=True)
class HybridPages:
    """What the alignment looks at.

    Attributes:
        state_page: bytes of one state.
        attention_token: bytes of one token in one attention layer.
        kernel_block: tokens of the smallest kernel block of the first attention backend.
        kernel_blocks: of every attention backend, and of the indexer where there is one.
        indexer_block: tokens of the indexer's kernel block, or None.
        checkpoint_tokens: tokens that a prefill step which can export a state holds; 1: any.
        chunk_size: tokens of the state's prefill step as config.json says, or None.
        user_mamba_block_size: tokens, or None.
        use_mla: the attention layers are MLA.
    """

    state_page: int
    attention_token: int
    kernel_block: int
    kernel_blocks: tuple[int, ...] = ()
    indexer_block: int | None = None
    checkpoint_tokens: int = 1
    chunk_size: int | None = None
    user_mamba_block_size: int | None = None
    use_mla: bool = False


def align(settings: CacheSettings, pages: HybridPages, facts: Mapping[str, Any]) -> CacheSettings:
    """The settings with a block whose attention page holds a state, and the state padded to it.

    Args:
        facts: [hybrid] of releases/kv_cache.toml.
    """
    if pages.state_page == 0:
        return settings
    alignment = pages.kernel_block
    if not facts["with_configuration"]:
        alignment = max(alignment, settings.block_size)
    if pages.use_mla:
        alignment = max(alignment, facts["mla_tokens"])
    mode, mamba_block = settings.mamba_cache_mode, settings.mamba_block_size
    if mode == "all":
        chunk = lcm(pages.user_mamba_block_size or pages.chunk_size or DEFAULT_CHUNK, alignment)
        tokens = chunk * _cdiv(_cdiv(pages.state_page, pages.attention_token), chunk)
        mamba_block = tokens
    else:
        if mode == "align":
            alignment = lcm(alignment, pages.checkpoint_tokens)
        tokens = alignment * _cdiv(pages.state_page, alignment * pages.attention_token)
        if facts["align_to"] == "indexer" and pages.indexer_block:
            tokens = pages.indexer_block * _cdiv(tokens, pages.indexer_block)
    if facts["align_to"] == "all":
        shared = lcm(1, *pages.kernel_blocks)
        tokens = shared * _cdiv(tokens, shared)
    block_size = max(settings.block_size, tokens)
    page = block_size * pages.attention_token
    return replace(
        settings,
        block_size=block_size,
        mamba_block_size=block_size if mode == "align" else mamba_block,
        mamba_page_size_padded=None if page == pages.state_page else page,
    )


def kernel_block_with_configuration(use_mla: bool, backend: str | None) -> int:
    """The kernel block that 0.19.1 assumed before any layer was built: HybridAttentionMambaModelConfig.

    Args:
        backend: the one asked for, or None.
    """
    if not use_mla:
        return 16
    return 128 if backend == "CUTLASS_MLA" else 64


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)
