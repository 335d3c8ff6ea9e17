"""The largest max_num_seqs of a launch that asks for too many: what programs that write the flag need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..resolve.downgrade import MAMBA_BLOCKS
from .capacity import PLAN
from .diagnostic import Diagnostic
from .subject import Subject


class Most(NamedTuple):
    """A limit and what it comes from, in a sentence."""

    value: int
    reason: str


def most_requests(subject: Subject, found: Sequence[Diagnostic]) -> Most | None:
    """The largest max_num_seqs that starts, where a finding says that the one asked for does not; else None."""
    if all(one.code != MAMBA_BLOCKS.code or one.severity != "error" for one in found):
        return None
    made, d = subject.cache.get(PLAN), subject.deployment
    if made is not None:
        sure, best = made.max_num_seqs_that_surely_starts, made.max_num_seqs_that_fits
        by = "within the bounds of its estimates" if sure else "by its best values"
        most = sure or best
        return Most(most, f"the plan has Mamba cache blocks for {most} sequences {by}") if most else None
    blocks = [] if d is None else [one for one in (d.num_gpu_blocks, d.num_gpu_blocks_override) if one]
    return Most(blocks[0], f"there are {blocks[0]} Mamba cache blocks, one for each sequence") if blocks else None
