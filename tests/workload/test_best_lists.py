"""The lists that are offered, against every list that vLLM would take, each through its own rules."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from workload_helpers import decode, mixed

from cgplan import Deployment, gpu, load_model, resolve, tune
from cgplan.errors import CgplanError
from cgplan.workload.histogram import Batches, workload_of
from cgplan.workload.sizes.effect import tally_of, with_sizes
from cgplan.workload.sizes.prices import TOKENS
from cgplan.workload.sizes.steps import groups_of, merged

LARGEST = 12


def drafting(release: str, runner: str, drafts: int = 2, **fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 4)
    model = load_model("meta-llama/Llama-3.1-8B-Instruct")
    return Deployment(
        model=model, gpu=gpu("h100"), vllm=release,
        speculative_config={"method": "eagle", "model": model, "num_speculative_tokens": drafts},
        env={"VLLM_USE_V2_MODEL_RUNNER": runner}, **fields,
    )  # fmt: skip


def some_traffic(rng: random.Random) -> list[Batches]:
    sizes = rng.sample(range(1, LARGEST + 1), rng.randint(1, 5))
    found = [mixed(size, rng.randint(1, 9)) for size in sizes]
    return [
        *found,
        *(decode(3 * n, rng.randint(1, 9), query_len=3) for n in rng.sample(range(1, 5), rng.randint(0, 3))),
    ]


@pytest.mark.parametrize("mode", ["FULL_AND_PIECEWISE", "FULL", "FULL_DECODE_ONLY", "PIECEWISE"])
@pytest.mark.parametrize(
    ("release", "runner"), [("0.33.0", "1"), ("0.33.0", "0"), ("0.24.0", "1"), ("0.24.0", "0"), ("0.20.2", "1")]
)
def test_no_list_that_vllm_would_take_costs_less(release: str, runner: str, mode: str) -> None:
    asked = drafting(release, runner, compilation_config={"cudagraph_mode": mode}, max_cudagraph_capture_size=LARGEST)
    rng = random.Random(5)
    cache: dict[tuple[int, ...], Any] = {}
    for _ in range(3):
        workload = workload_of([*some_traffic(rng), decode(3, 1, query_len=3)])
        found = tune(asked, workload, spread=0.0)
        # What no list gives a graph is in no figure.
        trial = resolve(with_sizes(asked, range(found.multiple, found.today.sizes[-1] + 1, found.multiple)))
        steps = [
            one
            for one in merged(groups_of(workload, found.resolution))
            if str(trial.dispatch_batch(one.batch).mode) != "NONE"
        ]
        free = [size for size in range(1, found.today.sizes[-1]) if size not in found.fixed]
        for point in found.points[:4]:
            assert tally_of(steps, resolve(with_sizes(asked, point.sizes)), TOKENS).cost == pytest.approx(point.cost)
            others = combinations(free, len(point.sizes) - len(found.fixed))
            for sizes in (tuple(sorted((*found.fixed, *more))) for more in others):
                if sizes not in cache:
                    try:
                        cache[sizes] = resolve(with_sizes(asked, sizes))
                    except CgplanError:
                        cache[sizes] = None
                if cache[sizes] is not None:
                    assert tally_of(steps, cache[sizes], TOKENS).cost >= point.cost * (1 - 1e-9), sizes


@pytest.mark.parametrize(
    ("release", "runner", "multiple", "fixed"),
    [
        ("0.33.0", "1", 1, (510, 512)),  # V2 keeps sizes; of decode batches the fullest has 102 requests of 5 tokens.
        ("0.33.0", "0", 5, (500,)),  # V1 rounds 496 up; 512 would be 515.
        ("0.24.0", "1", 5, (500,)),
        ("0.24.0", "0", 5, (500,)),
    ],
)
def test_fixed_sizes_are_those_that_vllm_captures(
    release: str, runner: str, multiple: int, fixed: tuple[int, ...]
) -> None:
    asked = drafting(release, runner, 4, max_num_seqs=256)
    found = tune(asked, workload_of([mixed(33, 500), mixed(67, 500)]))
    assert (found.multiple, found.fixed) == (multiple, fixed)
    graphs = [graph.num_tokens for of_mode in found.tuned.captures.values() for graph in of_mode]
    assert set(fixed) <= set(graphs)
    assert max(graphs) == max(g.num_tokens for of_mode in found.resolution.captures.values() for g in of_mode)


def test_sizes_between_whole_requests_are_used_where_the_runner_keeps_them() -> None:
    found = tune(
        drafting("0.33.0", "1", 4, max_num_seqs=256), workload_of([mixed(33, 500), mixed(67, 500)]), spread=0.0
    )
    assert found.chosen.sizes == (33, 67, 510, 512)
    assert found.chosen.waste == 0
    rounded = tune(
        drafting("0.33.0", "0", 4, max_num_seqs=256), workload_of([mixed(33, 500), mixed(67, 500)]), spread=0.0
    )
    assert rounded.chosen.sizes == (35, 70, 500)


def test_a_size_for_decode_batches_alone_is_of_whole_requests() -> None:
    found = tune(
        drafting("0.33.0", "1", 4, max_num_seqs=256),
        workload_of([mixed(33, 50), decode(20, 50, query_len=5), decode(35, 50, query_len=5)]),
        spread=0.0,
    )
    # 33 serves both: the batches of 33 tokens, and by its decode graph of 35 those of 7 requests.
    assert found.chosen.sizes == (20, 33, 510, 512)
