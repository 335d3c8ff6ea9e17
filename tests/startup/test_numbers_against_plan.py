"""What does not compare, what explains a larger KV cache, and tokens of the KV cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from startup_helpers import on, public, rank, start, took, warning

from cgplan.inputs.catalogue import load_model
from cgplan.report.logs_document import as_document
from cgplan.report.logs_plan_rows import plan_alone
from cgplan.report.logs_secrets import LogSecrets
from cgplan.report.logs_steps import NO_STEPS, no_steps
from cgplan.report.logs_tokens import has_groups, token_rows
from cgplan.report.logs_words import facts, title
from cgplan.startup.analysis import StartReport, analyse
from cgplan.startup.record import Captured, Phase, Rank, Start, StartupLog

QWEN = "Qwen/Qwen3-8B"


def report(one: Start, card: str | None = None, **more: Any) -> StartReport:
    (found,) = analyse(StartupLog((one,)), on(card, **more) if card else None)
    return found


def codes(found: StartReport) -> dict[str, Any]:
    return {finding.code: finding for finding in found.findings}


def profiled(piecewise: tuple[int, int], full: tuple[int, int], **more: float) -> Rank:
    counted = (Captured("PIECEWISE", *piecewise), Captured("FULL", *full))
    return replace(rank(**more), profiled=counted)


def server(*ranks: Rank, version: str = "0.25.1", **more: Any) -> Start:
    return start(*ranks, version=version, model=QWEN, **more)


class TestAnotherListOfGraphs:
    def test_rows_that_do_not_compare_are_left_out(self) -> None:
        one = server(profiled((7, 64), (5, 16), graph_estimate=0.3, kv=40.0))
        found = report(one, "h100")
        assert found.comparison is not None
        keys = {row.key for row in found.comparison.rows}
        assert "graph_estimate_bytes" not in keys
        assert "kv_bytes" in keys
        told = codes(found)["CG534"]
        assert "7 PIECEWISE graphs up to 64 and 5 FULL graphs up to 16 come of another list" in told.message
        assert str(told.fix).startswith("--cudagraph-capture-sizes 1 2 4 8 16 32 64,")

    @pytest.mark.parametrize("piecewise", [(7, 100), (999_999_999, 64), (7, 999_999_999)])
    def test_a_list_that_cannot_be_told_names_none(self, piecewise: tuple[int, int]) -> None:
        told = codes(report(server(profiled(piecewise, (5, 16), graph_estimate=0.3)), "h100"))["CG534"]
        assert "1 2 4" not in str(told.fix)

    def test_graphs_of_other_requests_are_solved(self) -> None:
        """7 and 5 graphs up to 32 and 16 are those of 16 requests."""
        found = report(server(profiled((7, 32), (5, 16), graph_estimate=0.3)), "h100")
        assert "CG534" not in codes(found)
        assert found.comparison is not None
        assert "graph_estimate_bytes" in {row.key for row in found.comparison.rows}


class TestSmallerWeights:
    def test_by_the_kv_cache(self) -> None:
        """Qwen3-8B has 15.3 GiB in bfloat16."""
        told = codes(report(server(rank(kv=64.0, utilization=0.9)), "h100"))["CG533"]
        assert "The weights of the log are about" in told.message
        assert "--weights-bytes" in str(told.fix)

    def test_by_their_own_line(self) -> None:
        told = codes(report(server(rank(weights=5.5, utilization=0.9)), "h100"))["CG533"]
        assert "about 9.7" in told.message
        assert "by its own line" in told.message

    def test_a_smaller_cache_has_another_cause(self) -> None:
        told = codes(report(server(rank(kv=30.0, utilization=0.9)), "h100"))["CG533"]
        assert "weights of the log" not in told.message
        assert "other processes on the GPU" in told.message

    def test_save_is_advised_where_it_can_keep_something(self) -> None:
        bare = codes(report(server(rank(kv=30.0, utilization=0.9)), "h100"))["CG533"]
        assert "no bytes that --save keeps" in str(bare.fix)
        more = codes(report(server(rank(kv=30.0, utilization=0.9, activation=1.2)), "h100"))["CG533"]
        assert "with --save" in str(more.fix)


class TestTokens:
    def test_of_one_group_the_bytes_of_a_token(self) -> None:
        """36 layers x 8 heads x 128 x 2 x 2 bytes."""
        one = server(rank(kv=45.0), kv_tokens=327_680, max_concurrency=8.0, concurrency_length=40_960)
        alone = dict(reversed(token_rows(report(one))))
        assert alone[""].startswith("144.0 KiB a token by the log")
        planned = [text for _, text in token_rows(report(one, "h100"))]
        assert planned[0].endswith("as the model's shape has it")
        assert planned[1].startswith("144 KiB: 36 layers x 8 heads")

    def test_another_dtype_is_seen(self) -> None:
        one = server(rank(kv=45.0), kv_tokens=655_360, max_concurrency=16.0, concurrency_length=40_960)
        assert "the model's shape has 144.0: another KV cache dtype" in token_rows(report(one, "h100"))[0][1]

    def test_the_estimate_in_tokens_where_it_is_taken_off(self) -> None:
        own = rank(kv=45.0, graph_estimate=1.0)
        tokens = {"kv_tokens": 327_680, "max_concurrency": 8.0, "concurrency_length": 40_960}
        assert "the graphs' estimate is 7,282 tokens" in token_rows(report(server(own, **tokens)))[0][1]
        assert "estimate" not in token_rows(report(server(own, version="0.19.1", **tokens)))[0][1]

    def test_layers_of_several_kinds(self) -> None:
        (one,) = public("A08").starts
        assert has_groups(one)
        assert token_rows(report(one))[0][1].startswith("tokens are the concurrency times the length, 4.46 x 8,192")
        (plain,) = public("A01").starts
        assert not has_groups(plain)
        padded = replace(plain, messages=(warning("Add 8 padding layers, may waste at most 15.38% KV cache memory"),))
        assert has_groups(padded)

    @pytest.mark.parametrize(("times", "said"), [(0.34, True), (1.36, False)])
    def test_of_one_group_alone_they_are_no_room_for_all(self, times: float, said: bool) -> None:
        """Of 262,144: 89,760 tokens are 0.34 requests; with 1.36 they are those of one group (CG536)."""
        one = start(rank(), kv_tokens=89_760, max_concurrency=times, concurrency_length=262_144, is_part=True)
        texts = [finding.message for finding in report(one).findings if finding.code == "CG834"]
        assert any("tokens fit at once" in text for text in texts) is said

    def test_a_log_without_tokens_says_nothing(self) -> None:
        assert token_rows(report(server(rank(kv=45.0)))) == []
        assert token_rows(report(server(rank(kv=45.0), kv_tokens=0))) == []


class TestKernelsOfFlashinfer:
    def test_xqa_of_case_a15(self) -> None:
        (one,) = public("A15").starts
        assert one.decode_kernels == "xqa"
        assert ("", "XQA decode kernels: FULL graphs for decode stay") in facts(report(one))

    def test_without_full_graphs_nothing_is_said(self) -> None:
        one = server(rank(), decode_kernels="xqa", cudagraph_mode="PIECEWISE")
        assert not any("XQA" in text for _, text in facts(report(one)))


class TestMemoryOfTheGpu:
    ADVISED = rank(graph_estimate=0.52, utilization=0.9764, raised_utilization=0.9984)

    def test_it_is_shown_where_no_gpu_is_named(self) -> None:
        found = report(server(self.ADVISED))
        assert "23.6 GiB GPU" in title(found)
        assert ("GPU", "23.4 to 23.9 GiB by its advice on the utilization") in facts(found)

    def test_one_that_is_named_is_held_against_it_without_a_plan(self) -> None:
        one = start(self.ADVISED, version="0.21.0")
        assert "a plan of it would be of another" in codes(report(one, "h100"))["CG538"].message
        assert "CG538" not in codes(report(one, "rtx4090"))


class TestAllThatIsMissing:
    @pytest.mark.parametrize(
        ("model", "version", "card", "flags"),
        [
            (None, None, None, "--vllm RELEASE --model MODEL --gpu GPU"),
            (QWEN, None, "h100", "--vllm RELEASE"),
            (None, "0.25.1", None, "--model MODEL --gpu GPU"),
        ],
    )
    def test_is_named_at_once(self, model: str | None, version: str | None, card: str | None, flags: str) -> None:
        one = replace(server(rank(kv=40.0)), model=model, vllm_version=version)
        (found,) = analyse(StartupLog((one,)), on(card) if card else on("h100")._replace(gpu=None))
        assert found.comparison is not None
        assert found.comparison.fix == f"`cgplan logs LOG {flags}`"

    def test_nothing_to_compare_says_what_the_plan_has(self) -> None:
        found = report(server(), "h100")
        assert found.comparison is not None
        assert plan_alone(found.comparison).startswith("The log has no value to hold against the plan; by it the KV")
        full = report(server(rank(kv=40.0)), "h100")
        assert full.comparison is not None
        assert plan_alone(full.comparison) == ""


class TestRequestsInTheDocument:
    def test_have_their_source(self) -> None:
        log = StartupLog((server(profiled((35, 256), (19, 128))),))
        document = as_document(log, analyse(log, on("h100")), LogSecrets(log.starts))
        found = document["starts"][0]["requests"]
        assert found["max_num_seqs"] == 128
        assert "solved from the graphs" in found["source"]

    def test_unknown_is_null(self) -> None:
        log = StartupLog((start(rank(), version="0.25.1"),))
        assert as_document(log, analyse(log), LogSecrets(log.starts))["starts"][0]["requests"] is None


class TestGatedDelta:
    def test_before_capture_with_the_model_that_is_named(self) -> None:
        one = replace(start(rank(graph_estimate=4.2, kv=12.0), version="0.26.0"), kv_tokens=1_135_957)
        model = load_model("Qwen/Qwen3.5-4B")
        (found,) = analyse(StartupLog((one,)), on("h100")._replace(gpu=None, model=model))
        told = codes(found)["CG529"]
        assert told.severity == "warning"
        assert "lower --max-num-batched-tokens" in str(told.fix)

    def test_after_capture_as_well(self) -> None:
        one = start(rank(graph_estimate=4.2, graph_actual=0.3, kv=36.0), version="0.26.0")
        for name, code in (("Qwen/Qwen3.5-4B", "CG529"), (QWEN, "CG593")):
            context = on("h100")._replace(gpu=None, model=load_model(name))
            (found,) = analyse(StartupLog((one,)), context)
            assert code in codes(found)

    @pytest.mark.parametrize(("release", "estimate"), [("0.25.1", 4.2), ("0.29.0", 4.2), ("0.26.0", 0.2)])
    def test_not_of_other_releases_nor_of_little(self, release: str, estimate: float) -> None:
        one = start(rank(graph_estimate=estimate, kv=12.0), version=release)
        model = load_model("Qwen/Qwen3.5-4B")
        (found,) = analyse(StartupLog((one,)), on("h100")._replace(gpu=None, model=model))
        assert "CG529" not in codes(found)


class TestSlowCapture:
    def slow(self, seconds: float, graphs: int, **more: Any) -> dict[str, Any]:
        own = replace(rank(capture_seconds=seconds), profiled=(Captured("FULL", graphs, 512),))
        phases: tuple[Phase, ...] = (took("capture", seconds),)
        return codes(report(replace(start(own, version="0.25.1"), phases=phases, **more)))

    def test_with_lora(self) -> None:
        """Case D12: 67 graphs in 65 s."""
        told = self.slow(65, 67, arguments={"enable_lora": True, "max_loras": 4})["CG846"]
        assert "65 s for 67 graphs, 0.97 s each" in told.message
        assert "up to 4 adapters" in told.message
        assert "10 graphs would take about 10 s" in str(told.fix)
        assert "--enforce-eager is not needed" in str(told.fix)

    def test_without_it_the_causes_are_named(self) -> None:
        assert "older releases" in self.slow(65, 67)["CG846"].message

    def test_not_of_many_graphs_nor_of_few_seconds(self) -> None:
        assert "CG846" not in self.slow(25, 102)
        assert "CG846" not in self.slow(8, 4)

    @pytest.mark.parametrize(("seconds", "fires"), [(65, True), (40, False)])
    def test_of_graphs_that_are_not_counted(self, seconds: float, fires: bool) -> None:
        one = start(rank(capture_seconds=seconds), version="0.25.1", phases=(took("capture", seconds),))
        told = codes(report(one))
        assert ("CG846" in told) is fires
        assert not fires or " each" not in told["CG846"].message.partition(".")[0]

    def test_bounds_of_the_plan_count_where_there_is_one(self) -> None:
        own = rank(capture_seconds=25.0, weights=15.3)
        within = replace(own, profiled=(Captured("PIECEWISE", 51, 512), Captured("FULL", 51, 512)))
        found = report(server(within, phases=(took("capture", 25),)), "h100")
        assert found.comparison is not None
        (row,) = (row for row in found.comparison.rows if row.key == "capture_seconds")
        assert ("CG846" in codes(found)) is (row.verdict == "outside")


class TestSteps:
    def up(self, version: str, **more: Any) -> list[StartReport]:
        return [report(replace(start(rank(kv=1.0), version=version, ready=True), **more))]

    def test_runner_v2_counts_none_before_030(self) -> None:
        asked = {"runner": "V2", "arguments": {"cudagraph_metrics": True}}
        text = no_steps(self.up("0.27.1", **asked))
        assert "though --cudagraph-metrics is on: before 0.30 runner V2 counts no batches" in text
        assert "CG245" in text
        assert "is on: it is printed beside the statistics" in no_steps(self.up("0.30.0", **asked))

    def test_the_flag_is_not_advised_where_it_prints_nothing(self) -> None:
        assert "so that flag prints nothing" in no_steps(self.up("0.27.1", runner="V2"))
        assert no_steps(self.up("0.30.0", runner="V2")) == NO_STEPS
        assert no_steps(self.up("0.27.1", runner="V1")) == NO_STEPS

    def test_statistics_that_are_off(self) -> None:
        told = self.up(
            "0.30.0", arguments={"observability_config": {"cudagraph_metrics": True}, "disable_log_stats": True}
        )
        assert "--disable-log-stats switches the table off" in no_steps(told)
