"""A record says what `plan` says of the same deployment, whatever stood before it; a refusal is a record."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_helpers import BASE, SMALL, grid

from cgplan import Deployment, gpu, load_model
from cgplan.errors import CgplanError
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.capacity_plan import capture_time
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.sweep import evaluate
from cgplan.sweep.evaluate import FACTS, Evaluator
from cgplan.vocabulary import CUDAGraphMode

WIDE: dict[str, Any] = {
    "base": {"max_num_batched_tokens": 8192},
    "grid": {
        "model": ["Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"],
        "gpu": ["h100", "l4"],
        "vllm": ["0.33.0", "0.25.1", "0.19.1"],
        "tensor_parallel_size": [1, 3, 4],
        "max_num_seqs": [16, 1024],
        "max_model_len": ["auto", 16384, 40960],
        "gpu_memory_utilization": [0.5, 0.92],
        "cudagraph_mode": ["default", "PIECEWISE", "NONE"],
        "kv_cache_dtype": ["default", "fp8"],
    },
}


def planned(record: dict[str, Any]) -> dict[str, Any]:
    """What `plan` says of the deployment of a record of WIDE."""
    given = {key: record[key] for key in ("tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens", "vllm")}
    if record["max_model_len"] != -1:
        given["max_model_len"] = record["max_model_len"]
    if record["kv_cache_dtype"] is not None:
        given["kv_cache_dtype"] = record["kv_cache_dtype"]
    if record["compilation_config.cudagraph_mode"] is not None:
        given["compilation_config"] = {"cudagraph_mode": record["compilation_config.cudagraph_mode"]}
    request = MemoryRequest(MemoryFlags(record["gpu_memory_utilization"]), auto_fit=record["max_model_len"] == -1)
    deployment = Deployment(model=load_model(record["model"]), gpu=gpu(record["gpu"]), **given)
    try:
        made = plan_of(deployment, request, advise=False)
    except CgplanError as error:
        return {"starts": "no", "fits": False, "code": error.code, "kv_tokens": None}
    assert made.budget is not None
    r, stage, seconds = made.resolution, made.budget.tightest, capture_time(made)
    found = {
        "starts": made.starts,
        "effective_cudagraph_mode": r.cudagraph_mode.value,
        "graphs": r.graph_count(),
        "effective_max_cudagraph_capture_size": r.max_capture_size,
        "uncovered_batches": sum(
            one.last - one.first + 1 for one in r.uniform_decode_coverage().ranges if one.mode is CUDAGraphMode.NONE
        ),
        "weights_bytes": stage.weights.best,
        "activation_bytes": stage.activation.best,
        "graph_bytes": stage.graphs.best,
        "deducted_bytes": stage.deducted.best,
        "kv_bytes": min(made.best.kv_bytes),
        "capture_seconds": seconds.best if seconds is not None else 0.0,
    }
    found["fits"] = made.fits
    found["kv_tokens"] = made.best.plan.tokens if made.best.plan is not None else None
    if made.starts == "no":
        found["code"] = made.findings[0].code
    elif not made.fits:
        found["code"] = next(one.code for one in made.findings if one.code in made.ends)
    return found


@settings(max_examples=25)
@given(st.sets(st.integers(0, grid(WIDE).size - 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_record_says_what_plan_says(numbers: set[int], order: random.Random) -> None:
    some = sorted(numbers)
    order.shuffle(some)
    evaluator = Evaluator(grid(WIDE))
    for number in some:
        record = evaluator.record(number)
        expected = planned(record)
        assert {key: record[key] for key in expected} == expected


def test_neighbours_say_what_each_says_alone() -> None:
    found = grid(WIDE)
    together = Evaluator(found)
    for number in list(found.numbers())[100:190]:
        assert together.record(number) == Evaluator(found).record(number)


def test_every_record_has_every_column() -> None:
    found = grid(WIDE)
    columns = ["key", *(axis.name for axis in found.axes), *FACTS]
    evaluator = Evaluator(found)
    assert all(list(evaluator.record(number)) == columns for number in range(0, found.size, 97))


def test_no_option_has_the_name_of_a_fact() -> None:
    assert not {*Deployment.model_fields, "key"} & set(FACTS)


def only(document: dict[str, Any]) -> dict[str, Any]:
    found = grid(document)
    assert found.count == 1
    return Evaluator(found).record(0)


def one(**options: Any) -> dict[str, Any]:
    return only({"base": {key: value for key, value in BASE.items() if key not in options},
                 "grid": {key: [value] for key, value in options.items()}})  # fmt: skip


def test_what_vllm_refuses_is_a_record() -> None:
    record = one(tensor_parallel_size=3)
    assert (record["starts"], record["graphs"]) == ("no", None)
    assert record["code"].startswith("CG")
    assert "3" in record["message"]


def test_an_option_that_the_release_lacks_is_a_record() -> None:
    old, new = (one(max_num_active_seqs=64, vllm=release) for release in ("0.19.1", "0.33.0"))
    assert (old["starts"], old["code"]) == ("no", "CG739")
    assert (new["starts"], new["code"]) == ("yes", None)


def test_a_failure_of_cgplan_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no such case")

    monkeypatch.setattr(evaluate, "resolve", fails)
    record = one(max_num_seqs=8)
    assert (record["starts"], record["code"]) == (None, "CG737")
    assert "no such case" in record["message"]


def test_drafts_adapters_and_given_bytes() -> None:
    drafts = one(speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    assert drafts["starts"] == "yes"
    assert drafts["covered_batches"] + drafts["uncovered_batches"] == drafts["effective_max_num_seqs"]
    adapters = one(enable_lora=True, max_loras=4)
    assert adapters["graphs"] > one(enable_lora=False)["graphs"]
    given_bytes = one(kv_bytes="10G")
    assert (given_bytes["kv_bytes"], given_bytes["weights_bytes"]) == (10 * 2**30, None)
    assert one(speculative_config={"num_speculative_tokens": 3})["code"] == "CG903"


def test_whole_tables_and_their_keys_add_up() -> None:
    document = {
        "base": {**BASE, "compilation_config": {"cudagraph_mode": "PIECEWISE"}},
        "grid": {"compilation_config": [{"cudagraph_capture_sizes": [1, 2, 4]}]},
    }
    record = only(document)
    assert (record["effective_cudagraph_mode"], record["effective_max_cudagraph_capture_size"]) == ("PIECEWISE", 4)


def test_what_is_not_modelled_is_said() -> None:
    document = {"base": BASE, "grid": {"compilation_config": {"cache_dir": ["/tmp/a", "/tmp/b"]}}}
    found = grid(document)
    assert found.ignored == ("compilation_config.cache_dir",)
    first, second = (Evaluator(found).record(number) for number in range(2))
    assert first["key"] != second["key"]
    assert first["kv_tokens"] == second["kv_tokens"]


def test_refusals_do_not_change_what_comes_after() -> None:
    found = grid(SMALL)
    evaluator = Evaluator(found)
    assert [evaluator.record(at) for at in found.numbers()] == [evaluator.record(at) for at in found.numbers()]


def test_one_that_does_not_start_by_the_best_estimate_holds_no_tokens() -> None:
    base = {"model": "Qwen/Qwen3-32B", "gpu": "l4"}
    fails, starts = (only({"base": base, "grid": {"tp": [tp]}}) for tp in (4, 8))
    assert (fails["starts"], fails["fits"], fails["code"]) == ("unsure", False, "CG561")
    assert (fails["kv_tokens"], fails["max_concurrency"], fails["effective_max_model_len"]) == (None, None, 40960)
    assert (starts["starts"], starts["fits"], starts["code"]) == ("unsure", True, "CG504")
    assert starts["kv_tokens"] > 40960
    refused = only({"base": base, "grid": {"tp": [3]}})
    assert (refused["starts"], refused["fits"], refused["kv_tokens"]) == ("no", False, None)
