"""From a few captures to all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.memory.estimates import MIB
from cgplan.memory.profile.descriptors import Descriptor
from cgplan.memory.profile.extrapolate import Captured, from_few, two_sample, whole
from cgplan.memory.profile.sampling import chosen
from cgplan.vocabulary import CUDAGraphMode

PIECEWISE, FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL
SIZES = [*range(512, 256, -16), *range(256, 0, -8), 4, 2, 1]
EVERY = tuple(Descriptor(mode, size, size) for mode in (PIECEWISE, FULL) for size in SIZES)
GRAIN = 2 * MIB


def captures(
    graphs: tuple[Descriptor, ...], per_piecewise: int, per_full: int, first: int, offset: int = 0
) -> list[Captured]:
    """A driver that hands out memory by 2 MiB: what is seen of each capture is a step of a running sum."""
    found, running, seen = [], offset, offset // GRAIN * GRAIN
    for number, one in enumerate(graphs):
        running += per_piecewise if one.mode is PIECEWISE else per_full
        now = -(-running // GRAIN) * GRAIN
        pool = first if number == 0 else 0
        graphs_of = 33 if one.mode is PIECEWISE else 1
        found.append(Captured(one, now - seen + pool, pool, 0.01, graphs_of, 600))
        seen = now
    return found


def test_vllms_rule_over_two_samples() -> None:
    """Of a real start (0.25.1): the first captures of a mode share the pool, so the larger counts once."""
    few = chosen(EVERY, "two")
    taken = {PIECEWISE: (138, 6), FULL: (260, 6)}
    seen = {PIECEWISE: iter(taken[PIECEWISE]), FULL: iter(taken[FULL])}
    captured = [Captured(one, next(seen[one.mode]) * MIB, 0, 0.0) for one in few]
    count = len(SIZES)
    assert two_sample(captured, EVERY) == (260 + 6 * (count - 1) + 6 * (count - 1)) * MIB


def test_a_second_sample_of_nothing_counts_one_mib() -> None:
    captured = [
        Captured(one, size * MIB, 0, 0.0) for one, size in zip(chosen(EVERY, "two"), (100, 0, 2, 0), strict=True)
    ]
    assert two_sample(captured, EVERY) == (100 + 2 * (len(SIZES) - 1)) * MIB


@given(
    st.integers(1 * MIB, 8 * MIB), st.integers(MIB // 4, 4 * MIB), st.integers(0, 600 * MIB), st.integers(0, GRAIN - 1)
)
def test_a_quarter_of_the_graphs_tells_the_whole_within_5_percent_or_16_mib(
    per_piecewise: int, per_full: int, first: int, offset: int
) -> None:
    truth = whole(captures(EVERY, per_piecewise, per_full, first, offset))
    few = chosen(EVERY, "auto")
    found = from_few(captures(few, per_piecewise, per_full, first, offset), EVERY)
    assert abs(found.best - truth) <= max(0.05 * truth, 16 * MIB)
    assert found.low <= truth <= found.high


def test_all_of_them_need_no_guess() -> None:
    captured = captures(EVERY, 4 * MIB, MIB, 100 * MIB)
    found = from_few(captured, EVERY, setup_bytes=3 * MIB)
    assert found.is_exact
    assert found.best == whole(captured, 3 * MIB)


def test_nodes_weigh() -> None:
    """A graph of twice the nodes takes twice the driver's memory; small sizes have more kernels."""
    every = tuple(Descriptor(FULL, size, size) for size in (8, 4, 2, 1))
    nodes = {8: 100, 4: 100, 2: 200, 1: 200}
    captured = [Captured(one, nodes[one.num_tokens] * MIB, 0, 0.0, 0, nodes[one.num_tokens]) for one in every]
    found = from_few([captured[0], captured[1], captured[3]], every)
    assert found.best == pytest.approx(600 * MIB, rel=0.1)


def test_the_pool_is_counted_once() -> None:
    """What the few grow the pool by is what all do: it is not scaled with their number."""
    few = chosen(EVERY, "auto")
    found = from_few(captures(few, 0, 0, 500 * MIB), EVERY)
    assert found.best == 500 * MIB
