"""Given the bytes of the KV cache: blocks, tokens and concurrency against what vLLM printed."""

from __future__ import annotations

from typing import NamedTuple

from runs import Run

from cgplan.memory.capacity_plan import capacity_in
from cgplan.memory.estimates import GIB
from cgplan.memory.kv.cache_plan import KVCachePlan

HALF_DIGIT = round(0.00501 * GIB)
"""Logs print GiB with two digits."""


class Answer(NamedTuple):
    """Whether a run's numbers are reached, or why not."""

    run: Run
    problem: str | None


def check(run: Run) -> Answer:
    """Compare blocks, block size, tokens and concurrency.

    Where the bytes were printed with two digits, the blocks have to be within what those digits mean; tokens and
    concurrency have to be exact for one number of blocks within it, or for the number that was logged.
    """
    record = run.record
    if "kv_bytes" in record:
        plans = [_plan(run, record["kv_bytes"])] * 2
    else:
        middle = round(record["kv_gib"] * GIB)
        plans = [_plan(run, middle + off) for off in (-HALF_DIGIT, HALF_DIGIT)]
    low, high = plans
    if low is None or high is None:
        return Answer(run, "refused")
    blocks = record.get("num_blocks")
    if record.get("block_size") not in (None, low.block_size):
        return Answer(run, f"block size {low.block_size}, not {record['block_size']}")
    if blocks is not None and not low.num_blocks <= blocks <= high.num_blocks:
        return Answer(run, f"{low.num_blocks} to {high.num_blocks} blocks, not {blocks}")
    if "tokens" not in record:
        return Answer(run, None)
    wanted = (record["tokens"], f"{record['concurrency']:.2f}")
    counts = [blocks] if blocks is not None else range(low.num_blocks, high.num_blocks + 1)
    found = {_printed(run, count) for count in counts}
    return Answer(run, None if wanted in found else f"{sorted(found, key=str)[:3]}, not {wanted}")


def _plan(run: Run, kv_bytes: int) -> KVCachePlan | None:
    return capacity_in(run.deployment, run.resolution, [kv_bytes]).plan


def _printed(run: Run, blocks: int) -> tuple[int | None, str]:
    """Tokens and concurrency of so many blocks, as the log prints them."""
    deployment = run.deployment.model_copy(update={"num_gpu_blocks_override": blocks})
    plan = capacity_in(deployment, run.resolution, [1 << 50]).plan
    assert plan is not None
    return plan.tokens, f"{plan.max_concurrency or 0:.2f}"
