"""Attention of decode steps over a paged KV cache, as one Triton kernel; torch's own where there is no Triton.

Each request has one query token here and looks back at `CONTEXT` tokens. Softmax is worked out block by block (Milakov
and Gimelshein, 2018), so nothing but the output is written.
"""

from __future__ import annotations

from typing import Any

from .shape import BLOCK


def paged_attention(
    query: Any, keys: Any, values: Any, table: Any, length: int, output: Any, kernel: Any | None
) -> None:
    """Write the attention of each query token into `output`.

    Args:
        query: (tokens, heads, head size).
        keys, values: (blocks, BLOCK, KV heads, head size).
        table: (tokens, blocks of a request), int32.
        length: tokens that each looks back at, a multiple of BLOCK.
        output: like query.
        kernel: of `triton_kernel`, or None.
    """
    if kernel is None:
        _gathered(query, keys, values, table, output)
        return
    tokens, heads, size = query.shape
    kv_heads = keys.shape[2]
    group = heads // kv_heads
    rows = max(16, 1 << (group - 1).bit_length())
    width = max(16, 1 << (size - 1).bit_length())
    kernel[(tokens, kv_heads)](
        query, keys, values, table, output, length, table.stride(0), query.stride(0), output.stride(0), keys.stride(0),
        size**-0.5, KV_HEADS=kv_heads, GROUP=group, ROWS=rows, SIZE=size, WIDTH=width, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip


def _gathered(query: Any, keys: Any, values: Any, table: Any, output: Any) -> None:
    """With torch alone: the blocks of each request are copied together first."""
    import torch.nn.functional as functional

    tokens, _, size = query.shape
    kv_heads = keys.shape[2]
    gathered = [part[table.long()].view(tokens, -1, kv_heads, size).transpose(1, 2) for part in (keys, values)]
    found = functional.scaled_dot_product_attention(query.unsqueeze(2), *gathered, enable_gqa=True)
    output.copy_(found.squeeze(2))


def triton_kernel() -> Any | None:
    """The kernel, or None where Triton is not installed."""
    try:
        from .attention_kernel import decode_attention
    except ImportError:
        return None
    return decode_attention
