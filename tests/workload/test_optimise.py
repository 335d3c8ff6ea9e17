"""The best sizes: against all sets of sizes, and the laws that they have."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import combinations, pairwise
from math import exp, isclose, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan import InputError
from cgplan.resolve.grid import grid_up_to
from cgplan.workload.sizes.optimise import Choice, Demand, curve, demand_of, evaluate

DEFAULT = tuple(grid_up_to(512))


def all_sets(
    demand: Demand, most: int, kept: set[int], multiple: int, top: int, eager: Callable[[int], float] | None
) -> float | None:
    """The least cost over every set of multiples up to `top`, the empty one included; None: there is no such set."""
    allowed = range(multiple, top + 1, multiple)
    needed = max((size for size in demand.sizes if size <= max(allowed, default=0)), default=0)
    sets = (sizes for count in range(most + 1) for sizes in combinations(allowed, count) if kept <= set(sizes))
    covering = (sizes for sizes in sets if eager is not None or max(sizes, default=0) >= needed)
    return min((evaluate(demand, sizes, eager=eager).cost for sizes in covering), default=None)


DEMANDS = st.dictionaries(st.integers(1, 12), st.integers(1, 50), min_size=1, max_size=7).map(
    lambda found: demand_of(found.items())
)
EAGER = st.sampled_from([None, lambda size: size + 2, lambda size: 3 * size, lambda size: 20, lambda size: 1])


@settings(max_examples=200, deadline=None)
@given(
    DEMANDS,
    st.integers(1, 4),
    st.sets(st.integers(1, 12), max_size=2),
    st.integers(1, 3),
    st.none() | st.integers(6, 12),
    EAGER,
)
def test_no_set_of_sizes_is_better(
    demand: Demand,
    most: int,
    fixed: set[int],
    multiple: int,
    largest: int | None,
    eager: Callable[[int], float] | None,
) -> None:
    kept = {-(-size // multiple) * multiple for size in fixed}
    top = largest if largest is not None else -(-max(*demand.sizes, *(kept or {1})) // multiple) * multiple
    try:
        found = curve(demand, most, fixed=fixed, multiple=multiple, largest=largest, eager=eager)
    except InputError:
        nothing_fits = -(-demand.sizes[0] // multiple) * multiple > top
        assert nothing_fits or all_sets(demand, most, kept, multiple, top, eager) is None
        return
    assert found[-1].cost == all_sets(demand, most, kept, multiple, top, eager)
    assert kept <= set(found[-1].sizes)
    assert all(size % multiple == 0 and size <= top for size in found[-1].sizes)
    assert len(found[-1].sizes) <= most


@given(DEMANDS, st.integers(1, 12))
def test_each_further_size_brings_no_more_than_the_one_before(demand: Demand, most: int) -> None:
    costs = [choice.cost for choice in curve(demand, most)]
    gains = [first - second for first, second in pairwise(costs)]
    assert all(gain >= 0 for gain in gains)
    assert gains == sorted(gains, reverse=True)


@given(DEMANDS)
def test_as_many_sizes_as_batches_leave_no_padding(demand: Demand) -> None:
    assert curve(demand, len(demand.sizes))[-1] == Choice(demand.sizes, sum(
        size * weight for size, weight in zip(demand.sizes, demand.weights, strict=True)), 0, 0)  # fmt: skip


@given(DEMANDS, st.integers(1, 6))
def test_one_size_is_the_largest_batch(demand: Demand, most: int) -> None:
    assert curve(demand, most)[0].sizes == (demand.sizes[-1],)


@given(st.lists(st.integers(0, 100), min_size=4, max_size=30), st.data())
def test_the_cost_is_monge(steps: list[int], data: st.DataObject) -> None:
    """As the docstring proves it: for rising values and weights."""
    values: list[int] = []
    weights: list[int] = []
    total = 0
    for step in steps:
        total += step
        values.append(total)
        weights.append(total * 3 + len(weights))
    a, a2, b, b2 = sorted(data.draw(st.lists(st.integers(0, len(steps) - 1), min_size=4, max_size=4)))

    def cost(first: int, last: int) -> int:
        return values[last] * (weights[last] - weights[first])

    assert cost(a, b) + cost(a2, b2) <= cost(a, b2) + cost(a2, b)


def test_fractions_of_steps() -> None:
    rng = random.Random(3)
    sizes = rng.sample(range(1, 15), 8)
    demand = demand_of((size, rng.random()) for size in sizes)
    found = curve(demand, 3)[-1]
    best = all_sets(demand, 3, set(), 1, 14, None)
    assert best is not None
    assert isclose(found.cost, best, rel_tol=1e-12)


def test_seconds_that_fall_in_between() -> None:
    seconds = {4: 5.0, 6: 4.0, 8: 9.0}
    demand = demand_of([(4, 10), (6, 1), (8, 1)])
    found = curve(demand, 2, value=lambda size: seconds[size])[-1]
    assert found.sizes == (6, 8)
    assert found.cost == 11 * 4.0 + 9.0


def test_a_batch_that_is_cheap_eager_needs_no_size() -> None:
    demand = demand_of([(8, 100), (500, 1)])
    assert curve(demand, 2, eager=lambda size: 100)[-1].sizes == (8,)
    assert curve(demand, 2, eager=lambda size: 10 * size)[-1].sizes == (8, 500)
    assert curve(demand, 2, eager=lambda size: 1)[-1].sizes == ()


def test_fixed_sizes_count() -> None:
    demand = demand_of([(3, 10), (9, 10)])
    found = curve(demand, 3, fixed=(16,))
    assert [choice.sizes for choice in found] == [(16,), (9, 16), (3, 9, 16)]
    assert curve(demand, 3, fixed=(4, 16))[0].sizes == (4, 16)


@pytest.mark.parametrize(
    ("most", "given"),
    [
        (0, {}),
        (1, {"fixed": (2, 4)}),
        (3, {"fixed": (16,), "largest": 8}),
        (3, {"largest": 2}),
        (3, {"multiple": 0}),
        (3, {"fixed": (0,)}),
    ],
)
def test_what_has_no_answer(most: int, given: dict[str, object]) -> None:
    with pytest.raises(InputError):
        curve(demand_of([(3, 1)]), most, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", [[], [(0, 1)], [(1, 0)], [(1, float("inf"))], [(1, float("nan"))]])
def test_what_is_no_demand(batches: list[tuple[int, float]]) -> None:
    with pytest.raises(InputError):
        demand_of(batches)


def shape(weight: Callable[[int], float]) -> Demand:
    return demand_of((size, weight(size)) for size in range(1, 257) if weight(size) > 1e-9)


SHAPES = {
    "steady": shape(lambda s: exp(-((s - 37) ** 2) / 72)),
    "lognormal": shape(lambda s: exp(-((log(s / 6)) ** 2) / 2) / s),
    "bimodal": demand_of([(3, 1), (120, 1)]),
    "uniform": shape(lambda s: 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_it_beats_or_equals_the_default_at_as_many_graphs(name: str) -> None:
    demand = SHAPES[name]
    used = tuple(size for size in DEFAULT if size <= 256)
    default = evaluate(demand, used)
    assert curve(demand, len(used))[-1].padding <= default.padding + 1e-9


def test_a_thousand_sizes_take_a_second_at_most() -> None:
    rng = random.Random(1)
    demand = demand_of((size, rng.randint(1, 10**6)) for size in rng.sample(range(1, 20000), 1024))
    begin = time.process_time()
    assert len(curve(demand, 83)) == 83
    assert time.process_time() - begin < 1.0
