"""The measured starts of fixtures/measured/ as deployments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgplan import Deployment, Resolution, load_model, resolve
from cgplan.errors import InputError
from cgplan.inputs.catalogue import load
from cgplan.memory.budget.measured_record import Profile, profile_of
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
            # The rows of the H200 were started from the bare record, with dummy weights.
            model = load(record["model"], completed=record["gpu"] != "h200")
        except InputError:
            left_out.append(f"{record['name']}: {record['model']} is not in the catalogue")
            continue
        fields = dict(record["deployment"])
        if model.quantization:
            fields.pop("quantization", None)
        deployment = Deployment(vllm=record["vllm"], gpu=gpu(record["gpu"]), model=model, **fields)
        found.append(Run(record, deployment, resolve(deployment)))
    return found, left_out


def own_run(path: Path) -> Run:
    """The start of a measured record, as `cgplan logs --save` writes it: bytes, of GiB with two decimals."""
    profile = profile_of(json.loads(path.read_text(encoding="utf-8")), str(path))
    of, found = profile.fingerprint, profile.measured
    if of.model is None:
        raise InputError("the record names no model", code="CG911", where=str(path))
    deployment = Deployment(vllm=of.vllm_version, gpu=gpu(of.gpu), model=load_model(of.model), **_settings(profile))
    record = {
        "name": path.name,
        "rounded_to": round(0.01 * 2**30),
        "weights": found.weights_bytes,
        "activation": found.activation_bytes,
        "non_torch": found.non_torch_bytes,
        "graphs": found.graph_bytes,
        "graph_estimate": found.graph_estimate_bytes,
    }
    return Run(record, deployment, resolve(deployment))


def _settings(profile: Profile) -> dict[str, Any]:
    of = profile.fingerprint
    names = ("tensor_parallel_size", "data_parallel_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    found = {name: value for name in names if (value := getattr(of, name)) is not None}
    graphs = {"cudagraph_mode": of.cudagraph_mode, "cudagraph_capture_sizes": of.capture_sizes}
    found["compilation_config"] = {key: value for key, value in graphs.items() if value}
    if of.runner is not None:
        found["env"] = {"VLLM_USE_V2_MODEL_RUNNER": "1" if of.runner == "V2" else "0"}
    # Of a pipeline only one rank is in the record, and which stage it is of is not.
    return {**found, "pipeline_parallel_size": of.pipeline_parallel_size}
