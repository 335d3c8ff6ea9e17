"""What a plan says of memory that the budget leaves out, and of a KV cache size that is stored for the next start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..deployment import Deployment
from ..resolve import Resolution
from ..resolve.memory_deduction import VARIABLE
from ..trace import Finding
from .budget.budget import Budget, default_utilization
from .budget.outside_rules import HIGH, OUTSIDE, PLANNED_TWICE, ROOM_FOR_GRAPHS, STARTUP_PLAN, SWITCHED_OFF
from .budget.suggestion import suggestion
from .estimates import GIB
from .request import MemoryRequest
from .verdict import surely_starts

LOGIT_BYTES = 4


def outside_budget(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, made: Budget
) -> Iterator[Finding]:
    """What is left outside a share that was asked for, against the graphs that the budget does not hold."""
    if request.flags.utilization is None or made.is_manual or made.deduction.deducted or not resolution.graph_count():
        return
    left = left_outside(made)
    if left is None or (made.utilization < HIGH and left >= ROOM_FOR_GRAPHS):
        return
    stage = made.tightest
    logits = resolution.max_num_seqs * deployment.model.vocab_size * LOGIT_BYTES
    taken = max(0, made.total.best - made.free.best)
    short = stage.graphs.high + logits + taken > left
    text = (
        f"{left / GIB:.2f} GiB ({1 - made.utilization:.1%}) stay outside --gpu-memory-utilization, {taken / GIB:.2f} of"
        f" them in use before the start: {resolution.graph_count()} graphs take {stage.graphs.best / GIB:.2f}"
        f" ({stage.graphs.low / GIB:.2f} to {stage.graphs.high / GIB:.2f}) and the sampler's logits"
        f" {logits / GIB:.2f} of that"
    )
    rule = SWITCHED_OFF if VARIABLE in deployment.env else OUTSIDE
    severity = "warning" if short else "info"
    yield Finding(rule.code, severity, text, _fix(deployment, request, made), "--gpu-memory-utilization")


def left_outside(made: Budget) -> int | None:
    """Bytes of the GPU that are not asked for, where the budget does not hold the graphs; None: it does."""
    if made.is_manual or made.deduction.deducted:
        return None
    return made.total.best - made.requested.best


def _fix(deployment: Deployment, request: MemoryRequest, made: Budget) -> str:
    default = default_utilization(deployment.vllm)
    lower = replace(request, flags=replace(request.flags, utilization=default))
    if default < made.utilization and surely_starts(deployment, lower):
        return f"--gpu-memory-utilization {default:g}"
    return "a smaller --max-num-seqs, or --max-cudagraph-capture-size"


def stored_for_next(deployment: Deployment, made: Budget) -> Iterator[Finding]:
    """What the next start gets where this one stores its KV cache size."""
    if deployment.env.get(STARTUP_PLAN) != "1":
        return
    sizes = suggestion(made, made.tightest, deployment.vllm)
    if sizes is None or not sizes.counts_twice or sizes.right <= 0:
        return
    now = made.tightest.kv_cache.best
    text = f"{STARTUP_PLAN}=1 stores {sizes.printed} bytes ({sizes.printed / GIB:.2f} GiB) for the next start"
    if sizes.printed > 0:
        text += (
            f", {(now - sizes.printed) / GIB:.2f} GiB less than this one has. It is used where configuration, versions,"
            " GPU and rank are the same and at least as much memory is free; else vLLM measures anew"
        )
    else:
        text += ", which none uses: it measures anew"
    yield Finding(PLANNED_TWICE.code, "warning", text, f"--kv-cache-memory-bytes {sizes.right}", STARTUP_PLAN)
