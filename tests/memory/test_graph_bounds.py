"""Graphs where nothing was measured: FlashInfer's buffer, and bounds that hold what public logs say."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from cgplan import Deployment, gpu, load_model, resolve
from cgplan.memory.graphs.memory import BUFFER, GraphMemory, predict_graph_memory

runs: Any = importlib.import_module("accuracy.runs")
"""tools/accuracy/runs.py."""

V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
MIB, GIB = 1 << 20, 1 << 30
LOGS, _ = runs.runs("graph_logs.jsonl")


def of(model: str, card: str, release: str = "0.25.1", **fields: Any) -> GraphMemory:
    asked = Deployment(model=load_model(model), gpu=gpu(card), vllm=release, **fields)
    return predict_graph_memory(asked, resolve(asked))


def hybrid(card: str = "rtx5090", release: str = "0.25.1", **fields: Any) -> GraphMemory:
    return of("Qwen/Qwen3.5-9B", card, release, attention_backend="FLASHINFER", max_num_seqs=8, **fields)


@pytest.mark.parametrize("run", LOGS, ids=lambda run: run.name)
def test_the_bounds_hold_what_public_logs_say(run: Any) -> None:
    made = predict_graph_memory(run.deployment, run.resolution)
    for key, predicted in (("graph_estimate_gib", made.estimate), ("graphs_gib", made.total)):
        if run.record[key] is not None:
            assert predicted is not None
            assert predicted.low / GIB - 0.005 <= run.record[key] <= predicted.high / GIB + 0.005


@pytest.mark.parametrize(("name", "off"), [("log A16", 0.25), ("report C11", 0.1)])
def test_captures_of_hybrids_with_flashinfer_are_near(name: str, off: float) -> None:
    run = next(run for run in LOGS if run.name == name)
    made = predict_graph_memory(run.deployment, run.resolution)
    assert made.total.best / GIB == pytest.approx(run.record["graphs_gib"], rel=off)


def test_a_hybrid_allocates_the_buffer_in_its_first_full_capture() -> None:
    with_buffer, without = hybrid(), hybrid().parts
    plain = of("Qwen/Qwen3.5-9B", "rtx5090", attention_backend="FLASH_ATTN", max_num_seqs=8)
    assert BUFFER in without
    assert with_buffer.parts[BUFFER].best == 394 * MIB
    assert BUFFER not in plain.parts
    assert with_buffer.total.best - plain.total.best == 394 * MIB


def test_without_full_graphs_there_is_none() -> None:
    assert BUFFER not in hybrid(compilation_config={"cudagraph_mode": "PIECEWISE"}).parts


def test_a_warm_up_takes_it_before_where_all_layers_run_with_flashinfer() -> None:
    part = of("Qwen/Qwen3-8B", "rtx5090", attention_backend="FLASHINFER").parts[BUFFER]
    assert (part.best, part.high) == (0, 394 * MIB)


def test_kernels_of_hopper_and_blackwell_keep_it_from_the_estimate() -> None:
    part = hybrid("b200").parts[BUFFER]
    assert (part.best, part.high) == (0, 394 * MIB)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"env": {"VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": str(100 * MIB)}}, 100 * MIB),
        ({"release": "0.26.0", "max_num_batched_tokens": 16384}, 16384 * 16 * 256 * 16),
        ({"release": "0.25.1", "max_num_batched_tokens": 16384}, 394 * MIB),
    ],
)
def test_its_size(fields: dict[str, Any], expected: int) -> None:
    assert hybrid(**fields).parts[BUFFER].best == expected


def test_the_estimate_has_it_in_the_first_sample() -> None:
    with_buffer, plain = hybrid(), of("Qwen/Qwen3.5-9B", "rtx5090", attention_backend="FLASH_ATTN", max_num_seqs=8)
    assert with_buffer.estimate is not None
    assert plain.estimate is not None
    assert 300 * MIB < with_buffer.estimate.best - plain.estimate.best <= 394 * MIB


def test_bounds_are_wider_where_nothing_was_measured() -> None:
    measured, other = (of("Qwen/Qwen3-8B", card, env=V1).estimate for card in ("h200", "rtx4090"))
    assert measured is not None
    assert other is not None
    assert other.high / other.best > 1.5 * measured.high / measured.best
    assert other.low / other.best < measured.low / measured.best


def test_tensor_parallelism_may_take_a_segment_for_every_graph() -> None:
    one, two = (of("meta-llama/Llama-3.1-8B-Instruct", "h100", "0.19.1", tensor_parallel_size=n) for n in (1, 2))
    assert one.estimate is not None
    assert two.estimate is not None
    assert two.estimate.high - two.estimate.best > 1000 * MIB
    assert one.estimate.high - one.estimate.best < 300 * MIB
    assert two.estimate.low <= 1731 * MIB <= two.estimate.high, "as a public log has it"
