"""Findings about decode batches that no graph covers, read off the coverage."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from ..trace import Finding
from .coverage import CLIFF, SPEC_CLIFF, Coverage
from .grid import grid_up_to
from .padding import round_up

CODES = (CLIFF.code, SPEC_CLIFF.code)

GRID_STEP = 16
"""Every multiple of it is in the grid, whatever the largest size."""


@dataclass(frozen=True)
class FullestBatch:
    """The largest decode batch, and what decides whether a larger grid would reach it.

    Attributes:
        num_reqs, num_tokens: of that batch.
        sizes_are_named: the user listed the capture sizes.
        rounds_sizes: all sizes are multiples of the query length (runner V1).
        mixed_graphs: mixed batches have graphs, which decode batches fall back to.
    """

    num_reqs: int
    num_tokens: int
    sizes_are_named: bool
    rounds_sizes: bool
    mixed_graphs: bool


def findings(decode: Coverage, max_num_seqs: int, fullest: FullestBatch) -> tuple[Finding, ...]:
    """From which decode batch on no graph is left, and what to set."""
    cliff = decode.first_cliff
    if cliff is None:
        return ()
    rule = SPEC_CLIFF if fullest.num_tokens > fullest.num_reqs else CLIFF
    message = f"decode batches above {cliff - 1} requests run without a graph; max_num_seqs is {max_num_seqs}"
    ways = [_more_sizes(fullest)]
    if cliff > 1:
        ways.append(f"set --max-num-seqs {cliff - 1}")
    fix = ", or ".join(way for way in ways if way) or rule.instead
    return (Finding(rule.code, "warning", message, fix, "--max-num-seqs"),)


def _more_sizes(fullest: FullestBatch) -> str:
    """How the sizes would reach the fullest batch; nothing where no grid has a graph for just that many tokens."""
    needed = fullest.num_tokens
    if fullest.sizes_are_named:
        return f"add {needed} to --cudagraph-capture-sizes"
    query_len = needed // fullest.num_reqs
    largest = round_up(needed, lcm(GRID_STEP, query_len) if fullest.rounds_sizes else GRID_STEP)
    if not fullest.mixed_graphs and all(round_up(size, query_len) != needed for size in grid_up_to(largest)):
        return ""
    return f"set --max-cudagraph-capture-size {largest}"
