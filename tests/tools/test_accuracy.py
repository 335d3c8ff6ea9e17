"""tools/accuracy: every KV number is reached or explained, and the page is what would be written."""

from __future__ import annotations

import sys

import pytest
from conftest import ROOT

FOLDER = ROOT / "tools" / "accuracy"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("runs", "kv_cache", "components", "page"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_kv_numbers_given_the_bytes() -> None:
    from kv_cache import check  # type: ignore[import-not-found]
    from page import reason  # type: ignore[import-not-found]
    from runs import runs  # type: ignore[import-not-found]

    found, left_out = runs("kv_runs.jsonl")
    answers = [check(run) for run in found]
    assert len(answers) >= 69
    assert len(left_out) <= 2
    problems = [answer for answer in answers if answer.problem]
    assert len(problems) <= 2
    assert all(reason(answer) != "not explained" for answer in problems)


def test_a_wrong_number_is_seen() -> None:
    from dataclasses import replace

    from kv_cache import check
    from runs import runs

    run = next(run for run in runs("kv_runs.jsonl")[0] if "tokens" in run.record)
    assert check(run).problem is None
    assert check(replace(run, record={**run.record, "tokens": run.record["tokens"] + 16})).problem


def test_the_pages_limits() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert "never edit it by hand" in page
    for name in ("weights", "KV cache, weights of the row", "CUDA graphs, what capture takes"):
        assert f"| {name} |" in page
