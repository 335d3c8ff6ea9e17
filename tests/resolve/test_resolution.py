"""The result: dispatch with few words, padding tables, counts, unreachable graphs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from resolve_helpers import MLA, V1, V2, compiling, drafting, given, outcome, rows

from cgplan import Batch, CUDAGraphMode, Graph, InputError, ModelShape, Overrides, resolve
from cgplan.resolve.document import as_document
from cgplan.resolve.document_schema import from_document

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


@pytest.mark.parametrize(
    ("call", "batch"),
    [
        ({"num_tokens": 12}, Batch(12, 3, 4)),
        ({"num_tokens": 13}, Batch(13, 1, 13)),
        ({"num_tokens": 12, "has_prefill": True}, Batch(12, 1, 12, 0, True)),
        ({"num_tokens": 12, "num_reqs": 5}, Batch(12, 5, 3)),
        ({"num_tokens": 12, "num_reqs": 5, "max_query_len": 8}, Batch(12, 5, 8)),
        ({"num_tokens": 0}, Batch(0, 0, 0)),
    ],
)
@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
def test_dispatch_fills_in_what_is_left_out(env: dict[str, str], call: dict[str, Any], batch: Batch) -> None:
    found = outcome(env=env, max_num_seqs=64, speculative_config=drafting(tokens=3))
    assert found.dispatch(**call) == found.dispatch_batch(batch)


@pytest.mark.parametrize(
    "call",
    [
        {"num_tokens": -1},
        {"num_tokens": 4, "num_reqs": 5},
        {"num_tokens": 4, "num_reqs": -1},
        {"num_tokens": 4, "num_active_loras": -1},
    ],
)
def test_impossible_batches_are_refused(call: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        outcome().dispatch(**call)


def test_dispatch_to_full_piecewise_and_nothing() -> None:
    found = outcome(max_num_seqs=64)
    assert found.dispatch(5) == (FULL, 8, Graph(8, 8, 1), 0)
    assert found.dispatch(5, has_prefill=True) == (PIECEWISE, 8, Graph(8), 0)
    assert found.dispatch(129) == (NONE, 129, None, 0)


def test_padding_table() -> None:
    table = outcome(max_num_seqs=16).padding_table()
    assert table[:4] == [(1, 1, 1), (2, 2, 2), (3, 4, 4), (5, 8, 8)]
    assert table[-1] == (25, 32, 32)


def test_counts() -> None:
    found = outcome(max_num_seqs=64)
    assert (found.graph_count(FULL), found.graph_count(PIECEWISE), found.graph_count(NONE)) == (11, 19, 0)
    assert found.graph_count() == 30


def test_it_is_frozen() -> None:
    found = outcome()
    with pytest.raises(FrozenInstanceError):
        found.max_num_seqs = 3  # type: ignore[misc]


@pytest.mark.parametrize(("max_loras", "unreachable"), [(1, {2}), (2, {3}), (3, set()), (4, {5}), (7, set()), (8, {9})])
@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
def test_a_case_of_more_adapters_than_a_batch_has_is_unreachable(
    env: dict[str, str], max_loras: int, unreachable: set[int]
) -> None:
    """Powers of two are captured as well as max_loras + 1, which no batch reaches if max_loras is one of them."""
    found = outcome(env=env, max_num_seqs=8, enable_lora=True, max_loras=max_loras, specialize_active_lora=True)
    assert {graph.num_active_loras for _, graph in found.unreachable} == unreachable


def test_without_lora_and_drafts_every_graph_is_reached() -> None:
    for mode in CUDAGraphMode:
        for env in (V1, V2):
            found = outcome(env=env, max_num_seqs=40, compilation_config=compiling(cudagraph_mode=mode.value))
            assert found.unreachable == ()


def test_sizes_above_the_token_budget_are_never_captured_so_never_unreachable() -> None:
    found = outcome(cudagraph_capture_sizes=[1, 8, 64], max_num_batched_tokens=32, max_num_seqs=8)
    assert found.capture_sizes == (1, 8)
    assert found.unreachable == ()


def test_tiers_that_hide_each_other_are_named() -> None:
    """Where two tiers round to neighbouring sizes, only the smallest size is looked at."""
    options = drafting(tokens=4, num_speculative_tokens_per_batch_size=[[1, 8, 4], [9, 64, 1]])
    found = outcome(env=V2, max_num_seqs=64, speculative_config=options)
    hidden = {tuple(graph) for mode, graph in found.unreachable if mode is FULL}
    assert hidden <= {tuple(graph) for graph in found.captures[FULL]}
    assert all(graph not in hidden for graph in ((20, 4, 5, None, 0, 1), (40, 8, 5, None, 0, 1)))


def test_varlen_graphs_are_reached_by_batches_of_mixed_lengths() -> None:
    """Two requests of 3 and 2 tokens run in the varlen graph of 5, which no uniform batch fits."""
    deployment = given(env=V2, max_num_seqs=8, speculative_config=drafting(tokens=3))
    found = resolve(deployment, Overrides(varlen_decode=True))
    answer = found.dispatch(5, num_reqs=2, max_query_len=3)
    sizes = {graph.num_tokens for graph in found.captures[FULL]}
    assert answer.mode is FULL
    assert sizes <= set(found.capture_sizes)
    assert [graph for mode, graph in found.unreachable if mode is FULL] == []


def test_support_is_the_backend_s() -> None:
    found = outcome(attention_support="UNIFORM_BATCH")
    assert found.support is found.backend.support


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"enforce_eager": True},
        {"env": V1, "speculative_config": drafting("eagle")},
        {"env": V2, "speculative_config": drafting("eagle")},
        {"enable_lora": True, "max_loras": 3, "specialize_active_lora": True},
        {"model": MLA, "tensor_parallel_size": 8},
        {
            "env": V2,
            "max_num_seqs": 64,
            "speculative_config": drafting(tokens=4, num_speculative_tokens_per_batch_size=[[1, 8, 4], [9, 64, 1]]),
        },
    ],
)
def test_the_document_reads_back(fields: dict[str, Any]) -> None:
    found = outcome(**fields)
    again = from_document(as_document(found))
    assert again == found
    assert again.dispatch(7) == found.dispatch(7)
    assert rows(again.captures.get(FULL, ())) == rows(found.captures.get(FULL, ()))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"runner": "V3"}, "runner"),
        ({"capture_sizes": "1,2"}, "capture_sizes"),
        ({"nothing": 1}, "nothing"),
        ({"schema_version": 99}, "schema_version"),
        ({"captures": {"FULL": [{"num_tokens": "x"}], "PIECEWISE": []}}, "captures"),
    ],
)
def test_another_document_is_refused_in_one_line(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        from_document({**as_document(outcome()), **change})
    assert str(caught.value.where).startswith(where)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("document", [None, [], {}, "text", 3])
def test_no_document_is_refused_in_one_line(document: Any) -> None:
    with pytest.raises(InputError):
        from_document(document)


def test_what_is_left_out_is_named() -> None:
    vision = ModelShape(is_multimodal_model=True)
    options = compiling(cudagraph_mm_encoder=True)
    assert any("vision" in line for line in outcome(model=vision, compilation_config=options).not_modelled)
    assert outcome(model=vision).not_modelled == ()
    assert outcome(compilation_config=options).not_modelled == ()
    replayed = outcome(model=ModelShape(architectures=("DeepseekV41ForCausalLM",)))
    assert any("replay" in line for line in replayed.not_modelled)


@pytest.mark.parametrize(("max_num_seqs", "unreachable"), [(1, {2, 4, 8, 9}), (2, {4, 8, 9}), (3, {8, 9}), (64, {9})])
def test_a_case_of_more_adapters_than_requests_is_unreachable(max_num_seqs: int, unreachable: set[int]) -> None:
    """A request brings one adapter at most; the finding names the option that made the graphs."""
    found = outcome(max_num_seqs=max_num_seqs, enable_lora=True, max_loras=8, specialize_active_lora=True)
    assert {graph.num_active_loras for _, graph in found.unreachable} == unreachable
    said = next(one for one in found.findings if one.code == "CG703")
    assert said.message.startswith(f"{len(found.unreachable)} captured graphs serve no batch")
    fix = "drop --specialize-active-lora"
    assert said.fix == (fix if max_num_seqs >= 8 else f"{fix}, or set --max-loras {max_num_seqs}")
