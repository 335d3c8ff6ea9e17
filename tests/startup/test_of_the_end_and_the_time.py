"""Limits that an error names, releases that do not print it, and what of a start's time is worth a word."""

from __future__ import annotations

import pytest
from startup_helpers import on, rank, start, took

from cgplan.inputs.launches.asked import Context
from cgplan.memory.estimates import Interval
from cgplan.report.logs_plan_rows import plan_rows
from cgplan.report.logs_words import graph_line, title
from cgplan.startup.against_plan import Row
from cgplan.startup.analysis import StartReport, report_of
from cgplan.startup.crashes import classify
from cgplan.startup.diagnosis import diagnose
from cgplan.startup.record import Phase, Start
from cgplan.startup.requests import requests_of
from cgplan.startup.times import findings_of

BLOCKS = "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (95). Each decode sequence requires one"


def report(one: Start, context: Context | None = None) -> StartReport:
    return report_of(one, 1, (one,), context)


class TestLimitsOfTheEnd:
    def test_the_error_names_what_the_server_had(self) -> None:
        found = report(start(crash=BLOCKS, version="0.33.0", model="Qwen/Qwen3.6-27B"), on("h100"))
        assert found.start.max_num_seqs == 256
        assert found.comparison is not None
        assert found.comparison.resolution is not None
        assert found.comparison.resolution.max_num_seqs == 256

    def test_the_lines_of_the_log_go_before(self) -> None:
        assert report(start(crash=BLOCKS, max_num_seqs=512)).start.max_num_seqs == 512
        given = start(crash=BLOCKS, arguments={"max_num_seqs": 128})
        assert report(given).start.max_num_seqs is None

    def test_an_error_without_them(self) -> None:
        assert report(start(crash="KeyError: 'visual'")).start.max_num_seqs is None

    def test_a_release_that_does_not_refuse_it(self) -> None:
        older, newer = (diagnose(start(crash=BLOCKS, version=version)) for version in ("0.19.1", "0.33.0"))
        assert older is not None
        assert newer is not None
        assert "0.19.1 does not refuse it: the line is of 0.20.2 or a later release" in older.fix
        assert "does not refuse it" not in newer.fix

    def test_hardly_anything_is_free(self) -> None:
        said = (
            "ValueError: Free memory on device cuda:0 ({free}/79.19 GiB) on startup is less than desired GPU memory"
            " utilization (0.9, 71.27 GiB)."
        )
        full, half = (diagnose(start(crash=said.format(free=free))) for free in ("3.2", "40.0"))
        assert full is not None
        assert half is not None
        assert full.fix.startswith("stop what else runs on the GPU: 3.20 GiB of it are free")
        assert not full.largest
        assert half.fix.startswith("--gpu-memory-utilization 0.5 or less")

    def test_a_stream_that_was_capturing(self) -> None:
        assert (
            classify("RuntimeError: CUDA error: operation not permitted when stream is capturing")[0] == "memory_access"
        )


class TestWhatIsNamed:
    def test_the_model_that_was_planned_in_its_place(self) -> None:
        log = start(rank(kv=20.0), model="/models/served", version="0.30.0")
        planned = report(log, on("h100", model=_shape("Qwen/Qwen3-8B")))
        assert title(planned).endswith("/models/served, planned as Qwen/Qwen3-8B")
        same = start(rank(kv=20.0), model="Qwen/Qwen3-8B", version="0.30.0")
        assert title(report(same, on("h100"))).endswith(" · Qwen/Qwen3-8B")
        assert title(report(start(rank(kv=20.0)), on("h100", model=_shape("Qwen/Qwen3-8B")))).endswith("Qwen/Qwen3-8B")

    def test_the_mode_that_made_the_sizes(self) -> None:
        own = start(capture_sizes=(1, 2, 3), arguments={"performance_mode": "interactivity"})
        assert "3 sizes up to 3 by --performance-mode interactivity" in graph_line(own)
        assert "by" not in graph_line(start(capture_sizes=(1, 2, 3), arguments={"performance_mode": "balanced"}))

    def test_a_default_that_the_log_prints(self) -> None:
        printed = requests_of(start(max_num_seqs=1024, arguments={"model": "x"}), None)
        given = requests_of(start(max_num_seqs=64, arguments={"max_num_seqs": 64}), None)
        assert printed is not None
        assert given is not None
        assert printed.source.startswith("a default, which the log prints")
        assert given.source == ""


def _shape(name: str):  # type: ignore[no-untyped-def]
    from cgplan.inputs.catalogue import load_model

    return load_model(name)


class TestTheTime:
    def codes(self, *phases: Phase, capture: float = 24.0) -> list[str]:
        return [one.code for one in findings_of(start(rank(capture_seconds=capture), phases=phases))]

    def test_where_fewer_graphs_are_no_help_none_are_advised(self) -> None:
        parts = (took("capture", 70.0), took("kernel warm-up", 1400.0), took("init engine", 1500.0))
        assert self.codes(*parts, capture=70.0) == ["CG837"]
        assert "CG846" in self.codes(took("capture", 70.0), took("load", 60.0), capture=70.0)

    def test_compilation_that_is_the_longest_part(self) -> None:
        parts = (took("load", 10.0), took("dynamo", 15.0), took("compile", 85.0), took("capture", 15.0))
        (said,) = findings_of(start(phases=parts))
        assert said.code == "CG837"
        assert "torch.compile, with Dynamo, took 85 s, the graphs 15 s" in said.message
        assert "VLLM_CACHE_ROOT" in str(said.fix)

    @pytest.mark.parametrize("parts", [{"load": 90.0, "compile": 60.0}, {"load": 5.0, "compile": 30.0}])
    def test_where_it_is_not_or_the_start_is_short(self, parts: dict[str, float]) -> None:
        assert not list(findings_of(start(phases=tuple(took(name, seconds) for name, seconds in parts.items()))))


def test_a_plan_that_does_not_fit_has_no_size_of_the_cache() -> None:
    fits, short = (
        Row("KV cache", "kv_bytes", "bytes", "outside", Interval(size, size, size, ""), 3 << 30)
        for size in (2 << 30, -2 << 30)
    )
    assert plan_rows([fits], 1)[0][1] == "2.00"
    assert plan_rows([short], 1)[0][1:5] == ("does not fit", "", "3.00", "")
