"""Data-parallel ranks: one mode, padded to the largest, or all eager."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MOE, V1, V2, drafting, outcome

from cgplan import Batch, CUDAGraphMode, Dispatch, Resolution

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


def decode(reqs: int, query_len: int = 1, loras: int = 0) -> Batch:
    return Batch(reqs * query_len, reqs, query_len, loras)


def prefill(tokens: int, reqs: int = 1) -> Batch:
    return Batch(tokens, reqs, tokens - reqs + 1 if reqs > 1 else tokens + 1, 0, has_prefill=True)


def ranks(env: dict[str, str], **fields: Any) -> Resolution:
    return outcome(model=MOE, data_parallel_size=2, env=env, max_num_seqs=256, **fields)


def shapes(found: list[Dispatch]) -> list[tuple[str, int]]:
    return [(item.mode.value, item.num_tokens) for item in found]


@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([decode(5), decode(60)], [("FULL", 64), ("FULL", 64)]),
        ([decode(60), decode(5)], [("FULL", 64), ("FULL", 64)]),
        ([decode(5), decode(5)], [("FULL", 8), ("FULL", 8)]),
        ([decode(5), prefill(100)], [("PIECEWISE", 104), ("PIECEWISE", 104)]),
        ([prefill(100), prefill(300)], [("PIECEWISE", 304), ("PIECEWISE", 304)]),
        ([prefill(3), decode(200)], [("PIECEWISE", 200), ("PIECEWISE", 200)]),
    ],
)
def test_f7_every_rank_pads_to_the_largest(
    env: dict[str, str], batches: list[Batch], expected: list[tuple[str, int]]
) -> None:
    assert shapes(ranks(env).dispatch_ranks(batches)) == expected


def test_an_eager_rank_makes_all_eager_on_v2_without_padding() -> None:
    found = ranks(V2).dispatch_ranks([decode(5), prefill(1000)])
    assert shapes(found) == [("NONE", 5), ("NONE", 1000)]
    assert [item.graph for item in found] == [None, None]


def test_an_eager_rank_makes_all_eager_on_v1_at_their_own_padded_size() -> None:
    """V1 hands each rank back the size it had padded to by itself (v1/worker/dp_utils.py:110-125, 197-205)."""
    found = ranks(V1).dispatch_ranks([decode(5), prefill(1000)])
    assert shapes(found) == [("NONE", 8), ("NONE", 1000)]
    assert [item.graph for item in found] == [None, None]


@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
def test_ranks_of_a_dense_model_do_not_wait(env: dict[str, str]) -> None:
    found = outcome(data_parallel_size=2, env=env, max_num_seqs=256)
    assert shapes(found.dispatch_ranks([decode(5), prefill(1000)])) == [("FULL", 8), ("NONE", 1000)]


@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
def test_one_rank_alone_is_an_ordinary_dispatch(env: dict[str, str]) -> None:
    found = ranks(env)
    for batch in (decode(5), decode(200), prefill(77), prefill(1000)):
        assert found.dispatch_ranks([batch])[0][:2] == found.dispatch_batch(batch)[:2]


def test_v2_ranks_that_disagree_on_the_length_lose_full_graphs() -> None:
    """Uniform lengths survive only where all ranks have the same."""
    found = ranks(V2, speculative_config=drafting(tokens=3))
    assert shapes(found.dispatch_ranks([decode(4, 4), decode(2, 4)])) == [("FULL", 16), ("FULL", 16)]
    assert shapes(found.dispatch_ranks([decode(4, 4), decode(5)])) == [("PIECEWISE", 16), ("PIECEWISE", 16)]


def test_v1_ranks_take_the_weakest_mode() -> None:
    found = ranks(V1, speculative_config=drafting(tokens=3))
    assert shapes(found.dispatch_ranks([decode(4, 4), decode(2, 4)])) == [("FULL", 16), ("FULL", 16)]
    assert shapes(found.dispatch_ranks([decode(4, 4), decode(5)])) == [("PIECEWISE", 16), ("PIECEWISE", 16)]


def test_v2_adapters_are_the_rank_s_own() -> None:
    found = ranks(V2, enable_lora=True, max_loras=2)
    answers = found.dispatch_ranks([decode(4, loras=1), decode(9)])
    assert [item.graph.num_active_loras if item.graph else None for item in answers] == [3, 0]
    assert shapes(answers) == [("FULL", 16), ("FULL", 16)]


def test_plain_full_pads_prefills_and_decodes_alike() -> None:
    for env in (V1, V2):
        found = ranks(env, compilation_config={"cudagraph_mode": "FULL"})
        assert shapes(found.dispatch_ranks([decode(5), prefill(100)])) == [("FULL", 104), ("FULL", 104)]
