"""What the operator should know of vLLM's own figures about its graphs, before they mislead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...deployment import Deployment
from ...releases import canonical, holds
from ...resolve import Resolution
from ...resolve.checkpoint_method import NOT_STORED
from ...resolve.memory_deduction import VARIABLE
from ...trace import Finding
from ...vocabulary import Runner
from ...weight_shape import NOT_SAID
from ..estimates import GIB, Interval
from ..graphs.estimate import gated_delta_bytes
from .budget import Budget
from .estimate_rules import (
    ENCODER_GRAPHS,
    FROM_TWO_SIZES,
    GATED_DELTA,
    IMPLAUSIBLE,
    SHARED_MEMORY,
    STORED_BY_NAME,
    SUGGESTED_TWICE,
    SYSTEM_MEMORY,
)
from .gdn_prefill import gdn_prefill_findings
from .suggestion import Suggestion, suggestion

IMPLAUSIBLE_SHARE = 0.1
"""Of the GPU; no measured capture with a shared pool came near it."""
WORTH_SAYING = GIB
"""Less than this is not worth a finding of its own."""


def estimate_findings(
    deployment: Deployment, resolution: Resolution, made: Budget, estimate: Interval | None, measured: bool
) -> tuple[Finding, ...]:
    """Findings about the estimate, the suggested KV cache and graphs that neither holds.

    Args:
        estimate: vLLM's, predicted or measured; None: it makes none.
        measured: whether it was.
    """
    return tuple(_found(deployment, resolution, made, estimate, measured))


def _found(
    deployment: Deployment, resolution: Resolution, made: Budget, estimate: Interval | None, measured: bool
) -> Iterator[Finding]:
    stage = made.tightest
    taken = max(stage.graphs.best, 0)
    yield from (found for found in resolution.noted if found.code == NOT_STORED.code)
    if NOT_SAID in stage.weights.source:
        text = "weights: " + stage.weights.source.partition("; ")[2]
        yield Finding(STORED_BY_NAME.code, "warning", text, STORED_BY_NAME.instead, "--model")
    if deployment.gpu.integrated and not made.free.is_exact:
        yield _system_memory(deployment, made)
    sizes = suggestion(made, stage, deployment.vllm)
    if estimate is not None and made.deduction.deducted and sizes is not None:
        if measured and is_implausible(estimate.best, taken, made.total.best):
            yield _implausible(estimate.best, taken, sizes.right)
        elif not measured and estimate.best > 2 * taken:
            yield from _far_above(deployment, resolution, estimate.best, taken)
        if deployment.gpu.integrated:
            yield _shared_memory(deployment, sizes, stage.deducted.best)
        # A size below 0 is no advice.
        if (
            sizes.counts_twice
            and sizes.right > 0
            and (sizes.printed <= 0 or sizes.right - sizes.printed >= WORTH_SAYING)
        ):
            yield _twice(sizes)
    yield from gdn_prefill_findings(deployment, resolution, made)
    if deployment.compilation_config.cudagraph_mm_encoder and deployment.model.is_multimodal_model:
        yield _encoder(deployment, resolution)


def _far_above(deployment: Deployment, resolution: Resolution, estimate: int, taken: int) -> Iterator[Finding]:
    """A warning where it is worth one; what gated delta layers add is told from a quarter of that on."""
    severity: Literal["warning", "info"] = "warning" if estimate - taken > WORTH_SAYING else "info"
    text = f"vLLM will estimate {estimate / GIB:.2f} GiB for graphs that take {taken / GIB:.2f}"
    if gated_delta_bytes(deployment, resolution):
        tokens = resolution.max_num_batched_tokens
        text += f": transient memory of {tokens} batched tokens in gated delta layers is taken for a graph"
        if estimate - taken > WORTH_SAYING // 4:
            yield Finding(GATED_DELTA.code, severity, text, GATED_DELTA.instead, "--max-num-batched-tokens")
    elif severity == "warning":
        text += ": it takes the second largest FULL graph for every smaller one"
        yield Finding(FROM_TWO_SIZES.code, severity, text, FROM_TWO_SIZES.instead, "--cudagraph-capture-sizes")


def is_implausible(estimate: int, taken: int, whole: int) -> bool:
    """Whether an estimate of the graphs is no measure of what capture takes. Bytes; `whole` is the GPU's memory."""
    return estimate < 0 or (estimate > IMPLAUSIBLE_SHARE * whole and estimate > 2 * taken)


def _implausible(estimate: int, taken: int, right: int) -> Finding:
    what = "more" if estimate < 0 else "less"
    text = (
        f"an estimate of {estimate / GIB:.2f} GiB is implausible for graphs that take about {taken / GIB:.2f} GiB:"
        f" the KV cache gets {abs(estimate) / GIB:.2f} GiB {what} for it"
    )
    return Finding(IMPLAUSIBLE.code, "warning", text, _by_bytes(right), VARIABLE)


def _system_memory(deployment: Deployment, made: Budget) -> Finding:
    low, best, high = ((made.total.best - left) / GIB for left in (made.free.high, made.free.best, made.free.low))
    text = (
        f"{deployment.gpu.name} shares its memory with the CPU: {made.requested.best / GIB:.2f} GiB of"
        f" {made.total.best / GIB:.2f} have to be free when vLLM starts, and the system with all its processes is taken"
        f" to hold {best:.1f} GiB ({low:.1f} to {high:.1f}, from public starts that served nothing else)"
    )
    fix = "--free-bytes with the column `available` of `free -b` on that machine, as it is when vLLM starts"
    return Finding(SYSTEM_MEMORY.code, "info", text, fix, "--free-bytes")


def _shared_memory(deployment: Deployment, sizes: Suggestion, taken_off: int) -> Finding:
    cost = f", which gives up {taken_off / GIB:.2f} GiB for it" if taken_off > 0 else ""
    text = (
        f"{deployment.gpu.name} shares its memory with the CPU: the graphs' estimate may be far off, even negative,"
        f" and the KV cache with it{cost}"
    )
    return Finding(SHARED_MEMORY.code, "warning", text, _by_bytes(sizes.right), "--gpu-memory-utilization")


def _twice(sizes: Suggestion) -> Finding:
    text = (
        f"vLLM's log will suggest --kv-cache-memory={sizes.printed} ({sizes.printed / GIB:.2f} GiB), which takes the"
        f" graphs off twice; {sizes.right} ({sizes.right / GIB:.2f} GiB) is right"
    )
    fix = f"--kv-cache-memory-bytes {sizes.right}, where a fixed size is wanted" if sizes.right > 0 else None
    return Finding(SUGGESTED_TWICE.code, "info", text, fix, "--kv-cache-memory-bytes")


def _encoder(deployment: Deployment, resolution: Resolution) -> Finding:
    release = canonical(deployment.vllm)
    counted = holds(release, "0.23.0" if resolution.runner is Runner.V1 else "0.29.0")
    text = "the graphs of the vision encoder are not in this plan; they took 6.9 GiB in one report"
    if not counted:
        text += f", and the estimate of {release} leaves them out"
    return Finding(ENCODER_GRAPHS.code, "warning", text, ENCODER_GRAPHS.instead, "-cc.cudagraph_mm_encoder")


def _by_bytes(right: int) -> str:
    switch = f"{VARIABLE}=0 with some memory left outside the budget"
    return f"--kv-cache-memory-bytes {right}, or {switch}" if right > 0 else switch
