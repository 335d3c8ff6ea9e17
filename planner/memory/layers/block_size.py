"""The KV cache block size after the model is loaded: vllm/platforms/interface.py:703-938.

A block size is tokens, a page bytes of one block in one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import lcm

from ...errors import StartupError
from ...resolve.backends.layer import Layer
from ...trace import Rule
from ..kv_specs import MultipleOf
from .backends import LayerBackend, kernel_blocks, smallest, takes
from .cache_settings import CacheSettings

STAGE = "update_block_size_for_backend"

NO_COMMON_BLOCK = Rule(
    "CG550",
    title="The attention backends of a model must share a block size.",
    why="All layers are served from one pool of blocks.",
    example="Two backends of which one takes 16 tokens exactly and the other multiples of 64: does not start.",
    instead="Give one --attention-backend for all layers.",
    source="vllm/platforms/interface.py:703-748",
    since="0.31.0",
)
ALIGNED_REFUSED = Rule(
    "CG551",
    title="A block size that vLLM worked out must suit every attention backend of the model.",
    why="It is rounded to the first backend's kernel blocks alone.",
    example="A hybrid model with a draft layer in a backend of larger kernel blocks may not start.",
    instead="Give a --block-size that all backends take, or one --attention-backend.",
    source="vllm/platforms/interface.py:798-826",
    since="0.32.0",
)


def preferred(backends: Sequence[LayerBackend], model: Layer | None, default: int) -> int:
    """The block size without the user's word: the default where every backend takes it.

    Raises:
        StartupError: CG550.
    """
    blocks = [kernel_blocks(backend, whole_model=model) for backend in backends]
    if len(backends) == 1:
        return _own_preference(backends[0], blocks[0], model, default)
    if all(takes(backend, default, whole_model=model) for backend in backends):
        return default
    bases = [[size.base if isinstance(size, MultipleOf) else size for size in sizes] or [1] for sizes in blocks]
    for candidate in sorted({lcm(*sizes) for sizes in product(*bases)}):
        if all(takes(backend, candidate, whole_model=model) for backend in backends):
            return candidate
    names = ", ".join(backend.name for backend in backends)
    raise StartupError(
        f"attention backends {names} share no block size",
        code=NO_COMMON_BLOCK.code,
        stage=STAGE,
        raised_as="ValueError",
        raised_in="_preferred_block_size_for_backends",
        where="--attention-backend",
        fix=NO_COMMON_BLOCK.instead,
    )


def _own_preference(
    backend: LayerBackend, blocks: Sequence[int | MultipleOf], model: Layer | None, default: int
) -> int:
    fixed = _PREFERRED.get(backend.name)
    if fixed is not None:
        return fixed
    if not blocks or takes(backend, default, whole_model=model):
        return default
    return max(default, smallest(blocks))


_PREFERRED = {"DEEPSEEK_SPARSE_SWA": 256}
"""mla/sparse_swa.py:165: whatever the default is."""


def check_aligned(backends: Sequence[LayerBackend], model: Layer | None, settings: CacheSettings, before: int) -> None:
    """Refuses a changed block size that some backend cannot serve.

    Raises:
        StartupError: CG551.
    """
    if settings.block_size == before:
        return
    against = [b.name for b in backends if not takes(b, settings.block_size, whole_model=model)]
    if against:
        raise StartupError(
            f"a block of {settings.block_size} tokens, which the layers need, does not suit {', '.join(against)}",
            code=ALIGNED_REFUSED.code,
            stage=STAGE,
            raised_as="ValueError",
            raised_in="_check_aligned_block_size",
            where="--block-size",
            fix=ALIGNED_REFUSED.instead,
        )


def cover_skip_layers(
    settings: CacheSettings, *, primary_token: int, skip_token: int, kernel_block: int
) -> CacheSettings:
    """The block size at which the quantised layers' page covers that of the layers that skip the dtype.

    Args:
        primary_token, skip_token: bytes of one token in a layer of each kind.
        kernel_block: tokens of the first backend's smallest kernel block.
    """
    if skip_token <= primary_token:
        return settings
    alignment = max(kernel_block, settings.block_size)
    needed = max(skip_token * kernel_block, settings.mamba_page_size_padded or 0)
    tokens = alignment * -(-needed // (alignment * primary_token))
    block_size = max(settings.block_size, tokens)
    page = block_size * primary_token
    padded = None if settings.mamba_page_size_padded is None else page
    return replace(settings, block_size=block_size, skip_page_size_padded=page, mamba_page_size_padded=padded)
