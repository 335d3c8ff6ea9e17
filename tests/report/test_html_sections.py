"""Sections of the report: the numbers of the plan, the profile and the workload, and nothing made up."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from html_helpers import facts, gathered

from cgplan import gpu
from cgplan.errors import InputError
from cgplan.memory.profile.worth import Left
from cgplan.report import plan_words, tune_view
from cgplan.report.html import of_memory, of_profile, of_resolution, of_workload
from cgplan.report.html.blocks import Curves, Figure, Grouped, Section, Stacked, Table
from cgplan.report.html.document import findings_of, page

RECORDS = Path(__file__).parents[2] / "docs/measurements/2026-11-30-h200/records.jsonl.gz"

CAPTURES = {"rank": 0, "graph_bytes": {"two": None, "auto": None, "all": None}, "seconds": 1.0, "captures": "x"}


@cache
def records() -> dict[str, Any]:
    with gzip.open(RECORDS) as file:
        return {one.pop("name"): one for one in map(json.loads, file)}


def record() -> dict[str, Any]:
    found: dict[str, Any] = deepcopy(records()["synthetic-Qwen2.5-7B-Instruct-256-all"])
    return found


def figures(section: Section) -> list[Figure]:
    return [block for block in section.blocks if isinstance(block, Figure)]


def numbers(figure: Figure) -> Table:
    assert figure.table is not None
    return figure.table


def tables(section: Section) -> dict[str, Table]:
    return {block.name: block for block in section.blocks if isinstance(block, Table)}


class TestGraphs:
    def test_a_bar_has_every_batch(self) -> None:
        made = facts(max_num_seqs=1000).plan.resolution
        decode, mixed = figures(of_resolution.resolution(made))
        assert isinstance(decode.chart, Stacked)
        colours = [piece.colour for _, pieces in decode.chart.rows for piece in pieces]
        assert colours == ["full", "eager"]
        assert "the first that runs eager has 513 requests" in decode.summary
        assert numbers(decode).rows[-1][:3] == ("513–1000", "eager", "")
        assert numbers(mixed).rows[0] == ("1", "PIECEWISE", "1", "0.0%")

    def test_without_a_cliff_it_says_so(self) -> None:
        decode = figures(of_resolution.resolution(facts(max_num_seqs=64).plan.resolution))[0]
        assert "no batch runs eager" in decode.summary

    def test_every_decision_is_there(self) -> None:
        made = facts().plan.resolution
        found = tables(of_resolution.decisions(made))["Rules that changed a setting"]
        assert [row[0] for row in found.rows] == [one.code for one in made.decisions]
        assert [row[-1] for row in found.rows] == [one.source for one in made.decisions]

    def test_lines_of_another_release_are_said_to_be_its(self) -> None:
        made = facts(vllm="0.25.1").plan.resolution
        section = of_resolution.decisions(made)
        places = [row[-1] for row in tables(section)["Rules that changed a setting"].rows]
        assert places
        assert all(" @ 0." in place for place in places)
        assert "The rules are those of 0.25.1" in str(section.blocks[0])

    def test_one_is_one(self) -> None:
        decode, _ = figures(of_resolution.resolution(facts(max_num_seqs=1).plan.resolution))
        assert isinstance(decode.chart, Stacked)
        ((_, (piece,)),) = decode.chart.rows
        assert piece.told == "FULL 1 request"
        assert decode.summary.startswith("FULL 1 request; ")


class TestCards:
    def test_what_does_not_start_captures_and_runs_nothing(self) -> None:
        starts, fails = (dict(page(facts(name)).key) for name in ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"))
        assert {"CUDA graphs", "Decode batches", "Capture"} <= set(starts)
        assert "CUDA graphs, asked for" in fails
        assert not {"CUDA graphs", "Decode batches", "Capture"} & set(fails)


class TestMemory:
    def test_the_bar_is_the_gpu(self) -> None:
        made = facts().plan
        assert made.budget is not None
        bar = figures(of_memory.budget(made))[0]
        assert isinstance(bar.chart, Stacked)
        whole = sum(piece.size for _, pieces in bar.chart.rows for piece in pieces)
        assert whole == pytest.approx(made.budget.total.best / 2**30)
        assert [row[1] for row in numbers(bar).rows if row[0] == "KV cache"] == [
            plan_words.gib(made.budget.tightest.kv_cache.best)
        ]

    def test_what_does_not_fit_says_by_how_much(self) -> None:
        bar = figures(of_memory.budget(facts("deepseek-ai/DeepSeek-V3").plan))[0]
        assert "more than the GPU has" in bar.summary

    def test_where_the_bytes_are_given_there_is_no_budget(self) -> None:
        from cgplan import Deployment, load_model, plan

        deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"))
        made = facts()._replace(plan=plan(deployment, kv_bytes=2**34))
        titles = [section.title for section in page(made).sections if section.blocks]
        assert "Memory of one GPU" not in titles
        assert "KV cache" in titles


class TestFindings:
    def test_each_once_and_the_most_pressing_first(self) -> None:
        found = findings_of(facts("deepseek-ai/DeepSeek-V3", max_num_seqs=1024).plan)
        assert len(found) == len(set(found)) > 1
        order = [("error", "warning", "info").index(one.severity) for one in found]
        assert order == sorted(order)


class TestProfile:
    def test_three_answers_and_times(self) -> None:
        found = of_profile.timings(record(), "x")
        assert found is not None
        section = of_profile.profile(found, {"two": Left(682, 3 << 30, 5, 80)})
        answers = tables(section)["What all graphs take: three answers"]
        assert [row[1] for row in answers.rows] == ["682", "553", "548"]
        assert answers.rows[0][-2:] == ("3.00", "80")
        assert answers.rows[2][-2:] == ("", "")
        picture = figures(section)[0]
        assert isinstance(picture.chart, Grouped)
        steps = record()["profile"]["ranks"][0]["steps"]
        assert list(picture.chart.names) == [str(step["num_tokens"]) for step in steps]
        eager = dict(picture.chart.series)["eager"]
        assert eager[0] is not None
        assert eager[0][0] == pytest.approx(1000 * steps[0]["eager"]["median"])
        assert "Bound by launches up to 248 tokens" in picture.summary

    @pytest.mark.parametrize(("cache", "is_said"), [((3, 3, 3), True), ((3, 4, 5), False)])
    def test_a_vllm_that_keeps_nothing_back_is_told(self, cache: tuple[int, ...], is_said: bool) -> None:
        found = of_profile.timings(record(), "x")
        assert found is not None
        names = zip(("two", "auto", "all"), (682, 553, 548), cache, strict=True)
        section = of_profile.profile(found, {name: Left(size, gib << 30, 5, 80) for name, size, gib in names})
        assert any("keeps nothing back for graphs" in str(block) for block in section.blocks) is is_said

    def test_one_that_stopped_says_so(self) -> None:
        document = record()
        document["profile"]["stopped"] = "out of memory"
        found = of_profile.timings(document, "x")
        assert found is not None
        assert any("It stopped early: out of memory" in str(block) for block in of_profile.profile(found, "").blocks)

    def test_a_record_without_times_has_none(self) -> None:
        assert of_profile.timings({"measured": {}}, "x") is None

    @pytest.mark.parametrize(
        "change", [{"ranks": 3}, {"machine": {}}, {"ranks": [{"rank": "x"}]}, {"ranks": [CAPTURES]}, {"notes": "x"}]
    )
    def test_one_of_another_form_is_refused(self, change: dict[str, Any]) -> None:
        document = record()
        document["profile"] |= change
        with pytest.raises(InputError) as found:
            of_profile.timings(document, "--profile")
        assert found.value.code == "CG731"

    @pytest.mark.parametrize("name", records() if RECORDS.exists() else [])
    def test_every_measured_record_is_read(self, name: str) -> None:
        assert of_profile.timings(records()[name], name) is not None


class TestWorkload:
    def test_steps_by_mode_and_size(self) -> None:
        section = of_workload.workload(gathered(), facts(max_num_seqs=256).plan.resolution)
        by_mode, by_size = figures(section)
        assert isinstance(by_mode.chart, Stacked)
        for _, pieces in by_mode.chart.rows:
            assert sum(piece.size for piece in pieces) == pytest.approx(100)
        assert "unknown" in [colour for colour, _ in by_mode.legend]
        assert [row[:2] for row in numbers(by_size).rows] == [("8", "120"), ("9–16", "30"), ("300", "5"), ("900", "7")]

    def test_one_is_one(self) -> None:
        from cgplan.workload.gathered import Gathered, Part
        from cgplan.workload.histogram import Batches, Range, workload_of

        steps = workload_of([Batches("decode", Range(1, 1), 1), Batches("decode", Range(2, 2), 3)], "a test")
        section = of_workload.workload(Gathered((Part("", steps, "file"),)), facts().plan.resolution)
        by_size = figures(section)[1]
        assert isinstance(by_size.chart, Stacked)
        told = [piece.told for _, pieces in by_size.chart.rows for piece in pieces]
        assert told == ["1 token, FULL: 1 step, 25.0%", "2 tokens, FULL: 3 steps, 75.0%"]

    def test_what_is_certain_has_no_third_colour(self) -> None:
        sure = gathered()
        first = sure.parts[0]
        from dataclasses import replace

        from cgplan.workload.gathered import Gathered
        from cgplan.workload.histogram import workload_of

        exact = workload_of([one for one in first.workload.batches if one.kind != "any"], "a test")
        section = of_workload.workload(Gathered((replace(first, workload=exact),)), facts().plan.resolution)
        assert [name for _, name in figures(section)[0].legend] == ["FULL", "PIECEWISE", "eager"]


class TestCaptureSizes:
    def test_the_curve_has_every_list_and_marks_two(self) -> None:
        from cgplan.report.html import of_tuning
        from cgplan.workload.tune.tune import tune

        made = facts(max_num_seqs=64).plan
        steps = gathered().together()
        assert steps is not None
        found = tune(made.deployment, steps)
        section = of_tuning.tuning(found)
        padding, memory = figures(section)
        assert isinstance(padding.chart, Curves)
        ((_, points),) = padding.chart.lines
        assert [point.x for point in points] == [len(point.sizes) for point in found.points]
        assert [point.y for point in points] == pytest.approx([100 * point.waste for point in found.points])
        assert padding.table is memory.table is None, "one table has the numbers of all curves"
        lists = tables(section)["Lists by number of sizes"]
        assert len(lists.rows) == len(found.points) + 1
        assert lists.rows[-1][-1].startswith("today")
        assert [row[2] for row in lists.rows[:-1]] == [tune_view.percent(point.waste) for point in found.points]
        assert str(section.blocks[0]).count("For a test (162 steps)") == 1
        assert "MiB" in memory.summary

    def test_other_choices_have_their_tables_and_flags(self) -> None:
        from cgplan.report.html import of_tuning
        from cgplan.report.html.blocks import Heading, Line, Table
        from cgplan.workload.histogram import Batches, Range, workload_of
        from cgplan.workload.tune.tune import tune

        made = facts(max_num_seqs=64).plan
        seen = [Batches("decode", Range(size, size), 3000) for size in (5, 30)]
        section = of_tuning.tuning(tune(made.deployment, workload_of(seen)))
        assert Heading("Other choices") in section.blocks
        names = [block.name for block in section.blocks if isinstance(block, Table)]
        assert names[-3:] == ["cudagraph_mode", "max_num_seqs", "max_cudagraph_capture_size"]
        lines = [block.text for block in section.blocks if isinstance(block, Line)]
        assert any("-cc.cudagraph_mode=FULL_DECODE_ONLY`" in text for text in lines)

    def test_why_there_is_none(self) -> None:
        from cgplan.report.html import of_tuning

        assert "no graph" in str(of_tuning.no_tuning("no graph"))
