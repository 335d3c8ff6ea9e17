"""Startup logs that people published: every number in them, by rank. GiB and MiB are as vLLM prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.startup.record import Rank, Start

LOGS = Path(__file__).parents[3] / "fixtures" / "logs"
GIB = 2**30
MIB = 2**20

CASES = json.loads((LOGS / "expected.json").read_text())
"""Of each log what a person reads in it; of several ranks, the one that leaves the least for the KV cache."""

IN_GIB = ("graph_estimate", "graph_actual", "free", "requested", "weights", "activation", "non_torch", "kv")


def only_start(name: str) -> Start:
    log = read_log(LOGS / f"{name}.txt")
    assert log.not_recognised == 0, log.examples
    (start,) = log.starts
    return start


def tightest(start: Start) -> Rank:
    return min(start.ranks, key=lambda rank: rank.kv_bytes if rank.kv_bytes is not None else 2**60)


@pytest.mark.parametrize("name", CASES)
def test_the_log_gives_the_numbers_that_are_in_it(name: str) -> None:
    start, case = only_start(name), CASES[name]
    assert start.vllm_version == case["version"]
    assert start.cudagraph_mode == case.get("mode")
    for kind in ("PIECEWISE", "FULL"):
        assert start.graphs[kind] == case[kind]
    assert start.kv_tokens == case.get("tokens")
    assert start.max_concurrency == case.get("concurrency")
    for field in ("blocks", "block_size"):
        if field in case:
            assert {"blocks": start.num_gpu_blocks, "block_size": start.block_size}[field] == case[field]


@pytest.mark.parametrize(
    ("name", "figure"),
    # The figures noted of A03 are of several ranks; they are held below.
    [(name, figure) for name, case in CASES.items() for figure in IN_GIB if figure in case and name != "A03"],
)
def test_a_figure_in_gib_is_that_of_a_rank(name: str, figure: str) -> None:
    assert getattr(tightest(only_start(name)), f"{figure}_bytes") == round(CASES[name][figure] * GIB)


@pytest.mark.parametrize("name", CASES)
def test_seconds_of_the_phases(name: str) -> None:
    start, case = only_start(name), CASES[name]
    seconds = {phase.name: phase.seconds for phase in start.phases}
    for phase in ("capture", "compile", "warm-up", "init engine"):
        if phase in case:
            assert seconds[phase] == case[phase]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "pw_first" in case and name != "A03"])
def test_samples_of_the_estimate(name: str) -> None:
    case = CASES[name]
    samples = {sample.mode: sample for sample in tightest(only_start(name)).samples}
    for mode, short in (("PIECEWISE", "pw"), ("FULL", "full")):
        assert samples[mode].first_bytes == case[f"{short}_first"] * MIB
        assert samples[mode].per_graph_bytes == case[f"{short}_each"] * MIB
        assert samples[mode].graphs == case[mode]


def test_every_pipeline_stage_keeps_its_own_values() -> None:
    ranks = only_start("A03").ranks
    assert [(rank.name, rank.rank) for rank in ranks] == [("PP0", 0), ("PP1", 1), ("PP2", 2), ("PP3", 3)]
    assert [rank.kv_bytes for rank in ranks] == [round(gib * GIB) for gib in (69.8, 70.83, 70.83, 68.89)]
    assert [rank.weights_bytes for rank in ranks] == [round(gib * GIB) for gib in (4.26, 3.28, 3.28, 4.26)]
    assert [rank.activation_bytes for rank in ranks] == [round(gib * GIB) for gib in (1.1, 1.05, 1.05, 2.01)]
    assert [sample.first_bytes for sample in ranks[3].samples] == [132 * MIB, 256 * MIB]
    assert [sample.first_bytes for sample in ranks[1].samples] == [112 * MIB, 256 * MIB]


def test_the_worker_that_had_no_number_yet_is_the_one_with_its_process_number() -> None:
    ranks = only_start("A02").ranks
    assert [rank.name for rank in ranks] == ["TP0", "TP1"]
    assert all(rank.requested_bytes == round(75.23 * GIB) for rank in ranks)


def test_suggested_bytes_are_exact() -> None:
    rank = only_start("A15").ranks[0]
    assert (rank.suggested_kv_bytes, rank.suggested_kv_bytes_full) == (14514713805, 15258363904)
    assert rank.activation_includes_estimate is False


def test_negative_memory_for_the_cache() -> None:
    start = only_start("B02")
    assert start.ranks[0].kv_bytes == round(-0.12 * GIB)
    assert start.crash is not None
    assert start.crash.message == "EngineCore failed to start."


def test_out_of_memory_in_the_warm_up_of_the_sampler() -> None:
    crash = only_start("B01").crash
    assert crash is not None
    assert crash.message == f"RuntimeError: {CASES['B01']['crash']}"
    assert crash.chain[0].startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB.")
    assert crash.chain[-1].startswith("RuntimeError: Engine core initialization failed.")
    assert (crash.rank, crash.place.line) == ("EngineCore", 45)


def test_sizes_and_arguments() -> None:
    start = only_start("A15")
    assert start.capture_sizes == (*range(1, 33), *range(40, 256, 8), *range(256, 513, 16))
    assert start.arguments["block_size"] == 16
    assert start.engine["kv_cache_dtype"] == "fp8"
    assert start.ranks[0].attention_backends == ("FLASHINFER",)
    assert only_start("A14").capture_sizes is None
