"""The measured starts of fixtures/measured/ as deployments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgplan import Deployment, Resolution, load_model, resolve
from cgplan.errors import InputError
from cgplan.releases.gpus import gpu

MEASURED = Path(__file__).parents[2] / "fixtures" / "measured"


@dataclass(frozen=True)
class Run:
    """One measured start.

    Attributes:
        record: the line of the fixture.
        deployment, resolution: what was asked, and what becomes of it.
    """

    record: dict[str, Any]
    deployment: Deployment
    resolution: Resolution

    @property
    def name(self) -> str:
        return str(self.record["name"])


def records(name: str) -> Iterator[dict[str, Any]]:
    """The lines of a fixture."""
    for line in (MEASURED / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def runs(name: str) -> tuple[list[Run], list[str]]:
    """The runs of a fixture, and those left out with the reason."""
    found, left_out = [], []
    for record in records(name):
        try:
            model = load_model(record["model"])
        except InputError:
            left_out.append(f"{record['name']}: {record['model']} is not in the catalogue")
            continue
        fields = dict(record["deployment"])
        if model.quantization:
            fields.pop("quantization", None)
        deployment = Deployment(vllm=record["vllm"], gpu=gpu(record["gpu"]), model=model, **fields)
        found.append(Run(record, deployment, resolve(deployment)))
    return found, left_out
