"""The work of a sweep in chunks: deployments that stand beside each other, done by one process at a time."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

from .evaluate import Evaluator
from .grid import Grid

LARGEST_CHUNK = 200
"""Deployments of a chunk: some tenths of a second, which is what an interrupt loses."""
CHUNKS_EACH = 8
"""Least chunks for each process of a small sweep, so that they end together."""

Chunk = Sequence[int]


def chunks_of(numbers: Sequence[int], workers: int) -> Iterator[Chunk]:
    """`numbers` cut into pieces."""
    size = max(1, min(LARGEST_CHUNK, len(numbers) // (workers * CHUNKS_EACH)))
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def worker(grid: Grid) -> Evaluator:
    """The evaluator of a process that does nothing else."""
    # Nothing that a deployment leaves behind is large; to look for cycles all the time costs a tenth.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    return Evaluator(grid)
