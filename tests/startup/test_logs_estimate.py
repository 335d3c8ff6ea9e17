"""What `cgplan logs` says of vLLM's estimate: its samples, the backend's FULL graphs, and the seconds of capture."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from startup_helpers import MIB, on, public, rank, start

from cgplan.report.logs_document import as_document
from cgplan.report.logs_plan_rows import amount, plan_rows
from cgplan.report.logs_schema import LogsDocument
from cgplan.report.logs_secrets import LogSecrets
from cgplan.report.logs_words import facts
from cgplan.startup.against_plan import Row
from cgplan.startup.analysis import StartReport, analyse
from cgplan.startup.record import Sample, Start, StartupLog


def report(name: str, card: str = "h100") -> StartReport:
    (found,) = analyse(public(name), on(card))
    return found


def said(found: StartReport) -> str:
    return "\n".join(text for _, text in facts(found))


def of(one: Start) -> StartReport:
    (found,) = analyse(StartupLog((one,)), None)
    return found


class TestSamples:
    def test_are_shown_with_their_sum(self) -> None:
        text = said(report("A07"))
        assert "PIECEWISE 106 MiB for the first graph, 10 MiB for each of 50 more" in text
        assert "FULL 522 MiB for the first graph, 8 MiB for each of 50 more" in text
        assert "522 + 500 + 400 = 1,422 MiB (1.39 GiB)" in text

    def test_a_sum_that_is_not_the_estimate_is_left_out(self) -> None:
        samples = (Sample("PIECEWISE", 106 * MIB, 51, 10 * MIB), Sample("FULL", 522 * MIB, 51, 8 * MIB))
        right = replace(rank(graph_estimate=1422 / 1024), samples=samples)
        wrong = replace(rank(graph_estimate=1.49), samples=samples)
        assert "1,422 MiB" in said(of(start(right)))
        assert "1,422 MiB" not in said(of(start(wrong)))
        assert "522 MiB for the first graph" in said(of(start(wrong)))

    def test_a_log_without_them_says_nothing(self) -> None:
        assert "for the first graph" not in said(report("A13", "l40s"))

    def test_stages_that_differ_are_told_apart(self) -> None:
        assert "more of PP0" in said(report("A03"))
        assert "more of" not in said(report("A07"))

    def test_are_in_the_document(self) -> None:
        log = public("A07")
        document = as_document(log, analyse(log, on("h100")), LogSecrets(log.starts))
        LogsDocument.model_validate(document)
        (found,) = document["starts"][0]["ranks"]
        assert found["samples"][1] == {
            "kind": "FULL", "first_bytes": 522 * MIB, "graphs": 51, "per_graph_bytes": 8 * MIB,
        }  # fmt: skip


class TestSupport:
    def test_why_full_graphs_stay(self) -> None:
        text = said(report("A07"))
        assert "FLASH_ATTN_MLA supports UNIFORM_BATCH: FULL_AND_PIECEWISE keeps FULL graphs for decode" in text

    @pytest.mark.parametrize("name", ["A01", "A02"])
    def test_a_backend_that_supports_all_keeps_the_mode(self, name: str) -> None:
        text = said(report(name))
        assert "FLASH_ATTN supports ALWAYS with FlashAttention 3: FULL_AND_PIECEWISE stays as it is" in text
        assert "Not taken before it" not in text

    def test_why_the_first_backends_were_not_taken(self) -> None:
        """Case A08: attention over multimodal prefixes leaves TRITON_ATTN."""
        text = said(report("A08"))
        assert "TRITON_ATTN supports ALWAYS" in text
        assert (
            "Not taken before it: FLASH_ATTN, FLASHINFER (no bidirectional attention over multimodal prefixes)" in text
        )

    def test_of_a_hybrid_the_backend_that_decides_is_named(self) -> None:
        text = said(report("A12"))
        assert "GDN_ATTN supports UNIFORM_BATCH" in text
        assert "FLASH_ATTN supports" not in text

    def test_without_a_plan_what_does_not_depend_on_the_gpu(self) -> None:
        (found,) = analyse(public("A07"), None)
        assert "FLASH_ATTN_MLA supports UNIFORM_BATCH: FULL graphs for decode, with drafts as well" in said(found)

    def test_without_a_plan_not_of_a_hybrid_nor_of_what_depends_on_it(self) -> None:
        """Other layers of a hybrid may support less; FlashInfer's level goes by the GPU."""
        for name in ("A12", "A16"):
            (found,) = analyse(public(name), None)
            assert "supports" not in said(found)


class TestSecondsOfCapture:
    def row(self, name: str) -> Row:
        comparison = report(name).comparison
        assert comparison is not None
        (found,) = (row for row in comparison.rows if row.key == "capture_seconds")
        return found

    @pytest.mark.parametrize(("name", "seconds"), [("A07", 12), ("A09", 10)])
    def test_stand_beside_those_of_the_log(self, name: str, seconds: int) -> None:
        row = self.row(name)
        assert row.planned is not None
        assert row.measured == 10 * seconds
        assert row.planned.low <= row.planned.best <= row.planned.high
        (line,) = (cells for cells in plan_rows([row], 1) if cells[0] == "seconds of capture")
        assert line[1] == f"{row.planned.best / 10:.0f}"
        assert line[3] == str(seconds)
        assert re.fullmatch(r"[+-][0-9.]+%", line[4])

    @pytest.mark.parametrize(("tenths", "text"), [(3, "0.3"), (9, "0.9"), (10, "1"), (314, "31")])
    def test_less_than_a_second_is_not_rounded_to_none(self, tenths: int, text: str) -> None:
        assert amount(self.row("A07"), tenths) == text

    def test_a_verdict_is_by_the_bounds(self) -> None:
        (one,) = public("A07").starts
        slow = replace(one, ranks=tuple(replace(rank, capture_seconds=600.0) for rank in one.ranks))
        (found,) = analyse(StartupLog((slow,)), on("h100"))
        assert found.comparison is not None
        (row,) = (row for row in found.comparison.rows if row.key == "capture_seconds")
        assert row.verdict == "outside"
        assert any("seconds of capture" in one.message and "600 in the log" in one.message for one in found.findings)

    def test_of_other_graphs_than_planned_they_are_not_compared(self) -> None:
        (one,) = public("A07").starts
        fewer = tuple(
            replace(rank, profiled=tuple(replace(part, graphs=3) for part in rank.profiled)) for rank in one.ranks
        )
        (found,) = analyse(StartupLog((replace(one, ranks=fewer),)), on("h100"))
        assert found.comparison is not None
        assert not [row for row in found.comparison.rows if row.key == "capture_seconds"]

    def test_in_json_they_are_seconds(self) -> None:
        log = public("A07")
        document = as_document(log, analyse(log, on("h100")), LogSecrets(log.starts))
        LogsDocument.model_validate(document)
        (found,) = (row for row in document["starts"][0]["plan"]["rows"] if row["name"] == "capture_seconds")
        assert (found["unit"], found["measured"]) == ("seconds", 12)
        assert 1 <= found["low"] <= found["best"] <= found["high"] < 120
