"""Findings about decode batches that no graph covers, read off the finished resolution."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from ..trace import Finding
from ..vocabulary import CUDAGraphMode, Runner
from .coverage import CLIFF, SPEC_CLIFF, tokens_of
from .grid import grid_up_to
from .padding import round_up

if TYPE_CHECKING:
    from .resolution import Resolution

CODES = (CLIFF.code, SPEC_CLIFF.code)

GRID_STEP = 16
"""Every multiple of it is in the grid, whatever the largest size."""


def findings(resolution: Resolution) -> tuple[Finding, ...]:
    """From which decode batch on no graph is left, and what to set."""
    if resolution.cudagraph_mode is CUDAGraphMode.NONE or resolution.config.get("runner_type") == "pooling":
        return ()
    lora = resolution.lora
    adapters = lora.max_loras if lora is not None and 0 not in lora.cases else 0
    cliff = resolution.uniform_decode_coverage(adapters).first_cliff
    if cliff is None:
        return ()
    rule = SPEC_CLIFF if resolution.uniform_decode_query_len > 1 else CLIFF
    message = (
        f"decode batches above {cliff - 1} requests run without a graph; max_num_seqs is {resolution.max_num_seqs}"
    )
    ways = [_more_sizes(resolution)]
    if cliff > 1:
        ways.append(f"set --max-num-seqs {cliff - 1}")
    fix = ", or ".join(way for way in ways if way) or rule.instead
    return (Finding(rule.code, "warning", message, fix, "--max-num-seqs"),)


def _more_sizes(resolution: Resolution) -> str:
    """How the sizes would reach the fullest decode batch; nothing where no grid has a graph for just that many."""
    query_len = resolution.uniform_decode_query_len
    most = min(resolution.max_num_seqs, resolution.max_num_batched_tokens // query_len)
    needed = tokens_of(most, query_len, resolution.schedule)
    if resolution.sizes_are_named:
        return f"add {needed} to --cudagraph-capture-sizes"
    query_len = needed // most
    step = lcm(GRID_STEP, query_len) if resolution.runner is Runner.V1 else GRID_STEP
    largest = round_up(needed, step)
    mixed = resolution.cudagraph_mode.mixed_mode is not CUDAGraphMode.NONE
    if not mixed and all(round_up(size, query_len) != needed for size in grid_up_to(largest)):
        return ""
    return f"set --max-cudagraph-capture-size {largest}"
