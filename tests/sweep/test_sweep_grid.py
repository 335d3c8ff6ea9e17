"""A grid counts what a product counts, its numbers and positions say the same, and keys depend on the options alone."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from sweep_helpers import numbers_of

from cgplan.sweep.grid import Axis, Grid, Value

lengths = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[int], list[dict[int, frozenset[int]]]]:
    found = draw(lengths)
    axes = st.integers(0, len(found) - 1)

    def meant(axis: int) -> st.SearchStrategy[frozenset[int]]:
        return st.frozensets(st.integers(0, found[axis] - 1), min_size=1)

    chosen = draw(st.lists(st.frozensets(axes, min_size=1, max_size=3), max_size=4))
    return found, [{axis: draw(meant(axis)) for axis in sorted(some)} for some in chosen]


@given(grids())
def test_it_has_the_product_less_what_is_excluded(case: tuple[list[int], list[dict[int, frozenset[int]]]]) -> None:
    sizes, excludes = case
    expected = [
        at
        for at in product(*map(range, sizes))
        if not any(all(at[axis] in meant for axis, meant in one.items()) for one in excludes)
    ]
    grid = numbers_of(sizes, excludes)
    assert grid.count == len(expected)
    assert [grid.positions(number) for number in grid.numbers()] == expected


@given(lengths, st.randoms(use_true_random=False))
def test_the_order_of_the_options_changes_no_key(sizes: list[int], random: object) -> None:
    grid = numbers_of(sizes, [])
    order = list(range(len(sizes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    other = Grid(tuple(grid.axes[at] for at in order))
    for number in grid.numbers():
        at = grid.positions(number)
        assert grid.key(at) == other.key(tuple(at[axis] for axis in order))


@given(lengths)
def test_no_two_deployments_share_a_key(sizes: list[int]) -> None:
    grid = numbers_of(sizes, [])
    assert len({grid.key(grid.positions(number)) for number in grid.numbers()}) == grid.size


def test_an_option_that_is_not_given_is_as_if_it_were_not_in_the_grid() -> None:
    seqs = Axis("max_num_seqs", (Value(8, "8", 8),))
    dtype = Axis("dtype", (Value(None, "", None, False), Value("float16", '"float16"', "float16")))
    alone, both = Grid((seqs,)), Grid((seqs, dtype))
    assert both.key((0, 0)) == alone.key((0,))
    assert both.key((0, 1)) != alone.key((0,))


def test_another_version_of_cgplan_has_other_keys() -> None:
    seqs = Axis("max_num_seqs", (Value(8, "8", 8),))
    assert Grid((seqs,), version="1").key((0,)) != Grid((seqs,), version="2").key((0,))
