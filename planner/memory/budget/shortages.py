"""What of a budget keeps a server from starting, in the order in which vLLM would meet it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ...deployment import Deployment
from ...resolve import Resolution
from ...trace import Finding
from ...vocabulary import Runner
from ..estimates import GIB
from .rules import FREE_MEMORY, MANUAL, NO_ROOM_TO_CAPTURE, NOT_COUNTED, WARM_UP, WEIGHTS

if TYPE_CHECKING:
    from .budget import Budget, StageBudget


def shortages(made: Budget, deployment: Deployment, resolution: Resolution) -> list[Finding]:
    """What of the budget keeps the server from starting, or may, and what comes on top of it."""
    found = [*_free_memory(made), *_weights_alone(made)]
    # Where the start is refused, or ends with the weights, nothing is captured.
    if not found:
        found = [*_room_to_capture(made), *_warm_up(made, resolution.max_num_seqs)]
    first = made.stages[0]
    if resolution.runner is Runner.V2 and not first.counts_buffers and first.buffers.best > GIB // 4:
        text = f"{first.buffers.best / GIB:.2f} GiB of buffers come on top of --gpu-memory-utilization"
        found.append(Finding(NOT_COUNTED.code, "info", text, NOT_COUNTED.instead, "--max-num-seqs"))
    return found


def _weights_alone(made: Budget) -> list[Finding]:
    """Loading comes before everything but the check of free memory, and ends where the weights do not fit."""
    stage = max(made.stages, key=lambda stage: stage.weights.best)
    worst = stage.weights
    if worst.high <= made.free.low:
        return []
    sure = worst.low > made.free.high
    ends = "ends" if worst.best > made.free.best else "may end"
    text = (
        f"{_where(made, stage)}{_weights_and_adapters(stage)} of the {made.free.best / GIB:.2f} GiB that are free on"
        f" each GPU: loading {ends} with CUDA out of memory"
    )
    return [Finding(WEIGHTS.code, "error" if sure else "warning", text, WEIGHTS.instead, "--tensor-parallel-size")]


def _weights_and_adapters(stage: StageBudget) -> str:
    whole, adapters = stage.weights.best, stage.adapters
    if not adapters:
        return f"the weights alone take {whole / GIB:.2f} GiB"
    return (
        f"the weights take {(whole - adapters) / GIB:.2f} GiB and the buffers of LoRA's adapters"
        f" {adapters / GIB:.2f} GiB"
    )


def _room_to_capture(made: Budget) -> list[Finding]:
    worst = min(made.stages, key=lambda stage: stage.unused.best)
    if worst.kv_cache.best <= 0:
        return []
    if worst.unused.best >= 0:
        return _room_within_bounds(made)
    severity = "error" if worst.unused.high < 0 else "warning"
    if made.is_manual:
        more = f"{-worst.unused.best / GIB:.2f} GiB more than the GPU holds"
        text = f"{_where(made, worst)}the KV cache that was asked for is {more}"
        least = max(0, worst.kv_cache.best + worst.unused.best)
        fix = f"--kv-cache-memory-bytes {least} or less"
        return [Finding(MANUAL.code, severity, text, fix, "--kv-cache-memory-bytes")]
    text = (
        f"{_where(made, worst)}CUDA runs out of memory: the graphs need {-worst.unused.best / GIB:.2f} GiB more than"
        " stays free"
    )
    share = (made.requested.best + worst.unused.best) / made.total.best
    fix = f"--gpu-memory-utilization {_down(share)} or less"
    return [Finding(NO_ROOM_TO_CAPTURE.code, severity, text, fix, "--gpu-memory-utilization")]


def _room_within_bounds(made: Budget) -> list[Finding]:
    """What may be missing at the low end of the estimates. Bytes that were given leave what they leave."""
    worst = min(made.stages, key=lambda stage: stage.unused.low)
    # Of an estimate below 0 the verdict says so: it is others' memory, which may be taken again.
    if worst.unused.low >= 0 or worst.deducted.best < 0 or made.is_manual:
        return []
    text = (
        f"{_where(made, worst)}CUDA may run out of memory: {worst.unused.best / GIB:.2f} GiB stay free by the best"
        f" estimate, and at the low end the graphs need {-worst.unused.low / GIB:.2f} GiB more than stays free"
    )
    share = (made.requested.best + worst.unused.low) / made.total.best
    fix = f"--gpu-memory-utilization {_down(share)} or less"
    return [Finding(NO_ROOM_TO_CAPTURE.code, "warning", text, fix, "--gpu-memory-utilization")]


PIECES = 0.65
"""Of what the sampler takes, the share that torch could not find in one piece: 1.78 of 2.76 GiB, in the one public
start that ended here. Six others that lack as much came up, four of them, with several ranks, with less than that start
had, so a start that lacks it may fail and is not said to."""
MORE_LOGITS = 2
"""Copies of the logits that an advised value leaves room for: those that may still have to come after the one that
does not fit, and what estimates are off by."""


def warm_up_room(made: Budget) -> float:
    """Bytes that stay free when the sampler runs again after capture, less those that are in pieces; below 0: its
    warm-up may run out of memory. Of the stage with the least."""
    return min(_room_of(stage) for stage in made.stages)


def warm_up_spare(made: Budget) -> float:
    """The same, less what an advised value leaves free besides: see MORE_LOGITS."""
    return min(_room_of(stage) - MORE_LOGITS * stage.logits for stage in made.stages)


def _room_of(stage: StageBudget) -> float:
    # A warning errs on the side of graphs that take more.
    return stage.unused.best - (stage.graphs.high - stage.graphs.best) - (1 + PIECES) * stage.sampler


def _warm_up(made: Budget, rows: int) -> list[Finding]:
    """The sampler runs again when capture is done; what stays free has to hold it."""
    worst = min(made.stages, key=_room_of)
    room = _room_of(worst)
    if worst.kv_cache.best <= 0 or worst.unused.best < 0 or room >= 0:
        return []
    text = (
        f"{_where(made, worst)}the sampler's warm-up with {rows} rows takes {worst.sampler / GIB:.2f} GiB beside the KV"
        f" cache, and {worst.unused.best / GIB:.2f} GiB stay free, a part in pieces (1.78 GiB of them in the one public"
        " start that ended here): it may run out of memory"
    )
    share = _down((made.requested.best + room - MORE_LOGITS * worst.logits) / made.total.best)
    fix = f"--gpu-memory-utilization {share}, or --max-num-seqs {max(1, rows // 2)}"
    return [Finding(WARM_UP.code, "warning", text, fix, "--max-num-seqs")]


def _free_memory(made: Budget) -> list[Finding]:
    """vllm/v1/worker/utils.py:761: the check that comes first, and asks for the share whatever the KV cache is."""
    if made.requested.high <= made.free.low:
        return []
    severity = "error" if made.requested.low > made.free.high else "warning"
    refuses = "refuses" if made.requested.best > made.free.best else "may refuse"
    text = (
        f"{made.requested.best / GIB:.2f} GiB are asked for and about {made.free.best / GIB:.2f} GiB are free,"
        f" {_down(made.free.best / made.total.best)} of the GPU: vLLM {refuses} to start"
    )
    share = _down(made.free.low / made.total.high)
    fix = f"--gpu-memory-utilization {share} or less" if float(share) else "stop the other processes on the GPU"
    return [Finding(FREE_MEMORY.code, severity, text, fix, "--gpu-memory-utilization")]


def _where(made: Budget, worst: StageBudget) -> str:
    """Which pipeline stage a shortage is that of; "" where there is one, or all have the same."""
    number = made.stages.index(worst) + 1
    return "" if all(stage == worst for stage in made.stages) else f"pipeline stage {number} of {len(made.stages)}: "


def _down(share: float) -> str:
    """A share rounded down to two digits, as operators write it."""
    return f"{max(0.0, int(Fraction(share).limit_denominator(10**6) * 100) / 100):.2f}"
