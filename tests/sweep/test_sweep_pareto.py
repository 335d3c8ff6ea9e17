"""The best records are those that no other one beats, in whatever order they come."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cgplan.report.sweep_text import picked
from cgplan.sweep.pareto import Front, merits_of


def record(at: int, tokens: int, covered: int, mib: int, gpus: int, starts: str = "yes") -> dict[str, Any]:
    return {
        "key": f"{at:04}", "model": "m", "gpu": "g", "starts": starts, "fits": starts != "no", "kv_tokens": tokens,
        "covered_batches": covered,
        "graph_bytes": mib << 20, "gpus": gpus, "replicas": 1,
    }  # fmt: skip


small = st.integers(0, 4)
sure = st.sampled_from(["yes", "unsure"])
many = st.lists(st.tuples(small, small, small, small, sure), max_size=30).map(
    lambda rows: [record(at, 10 ** row[0], row[1], row[2], 1 + row[3], row[4]) for at, row in enumerate(rows)]
)


@given(many, st.randoms(use_true_random=False))
def test_the_best_are_those_that_none_beats(records: list[dict[str, Any]], order: random.Random) -> None:
    front, other = Front(), Front()
    for one in records:
        front.add(one)
    order.shuffle(records)
    for one in records:
        other.add(one)
    assert front.best() == other.best()
    merits = [merits_of(one) for one in records]
    expected = {
        mine
        for mine in merits
        if not any(all(a >= b for a, b in zip(theirs, mine, strict=True)) and theirs != mine for theirs in merits)
    }
    best = front.best().get(("m", "g"), [])
    assert {merits_of(one.record) for one in best} == expected
    assert [one.alike + 1 for one in best] == [merits.count(merits_of(one.record)) for one in best]


def test_a_server_that_does_not_start_is_not_best() -> None:
    front = Front()
    front.add(record(1, 10**6, 512, 0, 1, "no"))
    front.add(record(2, 10, 1, 9, 8, "unsure"))
    assert [one.record["key"] for one in front.best()["m", "g"]] == ["0002"]


def test_nor_is_one_that_does_not_by_the_best_estimate() -> None:
    front = Front()
    front.add({**record(1, 10**6, 512, 0, 1, "unsure"), "fits": False})
    assert front.best() == {}


def test_one_that_may_start_does_not_push_out_one_that_surely_does() -> None:
    front = Front()
    front.add(record(1, 10**6, 512, 0, 1, "unsure"))
    front.add(record(2, 10, 1, 9, 8))
    assert [one.record["key"] for one in front.best()["m", "g"]] == ["0001", "0002"]


def test_models_and_gpus_are_not_compared() -> None:
    front = Front()
    front.add(record(1, 10**6, 512, 0, 1))
    front.add({**record(2, 10, 1, 9, 8), "gpu": "other"})
    assert len(front.best()) == 2


@given(st.integers(1, 100), st.integers(2, 40))
def test_of_many_the_ends_are_shown(count: int, limit: int) -> None:
    best = list(range(count))
    shown = picked(best, limit)  # type: ignore[arg-type]
    assert len(shown) == min(count, limit) == len(set(shown))
    assert (shown[0], shown[-1]) == (0, count - 1)
