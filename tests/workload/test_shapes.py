"""Named shapes of traffic."""

from __future__ import annotations

from math import isclose

import pytest

from cgplan import InputError
from cgplan.workload.histogram import Workload
from cgplan.workload.shapes import SHAPES, shape


def quantile(workload: Workload, share: float) -> int:
    below = 0.0
    for item in sorted(workload.batches, key=lambda one: one.tokens.low):
        below += item.count
        if below >= share:
            return item.tokens.low
    raise AssertionError


@pytest.mark.parametrize("name", SHAPES)
def test_shares_sum_to_one_within_the_limit(name: str) -> None:
    made = shape(name, max_num_seqs=64)
    assert isclose(made.steps, 1)
    assert all(1 <= item.tokens.low <= 64 and item.kind == "decode" for item in made.batches)


@pytest.mark.parametrize(
    ("name", "share", "requests"),
    [("steady", 0.5, 37), ("steady", 0.84, 43), ("bursty", 0.5, 6), ("uniform", 0.25, 64), ("bimodal", 0.25, 3)],
)
def test_they_are_what_they_say(name: str, share: float, requests: int) -> None:
    assert abs(quantile(shape(name, max_num_seqs=1024), share) - requests) <= 1


def test_low_is_what_it_says() -> None:
    counts = {item.tokens.low: item.count for item in shape("low", max_num_seqs=1024).batches}
    assert counts[1] > 0.5
    assert 0.15 < counts[2] < 0.24
    assert sum(share for requests, share in counts.items() if requests > 5) < 0.01


def test_more_requests_than_allowed_are_the_most_allowed() -> None:
    made = shape("uniform", max_num_seqs=64)
    full = next(item for item in made.batches if item.tokens.low == 64)
    assert isclose(full.count, 193 / 256)


def test_requests_of_several_tokens() -> None:
    made = shape("low", max_num_seqs=8, query_len=3)
    assert {item.tokens.low for item in made.batches} == {3, 6, 9, 12, 15, 18, 21, 24}


def test_an_unknown_shape_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        shape("stedy", max_num_seqs=8)
    assert (caught.value.code, caught.value.fix) == ("CG902", "did you mean steady?")
