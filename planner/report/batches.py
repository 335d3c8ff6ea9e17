"""How single batches run: what `--batch` answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..resolve.coverage import tokens_of
from ..resolve.graphs import Batch
from ..resolve.padding import over_batch
from ..resolve.resolution import Resolution


class BatchAnswer(NamedTuple):
    """One batch size as one kind of batch.

    Attributes:
        size: requests for uniform_decode, tokens for mixed.
        kind: uniform_decode or mixed.
        num_tokens: tokens of the batch, before padding.
        mode: FULL, PIECEWISE or NONE; None: the scheduler never makes such a batch.
        padded: tokens that the step computes, or None where it never runs.
        waste: share of the step that is padding, 0 to below 1.
        over_batch: the same padding over the tokens of the batch: 9 run as 16 are 0.4375 of the step and 0.7778 here.
        why_not: why it never runs, or None.
    """

    size: int
    kind: str
    num_tokens: int
    mode: str | None
    padded: int | None
    waste: float
    why_not: str | None = None
    over_batch: float = 0.0


def answers(resolution: Resolution, sizes: Iterable[int]) -> Iterator[BatchAnswer]:
    """Each of `sizes` as a decode batch of so many requests, then as a mixed batch of so many tokens."""
    for size in sizes:
        yield _decode(resolution, size)
        yield _mixed(resolution, size)


def _decode(resolution: Resolution, size: int) -> BatchAnswer:
    tokens = tokens_of(size, resolution.uniform_decode_query_len, resolution.schedule)
    if size > resolution.max_num_seqs:
        limit = f"above max_num_seqs {resolution.max_num_seqs}"
        return BatchAnswer(size, "uniform_decode", tokens, None, None, 0.0, limit)
    if tokens > resolution.max_num_batched_tokens:
        limit = f"above max_num_batched_tokens {resolution.max_num_batched_tokens}"
        return BatchAnswer(size, "uniform_decode", tokens, None, None, 0.0, limit)
    return _answer(resolution, "uniform_decode", size, Batch(tokens, size, tokens // size))


def _mixed(resolution: Resolution, size: int) -> BatchAnswer:
    if size > resolution.max_num_batched_tokens:
        limit = f"above max_num_batched_tokens {resolution.max_num_batched_tokens}"
        return BatchAnswer(size, "mixed", size, None, None, 0.0, limit)
    # A query length that differs from the total says "not uniform" without naming the requests.
    return _answer(resolution, "mixed", size, Batch(size, 1, size + 1, has_prefill=True))


def _answer(resolution: Resolution, kind: str, size: int, batch: Batch) -> BatchAnswer:
    found = resolution.dispatch_batch(batch)
    waste = round(found.waste(batch.num_tokens), 6)
    over = round(over_batch(batch.num_tokens, found.num_tokens), 6)
    return BatchAnswer(size, kind, batch.num_tokens, found.mode.value, found.num_tokens, waste, over_batch=over)
