"""Padding: the smallest captured size that is not below the batch."""

from __future__ import annotations

import pytest
from resolve_helpers import V1, outcome

from cgplan import CUDAGraphMode
from cgplan.resolve.padding import padded, round_up, table

SIZES = [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("tokens", "size"), [(0, 0), (-1, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16), (17, None)]
)
def test_padded(tokens: int, size: int | None) -> None:
    assert padded(tokens, SIZES) == size


def test_nothing_captured_pads_nothing() -> None:
    assert padded(1, []) is None
    assert table([]) == []


def test_the_table_covers_every_batch_once() -> None:
    rows = table(SIZES)
    assert rows == [(1, 1, 1), (2, 2, 2), (3, 4, 4), (5, 8, 8), (9, 16, 16)]
    assert [n for first, last, _ in rows for n in range(first, last + 1)] == list(range(1, 17))


@pytest.mark.parametrize(("value", "multiple", "up"), [(1, 4, 4), (4, 4, 4), (5, 4, 8), (0, 4, 0), (7, 1, 7)])
def test_round_up(value: int, multiple: int, up: int) -> None:
    assert round_up(value, multiple) == up


@pytest.mark.parametrize("env", [{}, V1], ids=["V2", "V1"])
@pytest.mark.parametrize(
    ("row", "max_num_seqs", "batch", "size", "waste"),
    [
        ("C1", 64, 5, 8, 37.50),
        ("C2", 256, 500, 512, 2.34),
        ("C3", 256, 256, 256, 0.0),
        ("C5", 256, 257, 272, 5.51),
        ("C6", 256, 9, 16, 43.75),
    ],
)
def test_c1_to_c6_waste(env: dict[str, str], row: str, max_num_seqs: int, batch: int, size: int, waste: float) -> None:
    found = outcome(max_num_seqs=max_num_seqs, env=env)
    answer = found.dispatch(batch, has_prefill=True)
    assert answer.num_tokens == size == found.padded(batch), row
    assert round(100 * answer.waste(batch), 2) == waste
    assert answer.waste(batch) == (size - batch) / size


@pytest.mark.parametrize("env", [{}, V1], ids=["V2", "V1"])
def test_c4_f11_a_batch_above_the_largest_size_runs_eager_and_unpadded(env: dict[str, str]) -> None:
    found = outcome(max_num_seqs=1024, env=env)
    answer = found.dispatch(513)
    assert (answer.mode, answer.num_tokens, answer.graph) == (CUDAGraphMode.NONE, 513, None)
    assert answer.waste(513) == 0.0
    assert found.padded(513) is None
    assert found.dispatch(512).mode is CUDAGraphMode.FULL


def test_c7_mean_waste_of_the_51_sizes() -> None:
    found = outcome(max_num_seqs=256)
    wastes = [found.dispatch(n, has_prefill=True).waste(n) for n in range(1, 513)]
    assert round(100 * sum(wastes) / len(wastes), 2) == 3.28
    assert max(wastes) == found.dispatch(9, has_prefill=True).waste(9)


def test_waste_of_nothing_is_nothing() -> None:
    assert outcome().dispatch(0).waste(0) == 0.0
