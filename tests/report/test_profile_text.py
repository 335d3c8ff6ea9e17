"""The screen of a profile, from records of an H200."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cgplan.report.profile_text import show_profile

RECORDS = Path(__file__).parents[2] / "docs" / "measurements" / "2026-11-30-h200" / "records.jsonl.gz"


def record(name: str) -> dict[str, Any]:
    with gzip.open(RECORDS, "rt") as lines:
        found = next(one for one in map(json.loads, lines) if one["name"] == name)
    for rank in found["profile"]["ranks"]:  # the records are older than this key
        rank.setdefault("pool_bytes", sum(one["pool_bytes"] for one in rank["captures"]))
    return found  # type: ignore[no-any-return]


def shown(capsys: pytest.CaptureFixture[str], made: dict[str, Any], worth: Any = "no plan") -> str:
    show_profile(made, "Llama on H200", worth)
    return " ".join(capsys.readouterr().out.split())


def test_the_answers_stand_beside_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, record("vllm-Llama-3.1-8B-Instruct-256-v1-all"))
    assert "all graphs captured 516 MiB" in text
    assert "vLLM estimated 368 MiB" in text
    assert "vLLM's capture took 516 MiB" in text
    assert "Bound by launches up to 256 tokens" in text
    assert "it is not planned: no plan" in text.lower()


def test_the_gap_to_vllm_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, record("synthetic-Llama-3.1-8B-Instruct-1024-auto"))
    assert "from a quarter of the graphs 594 MiB (563 to 626)" in text
    assert "about 456 MiB more in vLLM's own graphs" in text


def test_what_stopped_early_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    made = record("synthetic-Llama-3.1-8B-Instruct-1024-auto")
    made["profile"]["stopped"] = "interrupted"
    assert "It stopped early: interrupted" in shown(capsys, made)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_fit_the_screen(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_profile(record("synthetic-Llama-3.1-8B-Instruct-256-all"), "Llama on H200", {})
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_the_time_to_make_graphs_runnable_stands_apart_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    made = record("synthetic-Llama-3.1-8B-Instruct-1024-auto")
    captures = made["profile"]["ranks"][0]["captures"]
    for one in captures:
        one.update(seconds=0.5, instantiate_seconds=0.125)
    assert f"captures {len(captures) / 2:.2f} s ({len(captures) / 8:.2f} to instantiate)" in shown(capsys, made)
    captures[0]["instantiate_seconds"] = None  # vLLM captures and instantiates in one
    assert f"captures {len(captures) / 2:.2f} s;" in shown(capsys, made)


def test_sizes_that_were_timed_without_a_graph_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    made = record("synthetic-Llama-3.1-8B-Instruct-1024-auto")
    steps = made["profile"]["ranks"][0]["steps"]
    assert "no graph of that size" not in shown(capsys, made)
    steps[1].update(num_tokens=100, full=None, piecewise=None)
    made["profile"]["launch_bound_up_to"] = 1
    text = shown(capsys, made)
    assert "no graph of that size was captured (--sample all has all): 100" in text
    assert "Bound by launches up to 1 token:" in text
