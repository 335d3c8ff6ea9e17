"""Extremes of a ratio of sums, against every choice of terms."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_helpers import decode, either

from cgplan import Deployment, gpu, load_model, tune
from cgplan.workload.histogram import workload_of
from cgplan.workload.ratio import extreme_ratio
from cgplan.workload.sizes.robust import of_ranges

TERM = st.tuples(st.integers(0, 40), st.integers(1, 40)).map(lambda pair: (float(pair[0]), float(pair[1])))
TERMS = st.lists(st.one_of(TERM, st.just((0.0, 0.0))), min_size=1, max_size=4)
GIVEN = st.lists(st.tuples(st.integers(1, 9), TERMS), min_size=1, max_size=4)


@given(given=GIVEN)
@settings(max_examples=300, deadline=None)
def test_no_choice_of_terms_goes_further(given: list[tuple[int, list[tuple[float, float]]]]) -> None:
    ratios = []
    for chosen in product(*(terms for _, terms in given)):
        below = sum(weight * one[1] for (weight, _), one in zip(given, chosen, strict=True))
        if below:
            above = sum(weight * one[0] for (weight, _), one in zip(given, chosen, strict=True))
            ratios.append(above / below)
    assert extreme_ratio(given, min) == pytest.approx(min(ratios, default=0.0))
    assert extreme_ratio(given, max) == pytest.approx(max(ratios, default=0.0))
    assert of_ranges(given) == pytest.approx((1 - max(ratios, default=0.0), 1 - min(ratios, default=0.0)))


def deployment(**fields: object) -> Deployment:
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), max_num_seqs=256, **fields)


def test_the_bounds_of_buckets_hold_wherever_the_steps_are() -> None:
    buckets = [either(9, 16, 300), either(17, 32, 500), either(257, 512, 50)]
    found = tune(deployment(), workload_of(buckets))
    assert found.buckets is not None
    gains = []
    for sizes in product(range(9, 17), (17, 20, 24, 25, 32), (257, 300, 348, 349, 512)):
        today, chosen = (
            sum(item.count * (resolution.padded(size) or 0) for size, item in zip(sizes, buckets, strict=True))
            for resolution in (found.resolution, found.tuned)
        )
        gains.append(1 - chosen / today)
    assert found.buckets.low <= min(gains) + 1e-12
    assert found.buckets.high >= max(gains) - 1e-12
    # The steps move the cost of today as well: the mean of today's cost is no denominator of a bound.
    assert found.buckets.low < found.gain < found.buckets.high


def test_steps_of_a_bucket_may_all_be_above_the_largest_size() -> None:
    # A list up to 300 of 257 to 512: where all of these are above it, the other bucket alone is in the figures.
    asked = deployment(max_cudagraph_capture_size=304)
    found = tune(asked, workload_of([decode(33, 100), either(257, 512, 100)]), spread=0.0)
    assert found.buckets is not None
    assert found.buckets.high >= 1 - 33 / 40 - 1e-9
