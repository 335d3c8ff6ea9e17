"""What a log shows of memory: each finding, and the start beside it that has none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import on, public, rank, start, took

from cgplan.memory.budget.estimate_rules import (
    ENCODER_GRAPHS,
    FROM_TWO_SIZES,
    GATED_DELTA,
    IMPLAUSIBLE,
    SHARED_MEMORY,
)
from cgplan.startup.analysis import analyse
from cgplan.startup.findings import findings_of
from cgplan.startup.record import Captured, Rank, Start, StartupLog


def codes(one: Start) -> set[str]:
    return {finding.code for finding in findings_of(one)}


def fix(one: Start, code: str) -> str:
    return next(str(finding.fix) for finding in findings_of(one) if finding.code == code)


GOOD = {"total": 80.0, "free": 79.0, "requested": 72.0, "utilization": 0.9, "kv": 50.0}


def with_graphs(estimate: float, actual: float | None, **more: float) -> Rank:
    return rank(**{**GOOD, **more}, graph_estimate=estimate, graph_actual=actual)


def test_an_ordinary_start_has_none() -> None:
    assert codes(start(with_graphs(0.6, 0.62), version="0.25.1")) == set()


class TestImplausibleEstimates:
    def test_c05_below_nothing(self) -> None:
        one = start(
            rank(total=121.63, free=113.15, utilization=0.8, kv=90.6, graph_estimate=-20.5, graph_actual=0.73),
            version="0.26.0",
        )
        (finding,) = [f for f in findings_of(one) if f.code == IMPLAUSIBLE.code]
        assert "20.50 GiB more" in finding.message
        assert "(69.2" in str(finding.fix)

    def test_c02_a_large_part_of_the_gpu_before_capture(self) -> None:
        one = start(rank(total=277.0, utilization=0.9, kv=-5.0, graph_estimate=118.65), version="0.27.1")
        assert IMPLAUSIBLE.code in codes(one)
        assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0" in fix(one, IMPLAUSIBLE.code)

    def test_large_graphs_that_were_taken_are_plausible(self) -> None:
        """C03: 57 GiB estimated of 178, and 64 taken."""
        one = start(rank(total=178.0, utilization=0.92, kv=43.0, graph_estimate=57.45, graph_actual=63.99))
        assert IMPLAUSIBLE.code not in codes(one)

    def test_c14_less_than_nothing_was_taken(self) -> None:
        one = start(with_graphs(2.43, -0.19), version="0.25.1")
        assert SHARED_MEMORY.code in codes(one)
        assert SHARED_MEMORY.code not in codes(start(with_graphs(2.43, 2.2), version="0.25.1"))

    def test_what_the_estimate_costs_and_the_size_in_use(self) -> None:
        own = rank(utilization=0.86, kv=20.0, graph_estimate=2.43, graph_actual=-0.19)
        one = start(own, version="0.25.1", kv_tokens=802_083)
        (finding,) = [f for f in findings_of(one) if f.code == SHARED_MEMORY.code]
        assert "gets 2.43 GiB less for it, 97,453 tokens (12.1%)" in finding.message
        assert str(finding.fix).startswith(f"--kv-cache-memory-bytes {20 << 30}, which")
        assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 where" in str(finding.fix)

    def test_on_shared_memory_an_estimate_that_agrees_is_a_note(self) -> None:
        (a16,) = public("A16").starts
        (found,) = analyse(StartupLog((a16,)), on("gb10"))
        (finding,) = [f for f in found.findings if f.code == SHARED_MEMORY.code]
        assert (finding.severity, finding.fix) == ("info", "nothing, while they agree")
        off = replace(a16, ranks=tuple(replace(one, graph_actual_bytes=one.kv_bytes) for one in a16.ranks))
        (found,) = analyse(StartupLog((off,)), on("gb10"))
        assert [f.severity for f in found.findings if f.code == SHARED_MEMORY.code] == ["warning"]


class TestEstimatesThatMislead:
    def test_far_above(self) -> None:
        assert codes(start(with_graphs(2.5, 0.6), version="0.25.1")) == {FROM_TWO_SIZES.code}
        assert "--kv-cache-memory-bytes" in fix(start(with_graphs(2.5, 0.6), version="0.25.1"), FROM_TWO_SIZES.code)

    def test_c04_gated_delta_layers(self) -> None:
        one = start(
            with_graphs(4.2, 0.56), version="0.26.0", architecture="Qwen3_5MoeForConditionalGeneration",
            max_num_batched_tokens=29818,
        )  # fmt: skip
        assert codes(one) == {GATED_DELTA.code}
        assert "--max-num-batched-tokens 14909" in fix(one, GATED_DELTA.code)
        assert codes(start(with_graphs(4.2, 0.56), version="0.26.0", architecture="LlamaForCausalLM")) == {
            FROM_TWO_SIZES.code
        }
        assert GATED_DELTA.code not in codes(
            start(with_graphs(4.2, 0.56), version="0.25.1", architecture="Qwen3_5MoeForConditionalGeneration")
        )

    def test_off_by_half_is_a_note_with_its_tokens(self) -> None:
        """+78%: what it costs in tokens, and the flag."""
        one = start(with_graphs(0.48, 0.27), version="0.25.1", kv_tokens=251_584)
        (finding,) = findings_of(one)
        assert (finding.code, finding.severity) == ("CG833", "info")
        assert "0.48 GiB is +78% off the 0.27 GiB" in finding.message
        lost = 0.21 * 251_584 / GOOD["kv"]
        tokens = int(finding.message.partition("lacks 0.21 GiB, ")[2].partition(" tokens")[0].replace(",", ""))
        assert abs(tokens - lost) < 2
        assert "--kv-cache-memory-bytes" in str(finding.fix)

    def test_below_by_half_the_cache_is_too_large(self) -> None:
        (finding,) = findings_of(start(with_graphs(0.27, 0.48), version="0.25.1", kv_tokens=251_584))
        assert finding.code == "CG833"
        assert "-44% off" in finding.message
        assert finding.message.endswith("too much")

    def test_a_quarter_is_enough_where_it_is_half_a_gib(self) -> None:
        """Case A18: +49%, 0.65 GiB."""
        (finding,) = findings_of(start(with_graphs(1.97, 1.32), version="0.25.1"))
        assert finding.code == "CG833"
        assert "+49% off" in finding.message
        assert codes(start(with_graphs(1.57, 1.32), version="0.25.1")) == set()
        assert codes(start(with_graphs(0.97, 0.66), version="0.25.1")) == set()

    def test_off_by_less_or_not_taken_off_is_none(self) -> None:
        assert codes(start(with_graphs(0.40, 0.27), version="0.25.1")) == set()
        assert codes(start(with_graphs(0.13, 0.05), version="0.25.1")) == set()
        assert codes(start(with_graphs(0.48, 0.27), version="0.19.1")) == set()

    def test_c12_far_below(self) -> None:
        assert codes(start(with_graphs(1.3, 6.0), version="0.27.1")) == {"CG535"}

    def test_c18_the_encoders_graphs(self) -> None:
        one = start(with_graphs(0.58, 7.46), version="0.22.1", captured=(Captured("ENCODER", 18, total=18),))
        assert codes(one) == {ENCODER_GRAPHS.code}

    def test_not_deducted_nothing_is_lost(self) -> None:
        (finding,) = findings_of(start(with_graphs(2.5, 0.6), version="0.19.1"))
        assert (finding.code, finding.severity) == ("CG833", "info")
        assert "nothing was taken off the KV cache" in finding.message
        assert "lacks" not in finding.message
        assert codes(start(with_graphs(0.9, 0.6), version="0.19.1")) == set()

    def test_outside_the_budget_with_little_free(self) -> None:
        tight = with_graphs(1.0, 0.9, requested=77.9, utilization=0.974)
        assert codes(start(tight, version="0.19.1")) == {"CG537"}
        assert fix(start(tight, version="0.19.1"), "CG537") == "--gpu-memory-utilization 0.97 or less"
        assert codes(start(tight, version="0.25.1")) == set()


def test_ranks_that_differ_are_named() -> None:
    one = start(rank("TP0", 0, kv=50.0), rank("TP1", 1, kv=46.0))
    (finding,) = findings_of(one)
    assert finding.code == "CG532"
    assert "TP1 has 46.00 GiB" in finding.message
    assert codes(start(rank("TP0", 0, kv=50.0), rank("TP1", 1, kv=49.9))) == set()


def test_e13_tokens_of_one_group() -> None:
    one = start(version="0.19.1", kv_tokens=290864, max_concurrency=33.04, concurrency_length=32768)
    (finding,) = findings_of(one)
    assert finding.code == "CG536"
    assert "1,082,654" in finding.message
    assert codes(start(kv_tokens=1_082_655, max_concurrency=33.04, concurrency_length=32768)) == set()


@pytest.mark.parametrize("known", [True, False])
def test_a_report_is_as_bad_as_its_worst_finding(known: bool) -> None:
    estimate = 2.5 if known else 0.6
    one = start(with_graphs(estimate, 0.6), version="0.25.1", phases=(took("init engine", 1.0),))
    (report,) = analyse(StartupLog((one,)))
    assert report.worst == ("warning" if known else None)
