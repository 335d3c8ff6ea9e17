"""The record of a profile: records of an H200, read again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cgplan import Deployment, InputError, gpu, load_model, plan, resolve
from cgplan.memory.budget.measured_record import check_fits, profile_of
from cgplan.memory.estimates import MIB
from cgplan.memory.profile.descriptors import Descriptor, descriptors_of
from cgplan.memory.profile.extrapolate import Captured
from cgplan.memory.profile.measure import Measured
from cgplan.memory.profile.result import answers, document
from cgplan.memory.profile.sampling import chosen
from cgplan.report.profile_text import show_profile
from cgplan.vocabulary import CUDAGraphMode

RECORDS = Path(__file__).parents[2] / "docs" / "measurements" / "2026-11-30-h200" / "records.jsonl.gz"
MODELS = ("Qwen2.5-0.5B-Instruct", "Qwen2.5-7B-Instruct", "Llama-3.1-8B-Instruct")


def records() -> dict[str, Any]:
    with gzip.open(RECORDS, "rt") as lines:
        return {one["name"]: one for one in map(json.loads, lines)}


def graph_bytes(name: str) -> Any:
    return records()[name]["profile"]["ranks"][0]["graph_bytes"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("requests", [256, 1024])
def test_a_quarter_of_the_synthetic_graphs_told_what_all_took(model: str, requests: int) -> None:
    truth = graph_bytes(f"synthetic-{model}-{requests}-all")["all"]
    found = graph_bytes(f"synthetic-{model}-{requests}-auto")["auto"]["best"]
    assert abs(found - truth) <= max(0.05 * truth, 16 * MIB)


@pytest.mark.parametrize("runner", ["v1", "v2"])
@pytest.mark.parametrize("model", ["Qwen2.5-0.5B-Instruct", "Llama-3.1-8B-Instruct"])
def test_a_quarter_of_vllms_graphs_is_closer_than_its_own_estimate(model: str, runner: str) -> None:
    own = records()[f"vllm-{model}-256-{runner}-all"]["profile"]["vllm"]
    found = graph_bytes(f"vllm-{model}-256-{runner}-auto")["auto"]["best"]
    assert abs(found - own["took_bytes"]) < abs(own["estimate_bytes"] - own["took_bytes"])


def test_records_are_measured_records() -> None:
    for name, one in records().items():
        read = profile_of({key: value for key, value in one.items() if key != "name"}, name)
        has_graphs = read.measured.graph_bytes is not None
        assert has_graphs == (name.startswith("vllm-") and name.endswith("-all")), "only all of vLLM's own speak for it"


def test_a_record_of_vllm_takes_the_place_of_the_estimates() -> None:
    one = records()["vllm-Llama-3.1-8B-Instruct-256-v1-all"]
    known = profile_of({key: value for key, value in one.items() if key != "name"}, "record").as_measured()
    assert (known.graphs, known.graph_estimate) == (516 * MIB, 368 * MIB)
    deployment = Deployment(
        model=load_model("meta-llama/Llama-3.1-8B-Instruct"), gpu=gpu("h200"), vllm="0.25.1", max_model_len=8192
    )
    made = plan(deployment, known=known)
    assert made.budget is not None
    assert made.budget.stages[0].graphs.best == 516 * MIB


def llama() -> tuple[Deployment, Any, tuple[Descriptor, ...]]:
    deployment = Deployment(
        model=load_model("meta-llama/Llama-3.1-8B-Instruct"), gpu=gpu("h200"), vllm="0.25.1", max_num_seqs=256
    )
    resolution = resolve(deployment)
    return deployment, resolution, descriptors_of(resolution)


def test_what_stopped_early_is_marked() -> None:
    deployment, resolution, every = llama()
    measured = Measured(captured=[Captured(every[0], 100 * MIB, 90 * MIB, 0.1)], stopped="out of memory: x")
    made = document(deployment, resolution, every, [measured], machine={"total_bytes": 1}, sample="auto", source="here")
    assert made["profile"]["complete"] is False
    assert made["profile"]["stopped"] == "out of memory: x"
    assert made["profile"]["captured"] == {"PIECEWISE": 1}
    assert made["measured"] == {"total_bytes": 1}
    json.dumps(made)


def test_without_a_capture_there_is_no_answer() -> None:
    assert answers(Measured(), llama()[2]) == {"two": None, "auto": None, "all": None}


def test_all_graphs_give_all_three_answers() -> None:
    every = llama()[2]
    captured = [Captured(one, 4 * MIB, 0, 0.1, 1, 100) for one in chosen(every, "all")]
    found = answers(Measured(captured=captured), every)
    assert found["all"] == 4 * MIB * len(every)
    assert found["two"] == 4 * MIB * (len(every) - 1)
    assert found["auto"]["best"] == 4 * MIB * len(every)


def test_the_slowest_rank_counts_as_the_cost() -> None:
    from cgplan.memory.profile.speed import StepTimes, Times

    deployment, resolution, every = llama()
    ranks = [
        Measured(steps=[StepTimes(8, Times(s, s, s, 3), Times(s, s, s, 3), Times(s / 2, s / 2, s / 2, 3), None, 10)])
        for s in (0.25, 0.5)
    ]
    made = document(deployment, resolution, every, ranks, machine={}, sample="auto", source="here")
    assert made["profile"]["cost_seconds"] == {"full": {"8": 0.25}, "piecewise": {}, "eager": {"8": 0.5}}
    assert CUDAGraphMode.FULL in {one.mode for one in every}


@pytest.mark.parametrize(
    "changed",
    [
        {"enable_lora": True, "max_loras": 4},
        {"dtype": "float16"},
        {"kv_cache_dtype": "fp8"},
        {"attention_backend": "TRITON_ATTN"},
        {"quantization": "fp8"},
    ],
)
def test_a_record_of_another_deployment_is_refused(changed: dict[str, Any]) -> None:
    deployment, resolution, every = llama()
    made = document(deployment, resolution, every, [], machine={}, sample="auto", source="here")
    record = profile_of(made, "record")
    check_fits(record, deployment, resolution, "--profile")
    other = deployment.model_copy(update=changed)
    with pytest.raises(InputError, match="another deployment"):
        check_fits(record, other, resolve(other), "--profile")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_screen_holds_every_line_and_each_bar_its_time(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    one = records()["synthetic-Llama-3.1-8B-Instruct-256-all"]
    for rank in one["profile"]["ranks"]:
        rank.setdefault("pool_bytes", 0)
    show_profile(one, "Llama", {})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    bars = [line for line in lines if line[6:16].strip() in ("eager", "piecewise", "full")]
    assert bars
    assert all("±" in line for line in bars)
