"""The measured starts of fixtures/measured/memory_runs.jsonl as deployments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from accuracy import runs as measured

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Run(measured.Run):
    """One measured start: the record, what was asked, and what becomes of it."""

    @property
    def tolerance(self) -> int:
        """Half the last digit that was printed, bytes."""
        return int(self.record["rounded_to"]) // 2


@cache
def runs() -> tuple[Run, ...]:
    """Every run of a model of the catalogue."""
    found, _ = measured.runs("memory_runs.jsonl")
    return tuple(Run(run.record, run.deployment, run.resolution) for run in found)


def single_stage() -> tuple[Run, ...]:
    """Runs without pipeline parallelism, whose values are all of one rank."""
    return tuple(run for run in runs() if run.deployment.pipeline_parallel_size == 1)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
