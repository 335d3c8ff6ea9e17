"""The screen, the Markdown and the document of steps."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from cgplan import CompilationOptions, Deployment, Resolution, resolve
from cgplan.report.console import THEME
from cgplan.report.workload_markdown import section
from cgplan.report.workload_text import show
from cgplan.workload.document_schema import StepsPart, json_schema
from cgplan.workload.gathered import Gathered, joined
from cgplan.workload.replay.replay_document import as_document
from cgplan.workload.sources.sources import read_sources
from cgplan.workload.sources.tables import read_tables

METRICS = Path(__file__).parents[2] / "fixtures" / "metrics"
RESOLUTION = resolve(
    Deployment(
        attention_support="ALWAYS",
        max_num_seqs=64,
        compilation_config=CompilationOptions(cudagraph_capture_sizes=[1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]),
    )
)


def tables() -> Gathered:
    return read_tables((METRICS / "tables-two-engines.log").read_text().split("\n"))


def buckets() -> Gathered:
    return read_sources([str(METRICS / "moment-1.txt")])


def screen(gathered: Gathered, resolution: Resolution | None = RESOLUTION, width: int = 100) -> str:
    file = io.StringIO()
    show(gathered, resolution, Console(file=file, width=width, theme=THEME, highlight=False, emoji=False, markup=False))
    return file.getvalue()


def test_steps_by_mode_as_the_server_saw_them() -> None:
    text = screen(tables())
    assert "2 engines · 793 steps · 3 tables of --cudagraph-metrics" in text
    assert "93.3%  740" in text
    assert "0.6%  5" in text
    assert "6.1%  48" in text
    assert "as the server saw it" in text
    assert "2,111 tokens of padding, 6.2% of all that is computed." in text


def test_by_kind_by_engine_and_what_missed() -> None:
    text = screen(tables(), width=120)
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["decode"][1:3] == ["740", "100.0%"]
    assert rows["engine 1"][2] == "331"
    assert "65 (35), 540 (9), 1024 (4)" in text
    assert "above the largest captured size, 64 tokens (CG701)" in text


def test_without_a_deployment_only_what_was_seen() -> None:
    text = screen(tables(), None)
    assert "93.3%  740" in text
    assert "decode" not in text
    assert "CG" not in text


def test_buckets_show_bounds_and_no_mode_that_is_not_known() -> None:
    text = screen(buckets())
    assert "0.0–95.2%" in text
    assert "CG716" in text
    assert "engine 0: at most 5 of 62 steps" in text.replace("Engine", "engine")
    bare = screen(buckets(), None)
    assert "FULL" not in bare
    assert "9–16" in bare


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("made", [tables, buckets])
def test_no_line_is_wider_than_the_screen(width: int, made: object) -> None:
    for resolution in (RESOLUTION, None):
        assert max(map(len, screen(made(), resolution, width).splitlines())) <= width  # type: ignore[operator]


def test_what_was_not_recognised_is_said() -> None:
    found = read_tables(["| Unpadded Tokens | Padded Tokens | Num Paddings | Mode | Count |"])
    text = " ".join(screen(found).split())
    assert "1 line of tables was not recognised" in text
    assert "No step was counted." in text


def test_markdown() -> None:
    text = section(tables(), RESOLUTION)
    assert text.startswith("## Steps\n")
    assert "| FULL | 740 | 93.3% |" in text
    assert "### Missed the graph wanted for them" in text
    heads = [line for line in text.splitlines() if line.startswith("|--")]
    assert len(heads) == 4


@pytest.mark.parametrize("resolution", [RESOLUTION, None])
@pytest.mark.parametrize("made", [tables, buckets])
def test_the_document_has_its_published_form(resolution: Resolution | None, made: object) -> None:
    document = as_document(made(), resolution)  # type: ignore[operator]
    StepsPart.model_validate(json.loads(json.dumps(document, allow_nan=False)))
    assert (document["resolved"] is None) is (resolution is None)


def test_the_document_keeps_engines_apart() -> None:
    document = as_document(tables(), RESOLUTION)
    assert [(one["name"], one["steps"], one["tables"]) for one in document["engines"]] == [
        ("engine 0", 462, 2),
        ("engine 1", 331, 1),
    ]
    assert document["resolved"]["shares"]["FULL"] == {"low": 740 / 793, "high": 740 / 793}
    assert document["seen"] == {key: document["resolved"][key] for key in document["seen"]}


def test_sources_that_may_count_the_same_steps_are_not_added() -> None:
    both = joined(buckets(), tables())
    document = as_document(both, RESOLUTION)
    StepsPart.model_validate(document)
    assert document["workload"]["steps"] == 793
    assert [one["workload"]["steps"] for one in document["other_sources"]] == [186]
    text = screen(both)
    assert text.count("Steps\n") == 2
    assert text.index("793 steps") < text.index("186 steps")
    assert section(both, RESOLUTION).count("## Steps\n") == 2


def test_the_schema_is_that_of_a_workload() -> None:
    assert "batches" in json_schema()["required"]
