"""vLLM's estimate: its formulas over measured samples, and what is said of it in advance."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from conftest import ROOT

from cgplan import Deployment, gpu, load_model, resolve
from cgplan.memory.graphs.estimate import Samples, estimate_v1, estimate_v2
from cgplan.memory.graphs.memory import predict_graph_memory
from cgplan.vocabulary import CUDAGraphMode

tool: Any = importlib.import_module("fit_graph_memory")

MIB, GIB = 1 << 20, 1 << 30
PIECEWISE, FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL
RECORDS = [
    json.loads(line)
    for line in (ROOT / "fixtures" / "measured" / "graph_samples.jsonl").read_text(encoding="utf-8").splitlines()
]


def samples_of(record: dict[str, Any]) -> dict[CUDAGraphMode, Samples]:
    return {CUDAGraphMode(mode): Samples(*values) for mode, values in record["samples"].items()}


def test_there_are_samples_of_both_sources() -> None:
    assert sum("printed_gib" in record for record in RECORDS) >= 40
    assert sum("estimate" in record for record in RECORDS) >= 8


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"][:40])
def test_the_estimate_follows_from_its_samples(record: dict[str, Any]) -> None:
    found = estimate_v1(samples_of(record))
    if "estimate" in record:
        assert found == record["estimate"]
    else:  # samples are printed in whole MiB, the estimate in hundredths of a GiB
        assert round(found / GIB, 2) == pytest.approx(record["printed_gib"], abs=0.0101)


def test_a_graph_counts_for_a_mib_at_least_and_one_graph_has_no_further_ones() -> None:
    assert estimate_v1({FULL: Samples(100, 0, 11)}) == 100 + 10 * MIB
    assert estimate_v1({FULL: Samples(100, 0, 1)}) == 100
    assert estimate_v1({}) == 0


def test_only_the_larger_first_capture_counts_and_the_encoder_adds() -> None:
    both = {PIECEWISE: Samples(300 * MIB, 4 * MIB, 3), FULL: Samples(200 * MIB, 2 * MIB, 2)}
    assert estimate_v1(both) == (300 + 8 + 2) * MIB
    assert estimate_v1(both, encoder=50 * MIB) == (300 + 8 + 2 + 50) * MIB


@pytest.mark.parametrize(
    ("measured", "full", "expected"),
    [
        (500 * MIB, None, 500 * MIB),
        (500 * MIB, Samples(200 * MIB, 2 * MIB, 35), 500 * MIB + 33 * 2 * MIB),
        (500 * MIB, Samples(200 * MIB, 0, 35), 500 * MIB + 34 * MIB),
        (500 * MIB, Samples(200 * MIB, 0, 1), 500 * MIB),
        (10 * MIB, Samples(60 * MIB, 2 * MIB, 0), 10 * MIB),
        (-50 * MIB, None, 0),
    ],
)
def test_runner_v2_swaps_its_two_samples_for_all_full_graphs(
    measured: int, full: Samples | None, expected: int
) -> None:
    assert estimate_v2(measured, full) == expected


@pytest.mark.parametrize(
    ("release", "runner", "is_made"),
    [
        ("0.25.1", "0", True),
        ("0.25.1", "1", False),
        ("0.28.0", "1", False),
        ("0.29.0", "1", True),
        ("0.33.0", "1", True),
    ],
)
def test_runner_v2_estimates_since_0_29(release: str, runner: str, is_made: bool) -> None:
    deployment = Deployment(vllm=release, env={"VLLM_USE_V2_MODEL_RUNNER": runner})
    memory = predict_graph_memory(deployment, resolve(deployment))
    assert (memory.estimate is not None) == is_made


def test_the_bounds_hold_what_vllm_estimated_in_nine_rows_of_ten() -> None:
    inside = []
    for row in tool.rows():
        own = row.record.get("graph_estimate")
        estimate = predict_graph_memory(row.deployment, row.resolution).estimate
        if own and estimate is not None:
            inside.append(estimate.low <= own <= estimate.high)
    assert len(inside) >= 60
    assert sum(inside) / len(inside) >= 0.9


class TestSecondSegment:
    """Why the estimate of one list is far above that of its neighbours."""

    def of(self, model: str, **fields: Any) -> Any:
        asked = Deployment(
            model=load_model(model), gpu=gpu("h200"), vllm="0.25.1", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}, **fields
        )
        return predict_graph_memory(asked, resolve(asked))

    def test_the_measured_one_is_one(self) -> None:
        """Llama 3.2 1B, 512 requests, 0.25.1: 1,228 MiB estimated, 372 taken (docs/graph-memory.md)."""
        made = self.of("meta-llama/Llama-3.2-1B-Instruct", max_num_seqs=512)
        found = made.second_segment
        assert (found.tokens, found.grown, found.graphs) == (496, 20 * MIB, 51)
        assert made.estimate.best - made.total.best > 0.8 * found.counted

    @pytest.mark.parametrize(("requests", "grows"), [(64, False), (120, False), (128, True), (136, True), (144, False)])
    def test_neighbours_have_none(self, requests: int, grows: bool) -> None:
        made = self.of("meta-llama/Llama-3.1-8B-Instruct", max_num_seqs=requests)
        assert (made.second_segment is not None) is grows
        assert (made.estimate.best > 1.6 * made.total.best) is grows
        assert made.estimate.low < made.total.best, "the lower bound does without it"

    def test_a_runner_that_captures_all_others_has_none(self) -> None:
        asked = Deployment(
            model=load_model("meta-llama/Llama-3.2-1B-Instruct"),
            gpu=gpu("h200"),
            max_num_seqs=512,
            env={"VLLM_USE_V2_MODEL_RUNNER": "1"},
        )
        assert predict_graph_memory(asked, resolve(asked)).second_segment is None
