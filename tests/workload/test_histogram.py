"""Workloads: counts are added, shares sum to 1, and what contradicts itself is refused."""

from __future__ import annotations

from math import isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_helpers import FULL, decode, either, mixed, point, ran

from cgplan import InputError
from cgplan.workload.document import as_document, workload_from
from cgplan.workload.histogram import Batches, Range, Seen, Workload, difference, merge, workload_of

SIZES = st.integers(1, 5000)
COUNTS = st.integers(1, 10**6)


@st.composite
def batches(draw: st.DrawFn) -> Batches:
    kind = draw(st.sampled_from(["decode", "mixed", "any"]))
    tokens, count = draw(SIZES), draw(COUNTS)
    if kind == "decode":
        length = draw(st.integers(1, 8))
        return decode(tokens * length, count, requests=point(tokens), query_len=length, loras=draw(st.integers(0, 4)))
    if kind == "mixed":
        return mixed(tokens, count, requests=draw(st.none() | st.just(Range(1, tokens))))
    high = draw(st.none() | st.integers(tokens, 6000))
    seen = draw(st.none() | st.just(Seen(FULL, tokens + 3)))
    return Batches("any", Range(tokens, high), count, seen=seen)


WORKLOADS = st.lists(batches(), min_size=1, max_size=12).map(workload_of)


def counts(workload: Workload) -> dict[Any, float]:
    return {(b.kind, b.tokens, b.requests, b.query_len, b.loras, b.seen): b.count for b in workload.batches}


@given(WORKLOADS, WORKLOADS)
def test_merging_adds_counts(first: Workload, second: Workload) -> None:
    both = counts(merge([first, second]))
    assert set(both) == set(counts(first)) | set(counts(second))
    for key, count in both.items():
        assert count == counts(first).get(key, 0) + counts(second).get(key, 0)
    assert both == counts(merge([second, first]))


@given(WORKLOADS, WORKLOADS)
def test_the_difference_takes_back_what_merging_added(first: Workload, second: Workload) -> None:
    left = difference(merge([first, second]), first)
    assert left is not None
    assert counts(left) == counts(second)


@given(WORKLOADS)
def test_nothing_came_after_the_same(workload: Workload) -> None:
    assert difference(workload, workload) is None


@given(WORKLOADS)
def test_the_document_gives_the_same_workload_back(workload: Workload) -> None:
    read = workload_from(as_document(workload), "here")
    assert counts(read) == counts(workload)
    assert [b.tokens for b in read.batches] == [b.tokens for b in workload.batches]


@given(WORKLOADS, st.floats(0.01, 100))
def test_scaling_keeps_shares(workload: Workload, factor: float) -> None:
    assert isclose(workload.scaled(factor).steps, workload.steps * factor, rel_tol=1e-9)


def test_the_order_is_by_falling_count() -> None:
    assert [b.count for b in workload_of([decode(1, 2), decode(3, 9), decode(2, 5)]).batches] == [9, 5, 2]


def test_a_fallen_count_is_refused() -> None:
    with pytest.raises(InputError, match="8 tokens were counted 5 times, later 4"):
        difference(workload_of([decode(8, 4)]), workload_of([decode(8, 5)]))


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_what_does_not_scale(factor: float) -> None:
    with pytest.raises(InputError, match="factor"):
        workload_of([decode(8)]).scaled(factor)


def test_exact_is_one_size_and_a_kind_or_what_it_ran_in() -> None:
    assert workload_of([decode(8), mixed(9), ran(9, FULL, 16)]).exact
    assert not workload_of([either(9, 16)]).exact
    assert not workload_of([either(9, 9)]).exact


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "prefill"}, "kind"),
        ({"tokens": Range(0, 4)}, "tokens"),
        ({"tokens": Range(5, 4)}, "tokens"),
        ({"count": 0}, "count"),
        ({"count": float("nan")}, "count"),
        ({"loras": -1}, "loras"),
        ({"kind": "mixed", "query_len": 2}, "query_len"),
        ({"requests": point(9)}, "9 requests have no 8 tokens"),
        ({"requests": point(3)}, "3 decode requests are not 8 tokens"),
        ({"requests": point(4), "query_len": 3}, "4 decode requests of 3 tokens are not 8 tokens"),
        ({"seen": Seen(FULL, 7)}, "padded"),
    ],
)
def test_what_contradicts_itself(fields: dict[str, Any], said: str) -> None:
    whole: dict[str, Any] = {"kind": "decode", "tokens": point(8), "count": 1, **fields}
    with pytest.raises(InputError, match=said):
        Batches(**whole)


def test_no_batch_is_no_workload() -> None:
    with pytest.raises(InputError):
        workload_of([])
