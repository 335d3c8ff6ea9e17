"""Padding: a batch runs at the smallest captured size that is not below it.

Source: vllm/v1/cudagraph_dispatcher.py:71-108 @ 0.33.0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def padded(num_tokens: int, sizes: Sequence[int]) -> int | None:
    """The captured size that a batch of `num_tokens` tokens pads to; None when it is above the largest.

    `sizes` ascends. No token needs no graph: 0 pads to 0.
    """
    if num_tokens <= 0:
        return 0
    index = bisect_left(sizes, num_tokens)
    return sizes[index] if index < len(sizes) else None


def table(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Rows (first batch, last batch, padded size), tokens, for the batches 1 to the largest size."""
    rows = []
    previous = 0
    for size in sizes:
        if size > previous:
            rows.append((previous + 1, size, size))
            previous = size
    return rows


def over_batch(num_tokens: int, size: int) -> float:
    """Padding over the tokens of the batch itself; of the step it is (size - num_tokens) / size."""
    return (size - num_tokens) / num_tokens if num_tokens > 0 else 0.0


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `value`, as vLLM computes it (vllm/utils/math_utils.py).

    Raises:
        ZeroDivisionError: `multiple` is 0. A negative one gives what vLLM makes of it.
    """
    return (value + multiple - 1) // multiple * multiple
