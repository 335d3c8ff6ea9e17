"""The V1 dispatcher. Expectations are answers of vLLM's own CudagraphDispatcher."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import V1, outcome, rows

from cgplan import Batch, CUDAGraphMode, Graph
from cgplan.resolve.lora import lora_cases
from cgplan.resolve.runner_v1 import ALL_MODES, V1Dispatcher, captures
from cgplan.vocabulary import Runner

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


def build(
    mode: str,
    sizes: list[int],
    max_num_seqs: int,
    query_len: int = 1,
    max_loras: int | None = None,
    specialize_active: bool = False,
    specialize: bool = True,
) -> tuple[dict[CUDAGraphMode, tuple[Graph, ...]], V1Dispatcher]:
    cases = lora_cases(max_loras, specialize_active, specialize, Runner.V1)
    graphs = captures(CUDAGraphMode(mode), sizes, max_num_seqs, query_len, cases)
    made = V1Dispatcher(CUDAGraphMode(mode), sizes, max_num_seqs, query_len, max_loras, specialize_active, graphs)
    return graphs, made


def answer(dispatcher: V1Dispatcher, tokens: int, uniform: bool, loras: int = 0) -> tuple[str, int]:
    found = dispatcher.select(tokens, uniform, loras)
    return found.mode.value, found.num_tokens


def test_keys_of_full_and_piecewise() -> None:
    graphs, _ = build("FULL_AND_PIECEWISE", [1, 2, 4, 8, 16], 6)
    assert list(graphs) == [PIECEWISE, FULL]
    assert rows(graphs[PIECEWISE]) == [(16,), (8,), (4,), (2,), (1,)]
    assert rows(graphs[FULL]) == [(4, 4, 1), (2, 2, 1), (1, 1, 1)]


def test_keys_of_full_serve_decode_and_mixed_batches() -> None:
    graphs, dispatcher = build("FULL", [3, 6, 9], 2, query_len=3)
    assert list(graphs) == [FULL]
    assert rows(graphs[FULL]) == [(9, 2), (6, 2), (3, 2)]
    assert dispatcher.select(6, True).graph == Graph(6, 2)
    assert dispatcher.select(7, False).graph == Graph(9, 2)


def test_keys_of_decode_only() -> None:
    graphs, dispatcher = build("FULL_DECODE_ONLY", [3, 6, 9], 2, query_len=3)
    assert list(graphs) == [FULL]
    assert rows(graphs[FULL]) == [(6, 2, 3), (3, 1, 3)]
    assert answer(dispatcher, 6, True) == ("FULL", 6)
    assert answer(dispatcher, 6, False) == ("NONE", 6)
    assert answer(dispatcher, 9, True) == ("NONE", 9)


def test_keys_of_piecewise_and_of_none() -> None:
    graphs, dispatcher = build("PIECEWISE", [1, 2], 8)
    assert rows(graphs[PIECEWISE]) == [(2,), (1,)]
    assert answer(dispatcher, 2, True) == ("PIECEWISE", 2)
    empty, dispatcher = build("NONE", [1, 2], 8)
    assert empty == {}
    assert answer(dispatcher, 2, True) == ("NONE", 2)


def test_no_size_gives_no_key() -> None:
    graphs, dispatcher = build("FULL_AND_PIECEWISE", [], 8)
    assert graphs == {}
    assert answer(dispatcher, 1, True) == ("NONE", 1)


@pytest.mark.parametrize(
    ("tokens", "uniform", "expected"),
    [
        (5, True, ("PIECEWISE", 8)),
        (7, True, ("PIECEWISE", 8)),
        (9, True, ("PIECEWISE", 16)),
        (3, True, ("FULL", 4)),
        (5, False, ("PIECEWISE", 8)),
        (16, False, ("PIECEWISE", 16)),
        (17, True, ("NONE", 17)),
        (0, True, ("NONE", 0)),
    ],
)
def test_d9_priority_and_padding(tokens: int, uniform: bool, expected: tuple[str, int]) -> None:
    """FULL before PIECEWISE before NONE; a decode batch above the last FULL key still finds PIECEWISE."""
    _, dispatcher = build("FULL_AND_PIECEWISE", [1, 2, 4, 8, 16], 6)
    assert answer(dispatcher, tokens, uniform) == expected


def test_d1_capture_order_with_adapters() -> None:
    graphs, _ = build("FULL_AND_PIECEWISE", [1, 2], 4, max_loras=2, specialize_active=True)
    expected = [(2, 3), (2, 2), (2, 1), (2, 0), (1, 3), (1, 2), (1, 1), (1, 0)]
    for mode in (PIECEWISE, FULL):
        assert [(graph.num_tokens, graph.num_active_loras) for graph in graphs[mode]] == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 5), (6, None), (7, None)],
)
def test_specialised_adapter_counts(count: int, expected: int | None) -> None:
    _, dispatcher = build("FULL_AND_PIECEWISE", [1, 2, 4], 4, max_loras=4, specialize_active=True)
    graph = dispatcher.select(3, True, count).graph
    assert (graph.num_active_loras if graph else None) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 5), (2, 5), (9, 5)])
def test_other_adapter_counts_are_one_case(count: int, expected: int) -> None:
    _, dispatcher = build("FULL_AND_PIECEWISE", [1, 2, 4], 4, max_loras=4)
    graph = dispatcher.select(3, True, count).graph
    assert graph is not None
    assert graph.num_active_loras == expected


def test_without_specialisation_only_adapter_batches_have_keys() -> None:
    graphs, dispatcher = build("PIECEWISE", [1, 2, 4], 4, max_loras=4, specialize=False)
    assert {graph.num_active_loras for graph in graphs[PIECEWISE]} == {5}
    assert answer(dispatcher, 3, False) == ("NONE", 3)
    assert answer(dispatcher, 3, False, 1) == ("PIECEWISE", 4)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [({NONE}, ("NONE", 7)), ({PIECEWISE}, ("PIECEWISE", 8)), ({FULL}, ("FULL", 8)), (set(ALL_MODES), ("FULL", 8))],
)
def test_allowed_modes(allowed: set[CUDAGraphMode], expected: tuple[str, int]) -> None:
    _, dispatcher = build("FULL_AND_PIECEWISE", [1, 2, 4, 8, 16], 16)
    found = dispatcher.select(7, True, 0, frozenset(allowed))
    assert (found.mode.value, found.num_tokens) == expected


@pytest.mark.parametrize(
    ("batch", "uniform"),
    [
        (Batch(12, 3, 4), True),
        (Batch(12, 4, 3), False),
        (Batch(3, 3, 1), False),
        (Batch(11, 3, 4), False),
        (Batch(4, 1, 4), True),
        (Batch(12, 3, 4, has_prefill=True), True),
    ],
)
def test_uniform_decode_is_told_by_lengths_alone(batch: Batch, uniform: bool) -> None:
    """A batch of one-token requests is not uniform under speculative decoding; V1 does not look for prefills."""
    _, dispatcher = build("FULL_AND_PIECEWISE", [4, 8, 12, 16], 8, query_len=4)
    assert dispatcher.is_uniform_decode(batch) is uniform
    assert (dispatcher.dispatch(batch).mode is FULL) is uniform


@pytest.mark.parametrize(
    ("query_len", "max_num_seqs", "full"),
    [(1, 256, 35), (1, 64, 11), (1, 264, 36), (4, 256, 51), (4, 16, 7)],
)
def test_c9_decode_keys_hold_at_most_the_widest_batch(query_len: int, max_num_seqs: int, full: int) -> None:
    options: dict[str, Any] = {"env": V1, "max_num_seqs": max_num_seqs}
    if query_len > 1:
        options["speculative_config"] = {"method": "ngram", "num_speculative_tokens": query_len - 1}
    found = outcome(**options)
    widest = max(graph.num_tokens for graph in found.captures[FULL])
    assert widest == min(query_len * max_num_seqs, found.max_capture_size)
    assert found.graph_count(FULL) == len(
        [s for s in found.capture_sizes if query_len <= s <= query_len * max_num_seqs]
    )
    if query_len == 1:
        assert found.graph_count(FULL) == full


def test_d8_a_key_names_the_adapters_and_the_uniform_length() -> None:
    graphs, _ = build("FULL_AND_PIECEWISE", [4], 8, query_len=2, max_loras=1)
    assert [tuple(graph) for graph in graphs[FULL]] == [(4, 2, 2, None, 2, 1), (4, 2, 2, None, 0, 1)]
    assert [tuple(graph) for graph in graphs[PIECEWISE]] == [(4, None, None, None, 2, 1), (4, None, None, None, 0, 1)]
