"""What graphs gain, from measured steps."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.memory.profile.speed import StepTimes, Times, cost_table, launch_bound_up_to, times_of


def times(seconds: float) -> Times:
    return Times(seconds, seconds, seconds, 11)


def step(tokens: int, eager: float, full: float | None, piecewise: float | None = None) -> StepTimes:
    graphs = [None if one is None else times(one) for one in (full, piecewise)]
    return StepTimes(tokens, times(eager), times(0.9 * eager), *graphs, 643)


def test_median_and_quartiles() -> None:
    assert times_of([5.0, 1.0, 2.0, 4.0, 3.0]) == Times(3.0, 2.0, 4.0, 5)
    with pytest.raises(ValueError, match="no repeats"):
        times_of([])


def test_an_8b_decoder_is_launch_bound_while_the_gpu_waits() -> None:
    """Steps of an H200: eager 13 ms whatever the batch, the graph grows with it."""
    steps = [step(1, 0.0132, 0.0052), step(256, 0.0132, 0.0091), step(512, 0.0167, 0.0162)]
    assert launch_bound_up_to(steps) == 256
    assert steps[0].gain("full") == pytest.approx(2.54, abs=0.01)
    assert steps[0].launch_seconds == pytest.approx(0.9 * 0.0132 / 643)


def test_without_a_full_graph_the_piecewise_one_decides() -> None:
    assert step(512, 0.02, None, 0.01).is_launch_bound is True
    assert StepTimes(1, times(1.0)).is_launch_bound is None
    assert launch_bound_up_to([step(1, 0.01, 0.01)]) is None


@given(st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=30))
def test_costs_never_fall_with_the_size_and_keep_their_sum(values: list[float]) -> None:
    steps = [step(number + 1, 1.0, value) for number, value in enumerate(values)]
    found = list(cost_table(steps).values())
    assert len(found) == len(values)
    assert all(left <= right * (1 + 1e-12) for left, right in pairwise(found))
    assert sum(found) == pytest.approx(sum(values))


def test_costs_that_rise_already_stay() -> None:
    steps = [step(8, 1.0, 0.5), step(1, 1.0, 0.25), step(64, 1.0, 0.75)]
    assert cost_table(steps) == {1: 0.25, 8: 0.5, 64: 0.75}
