"""The best sizes where two modes share them: against every set of sizes, and against the solver of one mode."""

from __future__ import annotations

import random
from bisect import bisect_left
from itertools import combinations

import pytest

from cgplan import InputError
from cgplan.workload.sizes.optimise import Demand, curve, demand_of
from cgplan.workload.sizes.two_modes import Priced, curve_of_modes


def cost(modes: list[Priced], sizes: tuple[int, ...]) -> float:
    return sum(
        weight * value(sizes[bisect_left(sizes, tokens)])
        for demand, value in modes
        for tokens, weight in zip(demand.sizes, demand.weights, strict=True)
    )


def rising(rng: random.Random) -> list[int]:
    found = [0]
    for _ in range(40):
        found.append(found[-1] + rng.choice((0, 1, 1, 7)))
    return found


def test_no_set_of_sizes_is_better() -> None:
    rng = random.Random(11)
    for _ in range(400):
        multiple = rng.choice((1, 1, 2, 3))
        top = multiple * rng.randint(3, 12 // multiple + 2)
        prices = [rising(rng), rising(rng)]
        modes: list[Priced] = []
        for table in prices:
            sizes = rng.sample(range(1, top + 1), min(top, rng.randint(1, 6)))
            modes.append((demand_of((size, rng.randint(1, 9)) for size in sizes), table.__getitem__))
        fixed = {top, *rng.sample(range(1, top), rng.choice((0, 1)))}
        kept = {-(-size // multiple) * multiple for size in fixed}
        found = curve_of_modes((modes[0], modes[1]), 5, fixed=fixed, multiple=multiple)
        for sizes in found:
            assert kept <= set(sizes)
            allowed = range(multiple, top + 1, multiple)
            best = min(
                cost(modes, chosen)
                for count in range(1, len(sizes) + 1)
                for chosen in combinations(allowed, count)
                if kept <= set(chosen)
            )
            assert cost(modes, sizes) == best


def test_one_mode_is_that_of_the_other_solver() -> None:
    rng = random.Random(5)
    demand: Demand = demand_of((size, rng.randint(1, 1000)) for size in rng.sample(range(1, 512), 200))
    # The same batches in both modes, half of the cost in each.
    half = (demand, lambda size: size / 2)
    ours = curve_of_modes((half, half), 40, fixed=[512])
    theirs = curve(demand, 40, fixed=[512], largest=512)
    assert [cost([(demand, float)], sizes) for sizes in ours] == [choice.cost for choice in theirs]


def test_more_fixed_sizes_than_allowed() -> None:
    with pytest.raises(InputError, match="2 fixed sizes do not fit into a list of 1"):
        curve_of_modes(((demand_of([(3, 1)]), float), (demand_of([(4, 1)]), float)), 1, fixed=[4, 8])
