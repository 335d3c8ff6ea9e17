"""The caching allocator: segments, best fit, splits and merges."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cgplan.memory.graphs.allocator import Block, Pool

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "reserved"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
        (256 * MIB, 256 * MIB),
    ],
)
def test_a_segment_is_as_large_as_torch_makes_it(size: int, reserved: int) -> None:
    pool = Pool()
    pool.take(size)
    assert pool.reserved == reserved


def test_the_smallest_block_that_fits_is_taken() -> None:
    pool = Pool()
    large, medium = pool.take(100 * MIB), pool.take(30 * MIB)
    pool.give(large)
    pool.give(medium)
    pool.take(28 * MIB)
    pool.take(100 * MIB)
    assert pool.reserved == 130 * MIB


def test_a_large_block_that_is_split_and_in_use_is_not_there_for_its_like() -> None:
    pool = Pool()
    first = pool.take(256 * MIB)
    pool.give(first)
    kept = pool.take(4 * MIB)
    pool.take(256 * MIB)
    assert pool.reserved == 512 * MIB
    pool.give(kept)
    pool.take(256 * MIB)
    assert pool.reserved == 512 * MIB, "the halves joined again"


def test_less_than_a_mib_is_not_split_off_a_large_block() -> None:
    pool = Pool()
    first = pool.take(12 * MIB)
    pool.give(first)
    assert pool.take(11 * MIB).size == 12 * MIB
    assert Pool().take(5 * MIB).size == 5 * MIB


SIZES = st.integers(1, 40 * MIB)


@given(st.lists(st.tuples(SIZES, st.integers(0, 5)), max_size=30))
def test_what_is_reserved_holds_what_is_in_use_and_never_shrinks(steps: list[tuple[int, int]]) -> None:
    pool, alive, before = Pool(), list[Block](), 0
    for size, victim in steps:
        alive.append(pool.take(size))
        assert alive[-1].size >= size
        assert sum(block.size for block in alive) <= pool.reserved
        assert pool.reserved >= before
        before = pool.reserved
        if victim < len(alive) - 1:
            pool.give(alive.pop(victim))


@given(st.lists(SIZES, min_size=1, max_size=20))
def test_the_same_buffers_again_find_room_where_everything_was_given_back(sizes: list[int]) -> None:
    pool = Pool()
    for block in [pool.take(size) for size in sizes]:
        pool.give(block)
    before = pool.reserved
    for size in sizes:
        pool.give(pool.take(size))
    assert pool.reserved == before


@given(
    st.lists(st.tuples(st.integers(1, 40 * MIB), st.booleans()), max_size=20),
    st.lists(st.integers(1, 40 * MIB), max_size=8),
)
def test_a_pool_made_of_a_state_goes_on_as_the_pool_itself(before: list[tuple[int, bool]], after: list[int]) -> None:
    pool = Pool()
    for block, is_kept in [(pool.take(size), is_kept) for size, is_kept in before]:
        if not is_kept:
            pool.give(block)
    again = Pool(pool.state)
    assert again.state == pool.state
    assert again.reserved == pool.reserved
    for one in (pool, again):
        blocks = [one.take(size) for size in after]
        for block in blocks[::2]:
            one.give(block)
    assert again.state == pool.state
    assert again.reserved == pool.reserved
