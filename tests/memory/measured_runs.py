"""The measured starts of fixtures/measured/memory_runs.jsonl as deployments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from conftest import ROOT

from cgplan import Deployment, Resolution, load_model, resolve
from cgplan.errors import InputError
from cgplan.releases.gpus import gpu

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Run:
    """One measured start: the record, what was asked, and what becomes of it."""

    record: dict[str, Any]
    deployment: Deployment
    resolution: Resolution

    @property
    def name(self) -> str:
        return str(self.record["name"])

    @property
    def tolerance(self) -> int:
        """Half the last digit that was printed, bytes."""
        return int(self.record["rounded_to"]) // 2


@cache
def runs() -> tuple[Run, ...]:
    """Every run of a model of the catalogue."""
    found = []
    for line in (ROOT / "fixtures" / "measured" / "memory_runs.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        try:
            model = load_model(record["model"])
        except InputError:
            continue
        fields = dict(record["deployment"])
        if model.quantization:
            fields.pop("quantization", None)
        deployment = Deployment(vllm=record["vllm"], gpu=gpu(record["gpu"]), model=model, **fields)
        found.append(Run(record, deployment, resolve(deployment)))
    return tuple(found)


def single_stage() -> tuple[Run, ...]:
    """Runs without pipeline parallelism, whose values are all of one rank."""
    return tuple(run for run in runs() if run.deployment.pipeline_parallel_size == 1)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
