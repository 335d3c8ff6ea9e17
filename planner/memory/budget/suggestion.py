"""The --kv-cache-memory values that vLLM's log suggests once it has started, and what they should be.

Source: vllm/v1/worker/gpu_worker.py:1013-1068 @ 0.33.0; until 0.26 797-850 @ 0.26.0, at level DEBUG.
"""

from __future__ import annotations

from typing import NamedTuple

from ...releases import canonical, facts
from .budget import Budget, StageBudget


class Suggestion(NamedTuple):
    """Bytes of KV cache of one rank, best values.

    Attributes:
        printed: what the log suggests, to fit into the memory asked for.
        right: the same with the graphs taken off once.
        printed_full, right_full: to use all that is free when vLLM starts.
    """

    printed: int
    right: int
    printed_full: int
    right_full: int

    @property
    def counts_twice(self) -> bool:
        return self.printed != self.right


def suggestion(made: Budget, stage: StageBudget, release: str) -> Suggestion | None:
    """What the rank of `stage` suggests; None: --kv-cache-memory-bytes is given, and nothing is suggested."""
    if made.is_manual:
        return None
    taken = stage.weights.best + stage.non_torch.best + stage.activation.best + stage.graphs.best
    if stage.counts_buffers:
        taken += stage.buffers.best
    # Since the two-term budget the peak that is printed holds the estimate, if that is taken off at all.
    twice = stage.deducted.best if stage.counts_buffers else 0
    return suggested(made.requested.best, made.free.best, taken, twice, release)


def suggested(requested: int, free: int, taken: int, twice: int, release: str) -> Suggestion:
    """What the log suggests, and what would be right, in bytes.

    Args:
        requested, free: what vLLM asked for, and what was free.
        taken: by weights, libraries, the peak without the graphs' estimate, and the graphs as captured.
        twice: the estimate, where the printed peak holds it beside what the graphs took.
    """
    reserve = reserve_of(release)
    right, full = requested - taken - reserve, free - taken - reserve
    return Suggestion(right - twice, right, full - twice, full)


def reserve_of(release: str) -> int:
    """Bytes that vLLM keeps from the sizes it suggests."""
    return int(facts("budget", canonical(release))["requested"]["suggestion_reserve"])
