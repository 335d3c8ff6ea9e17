"""The page's table of capture seconds is what the tool prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import capture_times

PAGE = Path(__file__).parents[2] / "docs" / "tune.md"


def test_the_page_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    capture_times.main()
    table = capsys.readouterr().out.partition("\n\n")[0].strip()
    assert "| all | 42 |" in table
    assert table in PAGE.read_text(encoding="utf-8")


def test_next_to_all_starts_are_within_bounds() -> None:
    found, _ = capture_times.runs()
    outside = [one for one in found if not one.is_inside]
    assert len(found) >= 42
    assert len(outside) <= 1
