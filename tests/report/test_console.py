"""How wide a screen is taken to be."""

from __future__ import annotations

import pytest

from cgplan.report.console import NARROWEST, USUAL, WIDEST, console


@pytest.mark.parametrize(("columns", "width"), [("0", USUAL), ("7", NARROWEST), ("100", 100), ("400", WIDEST)])
def test_the_width_is_between_what_can_be_read(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width
