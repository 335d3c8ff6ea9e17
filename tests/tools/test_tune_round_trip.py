"""tools/tune_round_trip: what the page says of predicted and measured gains."""

from __future__ import annotations

import pytest
import tune_round_trip
from conftest import ROOT


@pytest.fixture(scope="module")
def gains() -> dict[int, tune_round_trip.Gain]:
    return {one.requests: one for one in tune_round_trip.gains()}


def test_the_sign_is_right_at_the_cliff(gains: dict[int, tune_round_trip.Gain]) -> None:
    assert gains[96].predicted == gains[96].measured == 0
    for requests in (98, 100):
        assert gains[requests].mode == "PIECEWISE"
        assert gains[requests].predicted > 0
        assert gains[requests].measured > 0


def test_the_size_is_right_at_one_and_half_at_the_other(gains: dict[int, tune_round_trip.Gain]) -> None:
    assert gains[98].predicted == pytest.approx(gains[98].measured, abs=0.01)
    assert 0.4 < gains[100].predicted / gains[100].measured < 0.6


def test_the_page_has_these_tables(capsys: pytest.CaptureFixture[str]) -> None:
    tune_round_trip.main()
    page = (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert table in page
