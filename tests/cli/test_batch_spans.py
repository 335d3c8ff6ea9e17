"""`--batch`: spans of sizes, and padding over the step and over the batch."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cgplan.cli.app import run
from cgplan.cli.values import MOST_IN_SPAN, batches
from cgplan.errors import InputError
from cgplan.resolve.padding import over_batch

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "110")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["1-4"], (1, 2, 3, 4)),
        (["7-7"], (7,)),
        (["11-12,1-2"], (11, 12, 1, 2)),
        (["1-3 2,9"], (1, 2, 3, 9)),
        (["[1-2]", "5"], (1, 2, 5)),
        (["1,2,4"], (1, 2, 4)),
    ],
)
def test_a_span_is_each_of_its_sizes(texts: list[str], sizes: tuple[int, ...]) -> None:
    assert batches(texts) == sizes


@pytest.mark.parametrize("text", ["9-7", f"1-{MOST_IN_SPAN + 1}", "0-2", "1-", "-3", "1-2-3", "1,,2"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(InputError) as caught:
        batches([text])
    assert caught.value.where == "--batch"


def test_padding_in_both_ways(cgplan: Run) -> None:
    status, out, err = cgplan("resolve", "--batch", "9", "--table", "--json")
    assert (status, err) == (0, "")
    decode = json.loads(out)["batches"][0]
    assert (decode["waste"], decode["over_batch"]) == (0.4375, pytest.approx(7 / 9, abs=1e-6))
    shown = cgplan("resolve", "--batch", "8-9", "--table")[1]
    row = next(line for line in shown.splitlines() if line.startswith("9 decode requests"))
    assert ("43.75%" in row, "77.78%" in row) == (True, True)
    assert "over the batch" in shown


def test_a_batch_of_a_size_of_its_own_has_none(cgplan: Run) -> None:
    decode = json.loads(cgplan("resolve", "--batch", "16", "--json")[1])["batches"][0]
    assert (decode["waste"], decode["over_batch"]) == (0, 0)
    assert over_batch(0, 0) == 0


def test_a_release_in_short_with_a_variable(cgplan: Run) -> None:
    status, _, err = cgplan("resolve", "--vllm", "0.27", "--env", "VLLM_USE_V2_MODEL_RUNNER=0")
    assert (status, err) == (0, "")
