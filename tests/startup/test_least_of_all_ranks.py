"""A flag is one for all ranks: findings, fixes and the corrected size have the value of the least of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import GIB, on, rank, start

from cgplan.report.logs_words import correction_lines, facts
from cgplan.startup.against_plan import Row, compare
from cgplan.startup.analysis import StartReport, analyse
from cgplan.startup.corrected import common, correct
from cgplan.startup.deployment import served
from cgplan.startup.findings import findings_of
from cgplan.startup.measured import read_back, record_of
from cgplan.startup.record import Rank, Start, StartupLog


def worker(at: int) -> Rank:
    """Rank `at` consumes 0.14 GiB more than the one before, and its graphs take 0.05 more."""
    consumed, peak, actual, estimate = 19.0 + 0.14 * at, 1.5 + 0.07 * at, 1.1 + 0.05 * at, 2.5 + 0.02 * at
    right = 71.27 - consumed - peak - actual - 150 / 1024
    return rank(
        f"TP{at}", at, total=79.19, free=78.19, requested=71.27, utilization=0.9, consumed=consumed,
        activation=peak + estimate, activation_includes_estimate=True, graph_estimate=estimate, graph_actual=actual,
        kv=71.27 - consumed - peak - estimate, suggested_kv=right - estimate, suggested_kv_bytes_full=None,
    )  # fmt: skip


EIGHT = tuple(worker(at) for at in range(8))
ARGUMENTS = {"model_tag": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 8192}


def server(*ranks: Rank, **more: object) -> Start:
    return start(*ranks, version="0.33.0", arguments={**ARGUMENTS, "tensor_parallel_size": 8}, **more)


def report(one: Start) -> StartReport:
    return analyse(StartupLog((one,)))[0]


class TestOneValue:
    def test_all_fixes_name_that_of_the_last_rank(self) -> None:
        one = server(*EIGHT)
        least = correct(one, EIGHT[7])
        assert least is not None
        value = f"--kv-cache-memory-bytes {least.right} "
        fixes = {f.code: str(f.fix) for f in findings_of(one)}
        assert value in fixes["CG525"]
        assert value in fixes["CG593"]
        assert value in correction_lines(report(one))[0]
        assert all(fixes[code].endswith("by TP7, the least of all ranks") for code in ("CG525", "CG593"))

    def test_one_rank_names_none(self) -> None:
        one = start(EIGHT[0], version="0.33.0")
        assert "the least" not in correction_lines(report(one))[0]

    def test_the_rank_that_decides_is_not_complete(self) -> None:
        cut = replace(EIGHT[7], graph_actual_bytes=None)
        one = server(*EIGHT[:7], cut)
        found = common(one)
        assert found is not None
        assert (found.is_known, found.incomplete, found.as_flags()) == (False, ("TP7",), None)
        (line,) = correction_lines(report(one))
        assert line.startswith("not known")
        assert all("--kv-cache-memory-bytes" not in str(f.fix) for f in findings_of(one) if f.code == "CG593")

    def test_another_rank_is_not_complete(self) -> None:
        one = server(replace(EIGHT[0], graph_actual_bytes=None), *EIGHT[1:])
        assert "by TP7, the least of those known" in correction_lines(report(one))[0]

    def test_a_rank_is_missing(self) -> None:
        assert "by TP6, the least of those known" in correction_lines(report(server(*EIGHT[:7])))[0]


class TestDataParallelEngines:
    PRINTED = (("DP0", 314_832, 38.43), ("DP1", 308_272, 37.63))

    def engines(self) -> Start:
        ranks = tuple(rank(f"DP{at // 2}_TP{at % 2}", at, kv=kv) for at, kv in enumerate((48.27, 48.04, 47.27, 45.04)))
        return start(
            *ranks, version="0.33.0", kv_printed=self.PRINTED, kv_tokens=314_832, max_concurrency=38.43,
            arguments={**ARGUMENTS, "tensor_parallel_size": 2, "data_parallel_size": 2}, concurrency_length=8192,
        )  # fmt: skip

    def test_a_rank_decides_for_its_engine_alone(self) -> None:
        (finding,) = [f for f in findings_of(self.engines()) if f.code == "CG532"]
        assert "DP1_TP0 47.27 GiB: DP1_TP1 decides for all of DP1" in finding.message
        assert "VLLM_PP_LAYER_PARTITION" not in str(finding.fix)

    def test_stages_can_be_shifted(self) -> None:
        one = start(rank("PP0", 0, kv=50.0), rank("PP1", 1, kv=46.0), arguments={"pipeline_parallel_size": 2})
        (finding,) = findings_of(one)
        assert "VLLM_PP_LAYER_PARTITION" in str(finding.fix)

    def test_the_plan_has_a_row_for_each(self) -> None:
        one = self.engines()
        rows = [row for row in compare(one, served(one, on("h100"))).rows if row.key == "kv_tokens"]
        assert [(row.ranks, row.measured) for row in rows] == [(("DP0",), 314_832), (("DP1",), 308_272)]
        assert rows[0].planned is not None
        assert rows[1].planned is not None
        assert rows[0].planned.best > rows[1].planned.best

    def test_the_headline_is_of_no_one_engine(self) -> None:
        shown = dict(facts(report(self.engines())))["KV cache"]
        assert "308,272 to 314,832 tokens in each of 2 engines" in shown


def test_ranks_that_differ_are_a_range_in_the_plan() -> None:
    one = server(*EIGHT)
    (finding,) = [f for f in compare(one, served(one, on("h100"))).findings if f.code == "CG533"]
    assert finding.message.count("graphs, capture takes") == 1
    assert "1.10 to 1.45 GiB in the log" in finding.message


@pytest.mark.parametrize(("measured", "percent"), [(-0.12, None), (0, None), (1.6, 0.0)])
def test_a_share_of_a_negative_number_is_none(measured: float, percent: float | None) -> None:
    from cgplan.memory.estimates import exactly

    row = Row("KV cache", "kv_bytes", "bytes", "outside", exactly(round(1.6 * GIB), ""), round(measured * GIB))
    assert row.percent == percent


def test_the_record_of_a_crash_says_so() -> None:
    text = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try"
    one = start(EIGHT[0], version="0.33.0", arguments=ARGUMENTS, crash=text)
    (found,) = analyse(StartupLog((one,)), on("h100"))
    assert found.comparison is not None
    record = record_of(one, found.comparison, ended=found.diagnosis)
    profile = read_back(record)
    assert "a start that crashed (CG509" in profile.source
    assert profile.profile is not None
    assert profile.profile["crash"]["code"] == "CG509"
    assert any("crashed" in text for text in record.remarks)
    assert any("two decimals" in text for text in record.remarks)
    whole = record_of(replace(one, crash=None, ready=True), found.comparison)
    assert "crashed" not in read_back(whole).source
    assert whole.document["profile"]["came_up"] is True
