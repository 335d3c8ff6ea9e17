"""Schedules of dynamic speculative decoding, against a dense table built entry by entry."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.resolve.dynamic_sd import ScheduleError, steps, tokens_at

Row = tuple[int, int, int]


def dense(rows: Sequence[Row], max_num_seqs: int, most: int) -> list[int]:
    """Draft tokens for the batches 1 to `max_num_seqs`: the row that holds the batch, else the row before it."""
    found = []
    for batch in range(1, max_num_seqs + 1):
        started = [row for row in sorted(rows) if row[0] <= batch]
        found.append(min(most, started[-1][2]))
    return found


@pytest.mark.parametrize(
    ("rows", "seqs", "most", "expected"),
    [
        ([(1, 8, 4), (9, 64, 1)], 64, 4, ((8, 4), (64, 1))),
        ([(1, 8, 4), (17, 32, 1)], 64, 4, ((16, 4), (64, 1))),
        ([(1, 8, 9)], 64, 4, ((64, 4),)),
        ([(9, 64, 1), (1, 8, 4)], 64, 4, ((8, 4), (64, 1))),
        ([(1, 8, 4), (9, 64, 1)], 8, 4, ((8, 4),)),
        ([(1, 8, 4), (9, 64, 1)], 4, 4, ((4, 4),)),
        ([(1, 8, 0)], 8, 4, ((8, 0),)),
        ([(1, 4, 3), (5, 8, 3)], 8, 4, ((8, 3),)),
        ([(1, 4, 6), (5, 8, 4)], 8, 4, ((8, 4),)),
    ],
)
def test_steps(rows: list[Row], seqs: int, most: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert steps(rows, seqs, most) == expected


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, 8)],
        [(1, 8, 4, 2)],
        [(0, 8, 4)],
        [(1, 0, 4)],
        [(1, -3, 4)],
        [(8, 1, 4)],
        [(1, 8, -1)],
        [(1, 8, 4), (8, 16, 2)],
        [(1, 8, 4), (1, 8, 4)],
        [(2, 8, 4)],
    ],
)
def test_invalid_schedules(rows: list[Sequence[int]]) -> None:
    with pytest.raises(ScheduleError):
        steps(rows, 64, 4)


@st.composite
def schedules(draw: st.DrawFn) -> list[Row]:
    cuts = sorted(draw(st.sets(st.integers(2, 80), max_size=6)))
    rows = []
    for first, after in zip([1, *cuts], [*cuts, 90], strict=True):
        last = draw(st.integers(first, after - 1))
        rows.append((first, last, draw(st.integers(0, 9))))
    return draw(st.permutations(rows))


@given(schedules(), st.integers(1, 100), st.integers(1, 8))
def test_steps_are_the_dense_table(rows: list[Row], max_num_seqs: int, most: int) -> None:
    found = steps(rows, max_num_seqs, most)
    assert [tokens_at(found, batch) for batch in range(1, max_num_seqs + 1)] == dense(rows, max_num_seqs, most)
    assert found[-1][0] == max_num_seqs
    assert [last for last, _ in found] == sorted({last for last, _ in found})


def test_a_batch_above_the_last_step_keeps_its_tokens() -> None:
    assert tokens_at(((8, 4), (64, 1)), 1000) == 1
