"""Shapes and types of the fixed-size states, on one rank: vllm/model_executor/layers/mamba/mamba_utils.py:53-330."""

from __future__ import annotations

from ...cache_layers import CacheLayers
from ...errors import StartupError
from ..kv_dtypes import torch_dtype
from .load_rules import KDA_STATE_DTYPE, NOT_DIVISIBLE, load_error

MAMBA_TYPES = {
    "mamba1": "MAMBA1",
    "mamba2": "MAMBA2",
    "gdn": "GDN_ATTN",
    "kda": "GDN_ATTN",
    "linear": "LINEAR",
    "short_conv": "SHORT_CONV",
}
"""vLLM's MambaAttentionBackendEnum by kind of layer."""

Shapes = tuple[tuple[int, ...], ...]


def is_state(layers: CacheLayers) -> bool:
    """Whether the layers keep a state of fixed size."""
    return layers.kind in MAMBA_TYPES


def state_shapes(layers: CacheLayers, tp: int, drafts: int, *, channels_first: bool = False) -> Shapes:
    """The shapes of each part of the state.

    Args:
        tp: tensor parallel size.
        drafts: speculative tokens, of which the convolution keeps the inputs; mamba1 does not.
        channels_first: VLLM_SSM_CONV_STATE_LAYOUT is DS.

    Raises:
        StartupError: a size does not divide by `tp`.
    """
    sizes = layers.state
    assert sizes is not None

    def convolution(channels: int, kept: int) -> tuple[int, int]:
        width = _divide(channels, tp)
        return (width, kept) if channels_first else (kept, width)

    taps = sizes.conv_kernel - 1
    if layers.kind == "mamba1":
        return convolution(sizes.width, taps), (_divide(sizes.width, tp), sizes.state_size)
    if layers.kind == "mamba2":
        groups = sizes.n_groups if sizes.n_groups % tp == 0 else tp
        channels = sizes.width + 2 * groups * sizes.state_size
        heads = _divide(sizes.num_heads, tp)
        return convolution(channels, taps + drafts), (heads, sizes.head_size, sizes.state_size)
    if layers.kind == "gdn":
        channels = 2 * sizes.num_key_heads * sizes.key_head_size + sizes.num_heads * sizes.head_size
        heads = _divide(sizes.num_heads, tp)
        return convolution(channels, taps + drafts), (heads, sizes.head_size, sizes.key_head_size)
    if layers.kind == "kda":
        heads = _divide(sizes.num_heads, tp)
        channels = 3 * sizes.num_heads * sizes.head_size
        return convolution(channels, taps + drafts), (heads, sizes.head_size, sizes.head_size)
    if layers.kind == "linear":
        return ((sizes.num_heads // tp, sizes.head_size, sizes.head_size),)
    return (convolution(sizes.width, taps + drafts),)


def state_dtypes(layers: CacheLayers, model_dtype: str, cache_dtype: str, ssm_dtype: str) -> tuple[str, ...]:
    """The torch types of each part of the state.

    Args:
        cache_dtype, ssm_dtype: `--mamba-cache-dtype` and `--mamba-ssm-cache-dtype` after the model had its say.

    Raises:
        StartupError: KDA does not take the type.
    """
    first = torch_dtype(cache_dtype, model_dtype)
    if layers.kind in ("linear", "short_conv"):
        return (first,)
    if layers.kind == "kda":
        if ssm_dtype not in ("auto", "float32", "bfloat16"):
            raise kda_refuses(ssm_dtype)
        return first, "float32" if ssm_dtype == "auto" else ssm_dtype
    return first, first if ssm_dtype == "auto" else ssm_dtype


def kda_refuses(ssm_dtype: str) -> StartupError:
    return load_error(
        KDA_STATE_DTYPE,
        f"the recurrent state of KDA layers cannot be {ssm_dtype}",
        where="--mamba-ssm-cache-dtype",
        raised_in="kda_state_dtype",
    )


def _divide(size: int, tp: int) -> int:
    if size % tp:
        raise load_error(
            NOT_DIVISIBLE,
            f"{size} is not divisible by tensor parallel size {tp}",
            where="--tensor-parallel-size",
            raised_as="AssertionError",
            raised_in="ensure_divisibility",
        )
    return size // tp
