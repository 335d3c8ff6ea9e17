"""A kind of graphs that the plan has and the log lacks: a difference, with the rules that may be why."""

from __future__ import annotations

from typing import Any

from startup_helpers import on, rank, start, took

from cgplan.report.logs_plan_rows import agreed
from cgplan.startup.analysis import StartReport, report_of
from cgplan.startup.missing_graphs import counted
from cgplan.startup.record import Captured, Rank
from cgplan.trace import Finding

QWEN = "Qwen/Qwen3-8B"
SIXTEEN = {"cudagraph_capture_sizes": list(range(1, 17))}
PIECEWISE = (Captured("PIECEWISE", 16, 16),)
BOTH = (*PIECEWISE, Captured("FULL", 16, 16))


def seen(*profiled: Captured, ranks: Rank | None = None, name: str | None = QWEN, **more: Any) -> StartReport:
    given = {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.82, "compilation_config": SIXTEEN}
    given |= {"model": name} if name else {}
    worker = ranks or Rank("TP0", 0, profiled=tuple(profiled), attention_backends=more.pop("backends", ()))
    one = start(worker, version="0.27.1", model=name, arguments=given | more.pop("given", {}), **more)
    return report_of(one, 1, (one,), on("rtx4090"))


def lacking(report: StartReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == "CG832"]


class TestA29:
    def test_only_piecewise_is_a_difference(self) -> None:
        report = seen(*PIECEWISE)
        (finding,) = lacking(report)
        assert finding.severity == "warning"
        assert "16 FULL graphs are planned, and the log has 16 PIECEWISE alone" in finding.message
        assert report.comparison is not None
        (row,) = [row for row in report.comparison.rows if row.key == "graphs.FULL"]
        assert (row.verdict, row.measured) == ("different", 0)
        assert "FULL" not in agreed(report.comparison.rows)

    def test_its_causes_are_rules(self) -> None:
        (finding,) = lacking(seen(*PIECEWISE))
        causes = finding.message.partition("Likely causes: ")[2]
        assert "a mode that was asked for, PIECEWISE" in causes
        assert "speculative decoding on FlashInfer, not among its arguments (CG333)" in causes
        assert "a pooling model, not among its arguments (CG207)" in causes
        assert "LoRA" not in causes  # LoRA has FULL graphs as well.
        assert str(finding.fix).startswith("drop -cc.cudagraph_mode=PIECEWISE")

    def test_another_backend_in_the_log_rules_one_out(self) -> None:
        (finding,) = lacking(seen(*PIECEWISE, backends=("FLASH_ATTN",)))
        assert "FlashInfer" not in finding.message

    def test_both_kinds_are_as_planned(self) -> None:
        report = seen(*BOTH)
        assert lacking(report) == []
        assert report.comparison is not None
        assert "FULL graphs 16" in agreed(report.comparison.rows)

    def test_a_mode_that_was_asked_for_is_planned(self) -> None:
        asked = {"compilation_config": {**SIXTEEN, "cudagraph_mode": "PIECEWISE"}}
        assert lacking(seen(*PIECEWISE, given=asked)) == []

    def test_without_the_models_name_the_defaults_are_taken(self) -> None:
        (finding,) = lacking(seen(*PIECEWISE, name=None))
        assert finding.severity == "info"
        assert "by the defaults of 0.27.1 there are FULL ones as well" in finding.message
        assert lacking(seen(*BOTH, name=None)) == []
        asked = {"compilation_config": {"cudagraph_mode": "PIECEWISE"}}
        assert lacking(seen(*PIECEWISE, name=None, given=asked)) == []


class TestWhatTheLogCounts:
    def test_bars_count_where_capture_is_over(self) -> None:
        bar = Captured("PIECEWISE", 16, total=16)
        assert counted(start(Rank("TP0", 0, captured=(bar,)))) is None
        assert counted(start(Rank("TP0", 0, captured=(bar,), graph_actual_bytes=1))) == {"PIECEWISE": 16}

    def test_none_at_all_of_a_start_that_came_up(self) -> None:
        up = (took("init engine", 30.0),)
        assert counted(start(rank(kv=8.0), phases=up)) == {}
        assert counted(start(rank(kv=8.0))) is None
        assert counted(start(rank(kv=8.0, graph_actual=0.5), phases=up)) is None  # Its bars are not in the log.

    def test_none_at_all_is_told(self) -> None:
        (finding,) = lacking(seen(ranks=rank(kv=8.0), phases=(took("init engine", 30.0),)))
        assert "the log has none at all" in finding.message
        assert "eager mode" in finding.message
