"""What a plan says of the time of a start: the figures are those of the public logs."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from cgplan import Deployment, Measured, ModelShape, load_model
from cgplan.inputs.vllm_logs import read_log
from cgplan.memory.capacity_plan import CapacityPlan, capture_time
from cgplan.memory.capture_seconds import Seconds, capture_seconds
from cgplan.memory.older_release import captured_by
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.memory.start_time import StartTime, longest, start_time
from cgplan.releases import table
from cgplan.releases.gpus import gpu
from cgplan.report.plan_graphs import lines

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
GIB = 1 << 30


def made(card: str = "h100", known: Measured | None = None, **fields: object) -> CapacityPlan:
    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu(card), **fields)  # type: ignore[arg-type]
    return plan_of(deployment, MemoryRequest(known=known or Measured()))


OF_CAPTURE = {
    "A01": ("meta-llama/Llama-3.1-8B-Instruct", "h100", 1), "A02": ("meta-llama/Llama-3.1-8B-Instruct", "h100", 1),
    "A03": ("meta-llama/Llama-3.1-8B-Instruct", "h100", 4),
    "A04": ("RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "h100", 1),
    "A07": ("deepseek-ai/DeepSeek-V2-Lite-Chat", "h100", 1), "A08": ("google/gemma-3-27b-it", "h100", 1),
    "A09": ("Qwen/Qwen3-30B-A3B", "h100", 1), "A12": ("Qwen/Qwen3.5-9B", "l40s", 1),
    "A13": ("Qwen/Qwen2.5-7B-Instruct", "l40s", 1), "A14": ("Qwen/Qwen3.5-4B", "l40s", 1),
    "A16": ("nvidia/Qwen3.6-27B-NVFP4", "gb10", 1), "B01": ("openai/gpt-oss-20b", "h100", 1),
}  # fmt: skip
"""Log: the model, the GPU or one like it, and the pipeline stages."""
OF_SHAPES = {"A15": ModelShape(num_hidden_layers=16, is_hybrid=True)}
"""Of models that the catalogue lacks, what matters here: A15 is an LFM2.5 of 1.2B, on a slice of an H100."""
MODELS = {name: load_model(model) for name, (model, _, _) in OF_CAPTURE.items()} | OF_SHAPES
MODELS["B02"] = load_model("nvidia/Qwen3.6-35B-A3B-NVFP4")
STAGES = {name: stages for name, (_, _, stages) in OF_CAPTURE.items()}
ROWS = {"load_seconds_a_gib": 14, "compile_seconds_a_layer": 14, "profile_seconds": 8, "states_seconds": 4}
"""Rows of the table, and how many logs say them."""


def first_phases() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for path in sorted(LOGS.glob("*.txt")):
        took = found.setdefault(path.stem, {})
        first = read_log(path).starts[0]
        for phase in first.phases:
            took.setdefault(phase.name, phase.seconds)
        weights = next((rank.weights_bytes for rank in first.ranks if rank.weights_bytes), None)
        if weights and "load" in took:
            took["load a GiB"] = took["load"] * GIB / weights
    return found


PHASES = first_phases()


def of_logs() -> dict[str, list[float]]:
    """What the public logs say, by the row of the table."""
    found: dict[str, list[float]] = {name: [] for name in ROWS}
    for name, took in PHASES.items():
        model = MODELS.get(name)
        if "load a GiB" in took:
            found["load_seconds_a_gib"].append(took["load a GiB"])
        if "compile" in took and model is not None:
            found["compile_seconds_a_layer"].append(took["compile"] / model.num_hidden_layers * STAGES.get(name, 1))
        if "compile" in took and "profile" in took:
            found["profile_seconds"].append(took["profile"] - took["compile"] - took["graph estimate"])
        if model is not None and model.is_hybrid and "warm-up" in took:
            found["states_seconds"].append(took["warm-up"])
    return found


def test_the_table_is_what_the_logs_say() -> None:
    known = table("capture_time")
    found = of_logs()
    assert {name: len(values) for name, values in found.items()} == ROWS
    for name, values in found.items():
        said = min(values), median(values), max(values)
        assert known[name] == pytest.approx(said, abs=0.06), name


def test_the_bounds_hold_the_samples_and_the_tuning_of_every_log() -> None:
    known = table("capture_time")
    samples = [took["graph estimate"] for took in PHASES.values() if "graph estimate" in took]
    assert len(samples) == 15
    least, middle, most = known["estimate_seconds"]
    assert least == min(samples)
    assert middle == median(samples)
    assert max(samples) < most
    tuned = [PHASES[name]["kernel warm-up"] for name in ("A16", "A18")]
    assert known["tune_seconds"][1:] == sorted(tuned)


def test_a_plan_names_all_parts_of_a_start() -> None:
    plan = made(vllm="0.31.0")
    found = start_time(plan)
    assert found is not None
    assert found.load[1] == pytest.approx(15.27 * 1.22, rel=0.02)
    assert found.compiling is not None
    line = next(line for line in lines(plan) if line.startswith("Beside it: "))
    assert "the weights of a GPU 19 s (5 to 122)" in line
    assert "torch.compile with Dynamo 18 s (4 to 45)" in line
    assert "the graphs that are sampled for the estimate 2 s (1 to 46)" in line
    assert "kernels" not in line
    assert longest(plan) == ("the weights of a GPU", found.load[1])
    assert "fewer graphs shorten capture alone" in line


def test_samples_are_named_where_vllm_takes_some() -> None:
    without = start_time(made(vllm="0.26.0"))
    assert without is not None
    assert without.estimating is None
    first = start_time(made(vllm="0.26.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}))
    assert first is not None
    assert first.estimating is not None


def test_kernels_are_tuned_for_fp4_on_blackwell() -> None:
    def of(model: str, card: str) -> StartTime:
        found = start_time(plan_of(Deployment(model=load_model(model), gpu=gpu(card)), MemoryRequest()))
        assert found is not None
        return found

    slow = of("nvidia/Qwen3.6-27B-NVFP4", "gb10")
    assert slow.tuning is not None
    assert slow.states is not None
    assert of("Qwen/Qwen3-8B", "b200").tuning is None
    assert of("nvidia/Qwen3.6-27B-NVFP4", "h100").tuning is None
    assert of("Qwen/Qwen3-8B", "b200").states is None


def test_capture_is_the_longest_part_where_it_is() -> None:
    slow = made(known=Measured(capture_seconds=90.0))
    assert longest(slow) == ("capture", 90.0)
    assert "The longest is" not in next(line for line in lines(slow) if line.startswith("Beside it: "))


def test_captures_of_releases_before_the_timed_ones_have_wider_bounds() -> None:
    plan = made(vllm="0.19.1")
    now, then = capture_time(plan), capture_time(captured_by(plan, "0.9.1"))
    assert now is not None
    assert then is not None
    assert then.best == now.best
    assert then.high == pytest.approx(5 * now.high, rel=0.02)
    said = " ".join(lines(captured_by(plan, "0.9.1")))
    assert "releases before 0.19 were seen to take many times as long" in said
    assert "The longest is" not in said
    assert "many times as long" not in " ".join(lines(plan))
    adapters = capture_seconds(plan.deployment.model_copy(update={"enable_lora": True}), 67, is_older=True)
    # 67 graphs with adapters were said to take a minute in 0.8.
    assert adapters.high > 65
    for wanted in ("0.19.0", "0.33.0", "nightly", None):
        assert captured_by(plan, wanted) is plan


def test_a_model_with_states_compiles_kernels_in_the_first_graph_of_another_gpu() -> None:
    model = load_model("nvidia/Qwen3.6-35B-A3B-NVFP4")
    here, there = (capture_seconds(Deployment(model=model, gpu=gpu(card)), 7) for card in ("h100", "gb10"))
    assert here.high < 10
    assert there.high > 30
    assert capture_seconds(Deployment(model=model, gpu=gpu("gb10")), 0).high == 0
    assert capture_seconds(Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("gb10")), 7).high < 10


def test_nothing_is_said_of_a_start_that_fails_or_has_no_graphs() -> None:
    assert not any(line.startswith("Beside it") for line in lines(made(enforce_eager=True)))
    assert not any(line.startswith("Beside it") for line in lines(made("l4")))
    eager = start_time(made(enforce_eager=True))
    assert eager is not None
    assert eager.compiling is None


def test_graphs_without_an_estimate_come_on_top_of_the_share() -> None:
    plan = made(vllm="0.26.0")
    said = lines(plan)
    assert "vLLM estimates nothing for its graphs: the estimate of runner V2 is always 0" in said[0]
    assert any(line.startswith("The KV cache gives up nothing for them: they come on top of --gpu") for line in said)
    assert any(line.startswith("Capture really takes about ") for line in said)
    assert not any("come on top" in line for line in lines(made(vllm="0.33.0")))


OF_UNKNOWN_MODELS = 1
"""A18 is of a model whose layers are not known here; it counts as not held."""


def of_capture() -> dict[str, tuple[Seconds, float]]:
    """Of each log that says how long capture took the bounds, and what it took, seconds."""
    asked = {
        name: Deployment(model=load_model(model), gpu=gpu(card), pipeline_parallel_size=stages)
        for name, (model, card, stages) in OF_CAPTURE.items()
    }
    asked |= {name: Deployment(model=model, gpu=gpu("h100")) for name, model in OF_SHAPES.items()}
    found = {}
    for name, deployment in asked.items():
        first = read_log(LOGS / f"{name}.txt").starts[0]
        took = next(phase.seconds for phase in first.phases if phase.name == "capture")
        found[name] = capture_seconds(deployment, GRAPHS[name]), took
    return found


EXPECTED = json.loads((LOGS / "expected.json").read_text(encoding="utf-8"))
GRAPHS = {name: (of.get("PIECEWISE") or 0) + (of.get("FULL") or 0) for name, of in EXPECTED.items()}


def test_the_bounds_of_capture_hold_the_public_logs() -> None:
    found = of_capture()
    said = [path.stem for path in LOGS.glob("*.txt") if "Graph capturing finished in" in path.read_text("utf-8")]
    assert len(said) == len(found) + OF_UNKNOWN_MODELS
    held = [name for name, (said, took) in found.items() if said.low - 0.5 <= took <= said.high + 0.5]
    assert len(held) == len(found), set(found) - set(held)


def test_experts_and_layers_take_longer() -> None:
    def best(model: str, **fields: object) -> float:
        deployment = Deployment(model=load_model(model), gpu=gpu("h100"), **fields)  # type: ignore[arg-type]
        return capture_seconds(deployment, 102).best

    assert best("Qwen/Qwen3-8B") < best("Qwen/Qwen2.5-72B") < best("Qwen/Qwen3-30B-A3B")
    assert best("Qwen/Qwen3-8B", pipeline_parallel_size=4) < best("Qwen/Qwen3-8B")
    # A07 and A09 took 12 and 10 s, and a dense model of 8B 3 s.
    assert 7 <= best("Qwen/Qwen3-30B-A3B") <= 14
    assert best("meta-llama/Llama-3.1-8B-Instruct") == pytest.approx(3, abs=0.5)


def test_other_gpus_have_wider_bounds() -> None:
    model = load_model("Qwen/Qwen3-8B")
    here, there = (capture_seconds(Deployment(model=model, gpu=gpu(card)), 102) for card in ("h100", "l40s"))
    assert here.best == there.best
    assert there.high > 2 * here.high
