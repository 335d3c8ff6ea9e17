"""The screen of `cgplan sweep`: every row says which of the grid's options it has, and how sure it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest

from cgplan.report.console import console
from cgplan.report.sweep_text import Summary
from cgplan.sweep.evaluate import Evaluator
from cgplan.sweep.grid_file import grid_of


def screen(document: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, width: int = 110) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    found = grid_of(document)
    summary = Summary(found)
    evaluator = Evaluator(found)
    for number in found.numbers():
        summary.add(evaluator.record(number))
    out = console()
    out.file = StringIO()
    out.width = width
    summary.show(out)
    return out.file.getvalue()


BIG = {"model": "Qwen/Qwen3-32B", "gpu": "l4"}
SMALL = {"model": "Qwen/Qwen3-8B", "gpu": "h100"}


def test_an_option_that_all_rows_share_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen({"base": {**BIG, "gpu_memory_utilization": 0.89}, "grid": {"tp": [2, 4, 8]}}, monkeypatch)
    assert "All of them: tp=8\n" in shown
    assert "[base]" not in shown


def test_an_option_that_a_row_is_not_given_is_default(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen({"base": SMALL, "grid": {"cudagraph_mode": ["default", "NONE"]}}, monkeypatch)
    assert "mode=default" in shown
    assert "mode=NONE" in shown
    assert "All of them" not in shown


def test_what_may_start_is_marked_and_what_does_not_by_the_best_estimate_is_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = screen({"base": BIG, "grid": {"tp": [2, 4, 8]}}, monkeypatch)
    assert "1 does not start by the best estimate" in shown
    rows = [line for line in shown.splitlines() if re.match(r" +[0-9]+  ", line)]
    assert [row.split()[0] for row in rows] == ["8"], "4 GPUs are not enough by the best estimate"
    assert all("may start (CG504)" in row for row in rows)
    assert "may start: it does by the best estimate" in shown


def test_what_surely_starts_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen({"base": SMALL, "grid": {"max_num_seqs": [16, 64]}}, monkeypatch)
    assert shown.startswith("2 deployments: 2 start\n")
    assert "may start" not in shown


def test_one_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen({"base": SMALL, "grid": {"tp": [1, 3]}}, monkeypatch)
    assert shown.startswith("2 deployments: 1 starts, 1 does not start\n")


@pytest.mark.parametrize(("width", "apart"), [(40, True), (80, True), (110, False)])
def test_no_name_of_an_option_is_broken(monkeypatch: pytest.MonkeyPatch, width: int, apart: bool) -> None:
    grid = {"env.VLLM_USE_V2_MODEL_RUNNER": ["0", "1"], "max_num_seqs": [16, 64]}
    shown = screen({"base": SMALL, "grid": grid}, monkeypatch, width)
    lines = shown.splitlines()
    assert any("VLLM_USE_V2_MODEL_RUNNER=" in line for line in lines)
    assert any(line.startswith("GPUs ") for line in lines) != apart


@pytest.mark.parametrize("width", [40, 60, 80, 110])
def test_the_options_are_there_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = screen(
        {"base": SMALL, "grid": {"max_num_seqs": [16, 64], "max_model_len": [4096, 8192]}}, monkeypatch, width
    )
    for option in ("seqs=16", "seqs=64"):
        assert option in shown
    assert "\u2026" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    assert len(shown.splitlines()) < 30
