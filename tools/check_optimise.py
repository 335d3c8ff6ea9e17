"""Holds the choice of capture sizes against every set of sizes, on small random instances, and measures a large one.

python tools/check_optimise.py [INSTANCES] [SEED]
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from cgplan.errors import InputError
from cgplan.workload.sizes.optimise import Demand, curve, demand_of

LARGEST = 14


class Instance(NamedTuple):
    """What is asked for."""

    demand: Demand
    most: int
    fixed: tuple[int, ...]
    multiple: int
    largest: int | None
    value: Callable[[int], int]
    eager: Callable[[int], int] | None


def instance(rng: random.Random) -> Instance:
    demand = demand_of((size, rng.randint(1, 99)) for size in rng.sample(range(1, LARGEST + 1), rng.randint(1, 9)))
    prices = [0]
    for _ in range(2 * LARGEST):
        prices.append(prices[-1] + rng.choice((0, 1, 1, 5)))
    times, more = rng.choice(((1, 0), (1, 3), (2, 1), (1, 30), (0, 4)))
    is_forced = rng.random() < 0.4
    return Instance(
        demand=demand,
        most=rng.randint(1, 4),
        fixed=tuple(rng.sample(range(1, LARGEST), rng.choice((0, 0, 1, 2)))),
        multiple=rng.choice((1, 1, 2, 3, 4)),
        largest=rng.choice((None, None, rng.randint(4, LARGEST))),
        value=rng.choice((lambda size: size, prices.__getitem__)),
        eager=None if is_forced else lambda size: times * prices[size] + more,
    )


def least(one: Instance) -> int | None:
    """The least cost over all sets, by a sum of its own; None: no set is allowed."""
    kept = {-(-size // one.multiple) * one.multiple for size in one.fixed}
    top = one.largest or -(-max((*one.demand.sizes, *kept)) // one.multiple) * one.multiple
    sizes = range(one.multiple, top + 1, one.multiple)
    best = None
    for count in range(one.most + 1):
        for chosen in combinations(sizes, count):
            cost = _cost(one, chosen, max(sizes, default=0)) if kept <= set(chosen) else None
            if cost is not None and (best is None or cost < best):
                best = cost
    return best


def nothing_fits(one: Instance) -> bool:
    """No batch is small enough for any size, or a fixed size is above them all."""
    rounded = [-(-size // one.multiple) * one.multiple for size in one.demand.sizes + one.fixed]
    top = one.largest or max(rounded)
    return min(rounded[: len(one.demand.sizes)]) > top or max(rounded[len(one.demand.sizes) :], default=0) > top


def _cost(one: Instance, chosen: tuple[int, ...], largest: int) -> int | None:
    total = 0
    for tokens, weight in zip(one.demand.sizes, one.demand.weights, strict=True):
        size = next((size for size in chosen if size >= tokens), None)
        if size is not None:
            total += int(weight) * one.value(size)
        elif one.eager is not None:
            total += int(weight) * one.eager(tokens)
        elif tokens <= largest:
            return None
        else:
            total += int(weight) * one.value(tokens)
    return total


def main(count: int, seed: int) -> int:
    rng = random.Random(seed)
    wrong = refused = 0
    for _ in range(count):
        one = instance(rng)
        try:
            found: float | None = curve(
                one.demand,
                one.most,
                fixed=one.fixed,
                multiple=one.multiple,
                largest=one.largest,
                value=one.value,
                eager=one.eager,
            )[-1].cost
        except InputError:
            refused += 1
            found = None
        if found is None and nothing_fits(one):
            continue
        if found != least(one):
            wrong += 1
            print(f"wrong: {one}: {found}, least {least(one)}")
    print(f"{count} instances, seed {seed}: {wrong} wrong, {refused} refused")
    measure(rng)
    return int(wrong > 0)


def measure(rng: random.Random) -> None:
    """1,024 distinct sizes, the whole curve to 83."""
    demand = demand_of((size, rng.randint(1, 10**6)) for size in rng.sample(range(1, 20000), 1024))
    begin = time.process_time()
    curve(demand, 83)
    seconds = time.process_time() - begin
    tracemalloc.start()
    curve(demand, 83)
    peak = tracemalloc.get_traced_memory()[1]
    print(f"1024 sizes, k to 83: {seconds:.2f} s, {peak / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 7))
