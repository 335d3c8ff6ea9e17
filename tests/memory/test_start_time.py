"""What a plan says of the time of a start: the figures are those of the public logs."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from cgplan import Deployment, Measured, load_model
from cgplan.inputs.vllm_logs import read_log
from cgplan.memory.plan import CapacityPlan, plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.memory.start_time import start_time
from cgplan.releases import table
from cgplan.releases.gpus import gpu
from cgplan.report.plan_graphs import lines

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
GIB = 1 << 30


def made(card: str = "h100", known: Measured | None = None, **fields: object) -> CapacityPlan:
    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu(card), **fields)  # type: ignore[arg-type]
    return plan_of(deployment, MemoryRequest(known=known or Measured()))


def of_logs() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"load_seconds_a_gib": [], "compile_seconds": [], "profile_seconds": []}
    for path in sorted(LOGS.glob("*.txt")):
        first = read_log(path).starts[0]
        took: dict[str, float] = {}
        for phase in first.phases:
            took.setdefault(phase.name, phase.seconds)
        weights = next((rank.weights_bytes for rank in first.ranks if rank.weights_bytes), None)
        if weights and "load" in took:
            found["load_seconds_a_gib"].append(took["load"] * GIB / weights)
        if "compile" in took:
            found["compile_seconds"].append(took["compile"])
        if "compile" in took and "profile" in took:
            found["profile_seconds"].append(took["profile"] - took["compile"])
    return found


def test_the_table_is_what_the_logs_say() -> None:
    known = table("capture_time")
    found = of_logs()
    assert [len(values) for values in found.values()] == [14, 14, 8]
    for name, values in found.items():
        values.sort()
        said = values[0], median(values), values[round(0.9 * (len(values) - 1))]
        assert known[name] == pytest.approx(said, abs=0.06), name


def test_a_plan_says_what_comes_before_capture() -> None:
    plan = made()
    found = start_time(plan)
    assert found is not None
    assert found.load[1] == pytest.approx(15.27 * 1.22, rel=0.02)
    assert found.compiling is not None
    line = next(line for line in lines(plan) if line.startswith("Before it: "))
    assert "the weights of a GPU 19 s (5 to 100)" in line
    assert "torch.compile 17 s (4 to 50) without its cache" in line


def test_nothing_is_said_of_a_start_that_fails_or_has_no_graphs() -> None:
    assert not any(line.startswith("Before it") for line in lines(made(enforce_eager=True)))
    assert not any(line.startswith("Before it") for line in lines(made("l4")))
    eager = start_time(made(enforce_eager=True))
    assert eager is not None
    assert eager.compiling is None


def test_graphs_without_an_estimate_come_on_top_of_the_share() -> None:
    plan = made(vllm="0.26.0")
    said = lines(plan)
    assert "vLLM estimates nothing for its graphs: the estimate of runner V2 is always 0" in said[0]
    assert "The KV cache gives up nothing for them: they come on top of --gpu-memory-utilization." in said
    assert any(line.startswith("Capture really takes about ") for line in said)
    assert not any("come on top" in line for line in lines(made(vllm="0.33.0")))
