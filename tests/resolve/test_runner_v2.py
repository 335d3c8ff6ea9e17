"""The V2 graph manager. Expectations are answers of vLLM's own CudaGraphManager for these inputs."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MOE, V2, drafting, outcome, rows

from cgplan import Batch, CUDAGraphMode, Graph, ModelShape
from cgplan.resolve.runner_v2 import CaptureSpec, V2Dispatcher, captures, drafter_spec

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
TIER_SIZES = [1, 2, 4, 5, 8, 10, 16, 20, 24]


def spec(mode: str, sizes: list[int], max_num_seqs: int, query_len: int = 1, **more: Any) -> CaptureSpec:
    more.setdefault("query_lens", (query_len,))
    return CaptureSpec(
        mode=CUDAGraphMode(mode),
        sizes=sizes,
        max_capture_size=sizes[-1] if sizes else 0,
        max_num_seqs=max_num_seqs,
        query_len=query_len,
        **more,
    )


def made(given: CaptureSpec) -> dict[str, list[tuple[int | None, ...]]]:
    return {mode.value: rows(graphs) for mode, graphs in captures(given).items()}


def test_keys_by_request_round_each_decode_size_alone() -> None:
    found = made(spec("FULL_AND_PIECEWISE", [1, 2, 4, 8, 16], 5, query_len=3))
    assert found == {
        "PIECEWISE": [(16,), (8,), (4,), (2,), (1,)],
        "FULL": [(9, 3, 3), (6, 2, 3), (3, 1, 3)],
    }
    assert list(found) == ["PIECEWISE", "FULL"]


def test_plain_full_has_mixed_graphs_only() -> None:
    given = spec("FULL", [1, 2, 4, 8, 16], 5, query_len=3)
    assert made(given) == {"FULL": [(16, 5), (8, 5), (4, 4), (2, 2), (1, 1)]}
    dispatcher = V2Dispatcher(captures(given), (0,))
    shapes = [(12, 4, 3, 3), (6, 6, 1, 1), (9, 1, None, None), (16, 6, None, None)]
    answers = [dispatcher.select(*shape)[:2] for shape in shapes]
    assert answers == [(FULL, 16), (NONE, 6), (FULL, 16), (NONE, 16)]


@pytest.mark.parametrize("mode", ["NONE", "PIECEWISE", "FULL_DECODE_ONLY"])
def test_other_modes(mode: str) -> None:
    found = made(spec(mode, [1, 2, 4], 2))
    expected = {
        "NONE": {},
        "PIECEWISE": {"PIECEWISE": [(4,), (2,), (1,)]},
        "FULL_DECODE_ONLY": {"FULL": [(2, 2, 1), (1, 1, 1)]},
    }
    assert found == expected[mode]


def test_no_size_gives_no_graph() -> None:
    assert captures(spec("FULL_AND_PIECEWISE", [], 4)) == {}


def test_a_rounded_size_above_the_maximum_is_dropped() -> None:
    assert made(spec("FULL_DECODE_ONLY", [1, 4, 8], 8, query_len=3)) == {"FULL": [(6, 2, 3), (3, 1, 3)]}


def test_f13_varlen_decode_graphs_take_any_lengths() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2, 4, 5, 8, 16, 32, 40], 8, query_len=4, varlen_decode=True)
    found = made(given)
    assert found["FULL"] == [
        (32, 8, None, 4),
        (16, 8, None, 4),
        (8, 8, None, 4),
        (5, 5, None, 4),
        (4, 4, None, 4),
        (2, 2, None, 4),
        (1, 1, None, 4),
    ]
    assert [row[0] for row in found["PIECEWISE"]] == [40, 32, 16, 8, 5, 4, 2, 1]
    dispatcher = V2Dispatcher(captures(given), (0,))
    answers = [
        dispatcher.select(5, 2, None, 4),
        dispatcher.select(8, 2, 4, 4),
        dispatcher.select(5, 1, None, None),
        dispatcher.select(9, 2, None, 5),
        dispatcher.select(32, 8, 4, 4),
        dispatcher.select(33, 8, None, None),
    ]
    assert [(a.mode, a.num_tokens) for a in answers] == [
        (FULL, 5),
        (FULL, 8),
        (PIECEWISE, 5),
        (PIECEWISE, 16),
        (FULL, 32),
        (PIECEWISE, 40),
    ]


def test_varlen_decode_needs_a_mode_that_separates_decode() -> None:
    assert made(spec("FULL", [1, 2], 8, query_len=4, varlen_decode=True)) == {"FULL": [(2, 2), (1, 1)]}


def test_tiers_of_dynamic_speculative_decoding() -> None:
    given = spec("FULL_AND_PIECEWISE", TIER_SIZES, 64, query_len=5, query_lens=(2, 5))
    assert made(given)["FULL"] == [
        (24, 12, 2),
        (20, 4, 5),
        (20, 10, 2),
        (16, 8, 2),
        (10, 2, 5),
        (10, 5, 2),
        (8, 4, 2),
        (6, 3, 2),
        (5, 1, 5),
        (4, 2, 2),
        (2, 1, 2),
    ]


def test_only_the_smallest_captured_size_is_looked_at() -> None:
    """Three requests of five tokens fit the graph of 20, but 16 is the smallest size and belongs to another tier."""
    given = spec("FULL_AND_PIECEWISE", TIER_SIZES, 64, query_len=5, query_lens=(2, 5))
    dispatcher = V2Dispatcher(captures(given), (0,))
    answers = [
        dispatcher.select(15, 3, 5, 5),
        dispatcher.select(20, 4, 5, 5),
        dispatcher.select(18, 9, 2, 2),
        dispatcher.select(5, 5, 1, 1),
    ]
    assert [(a.mode, a.num_tokens) for a in answers] == [(PIECEWISE, 16), (FULL, 20), (FULL, 20), (PIECEWISE, 5)]
    assert [a.graph.uniform_query_len for a in answers[1:3] if a.graph] == [5, 2]


def test_tiers_follow_the_schedule() -> None:
    rows_ = [[1, 8, 4], [9, 64, 1]]
    options = drafting(tokens=4, num_speculative_tokens_per_batch_size=rows_)
    found = outcome(env=V2, max_num_seqs=64, speculative_config=options)
    assert {graph.uniform_query_len for graph in found.captures[FULL]} == {2, 5}
    assert found.dispatch(15, 3, 5).mode is PIECEWISE


def test_ubatch_twins_stand_beside_their_graphs() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2, 4, 8, 16, 32, 40, 64], 64, num_ubatches=2, decode_token_threshold=32)
    assert made(given)["FULL"] == [
        (64, 64, 1),
        (64, 64, 1, None, 0, 2),
        (40, 40, 1),
        (40, 40, 1, None, 0, 2),
        (32, 32, 1),
        (32, 32, 1, None, 0, 2),
        (16, 16, 1),
        (8, 8, 1),
        (4, 4, 1),
        (2, 2, 1),
        (1, 1, 1),
    ]
    dispatcher = V2Dispatcher(captures(given), (0,))
    decode = Batch(40, 40, 1)
    plain, split = dispatcher.dispatch(decode), dispatcher.dispatch(decode, num_ubatches=2)
    assert (plain.graph, split.graph) == (Graph(40, 40, 1), Graph(40, 40, 1, num_ubatches=2))
    assert dispatcher.dispatch(Batch(16, 16, 1), num_ubatches=2).mode is NONE


def test_twins_of_plain_full_need_equal_requests() -> None:
    found = made(spec("FULL", [32, 40, 64], 40, num_ubatches=2, decode_token_threshold=32))
    assert found["FULL"] == [(64, 40), (40, 40), (40, 40, 1, None, 0, 2), (32, 32), (32, 32, 1, None, 0, 2)]


def test_twins_count_tokens_not_requests() -> None:
    given = spec("FULL_DECODE_ONLY", [4, 8, 16, 32, 64], 16, query_len=4, num_ubatches=2, decode_token_threshold=32)
    assert made(given)["FULL"][:5] == [
        (64, 16, 4),
        (64, 16, 4, None, 0, 2),
        (32, 8, 4),
        (32, 8, 4, None, 0, 2),
        (16, 4, 4),
    ]


DBO: dict[str, Any] = {"model": MOE, "env": V2, "all2all_backend": "nixl_ep", "max_num_seqs": 64}


@pytest.mark.parametrize(
    ("fields", "twins"),
    [
        ({"enable_dbo": True, "data_parallel_size": 2}, {32, 40, 48, 56, 64}),
        ({"enable_dbo": True, "data_parallel_size": 2, "dbo_decode_token_threshold": 50}, {56, 64}),
        ({"enable_dbo": True}, set()),
        ({"ubatch_size": 4, "data_parallel_size": 2, "dbo_decode_token_threshold": 4}, {4, *range(8, 65, 8)}),
        ({"data_parallel_size": 2}, set()),
    ],
)
def test_twins_need_several_ranks(fields: dict[str, Any], twins: set[int]) -> None:
    found = outcome(**DBO, **fields)
    split = {graph.num_tokens for graph in found.captures[FULL] if graph.num_ubatches > 1}
    assert split == twins
    assert {graph.num_ubatches for graph in found.captures[PIECEWISE]} == {1}


@pytest.mark.parametrize("mode", ["FULL", "FULL_AND_PIECEWISE"])
def test_recover_ssm_bounds_mixed_graphs(mode: str) -> None:
    found = made(spec(mode, [1, 2, 4, 8, 16], 4, query_len=2, widest_mixed=8))
    mixed = found["FULL" if mode == "FULL" else "PIECEWISE"]
    assert [row[0] for row in mixed] == [8, 4, 2, 1]


def test_adapter_cases_keep_the_order_of_capture() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2], 4, lora_cases=(0, 1, 3))
    for graphs in captures(given).values():
        assert [(g.num_tokens, g.num_active_loras) for g in graphs] == [(2, 0), (2, 1), (2, 3), (1, 0), (1, 1), (1, 3)]


@pytest.mark.parametrize(("count", "case"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 5), (6, 5), (100, 5)])
def test_adapter_counts_are_clamped_to_the_largest_case(count: int, case: int) -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2, 4], 4, lora_cases=(0, 1, 2, 4, 5))
    dispatcher = V2Dispatcher(captures(given), given.lora_cases)
    assert dispatcher.effective_loras(count) == case
    found = dispatcher.dispatch(Batch(3, 3, 1, count))
    assert found.graph == Graph(4, 4, 1, None, case)


def test_adapters_without_a_captured_case() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2, 4], 4)
    assert V2Dispatcher(captures(given), (0,)).dispatch(Batch(3, 3, 1, 2)).mode is NONE


@pytest.mark.parametrize(
    ("batch", "mode"),
    [
        (Batch(12, 3, 4), FULL),
        (Batch(4, 1, 4), FULL),
        (Batch(12, 3, 4, has_prefill=True), PIECEWISE),
        (Batch(11, 3, 4), PIECEWISE),
        (Batch(12, 4, 3), PIECEWISE),
        (Batch(4, 4, 1), PIECEWISE),
    ],
)
def test_uniform_graphs_serve_equal_requests_without_a_prefill(batch: Batch, mode: CUDAGraphMode) -> None:
    given = spec("FULL_AND_PIECEWISE", [4, 8, 12, 16], 4, query_len=4)
    assert V2Dispatcher(captures(given), (0,)).dispatch(batch).mode is mode


def test_one_token_decodes_find_no_graph_of_speculative_decoding() -> None:
    """A batch of plain decodes is uniform with one token, which no graph of several tokens serves."""
    found = outcome(env=V2, max_num_seqs=64, speculative_config=drafting(tokens=3))
    assert found.dispatch(8, 2, 4).mode is FULL
    assert found.dispatch(8, 8, 1).mode is PIECEWISE


def test_a_prefill_never_runs_in_a_decode_graph() -> None:
    found = outcome(env=V2, max_num_seqs=64)
    assert found.dispatch(8, 8, 1).mode is FULL
    assert found.dispatch(8, 8, 1, has_prefill=True).mode is PIECEWISE


def test_an_empty_batch_runs_in_nothing() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2], 4)
    assert V2Dispatcher(captures(given), (0,)).dispatch(Batch(0, 0, 0)).mode is NONE


@pytest.mark.parametrize(
    ("max_num_seqs", "piecewise", "full"), [(256, 51, 35), (64, 19, 11), (264, 52, 36), (1024, 51, 51), (1, 2, 1)]
)
def test_default_graph_counts(max_num_seqs: int, piecewise: int, full: int) -> None:
    found = outcome(env=V2, max_num_seqs=max_num_seqs)
    assert (found.graph_count(PIECEWISE), found.graph_count(FULL)) == (piecewise, full)
    assert found.graph_count() == piecewise + full


def test_a_drafter_has_neither_adapters_nor_twins() -> None:
    given = spec("FULL_AND_PIECEWISE", [1, 2], 4, lora_cases=(0, 3), num_ubatches=2, varlen_decode=True)
    own = drafter_spec(given, CUDAGraphMode.FULL_DECODE_ONLY, 1)
    assert (own.lora_cases, own.num_ubatches, own.varlen_decode, own.query_lens) == ((0,), 1, False, (1,))
    assert made(own) == {"FULL": [(2, 2, 1), (1, 1, 1)]}


def test_without_replayssm_no_mixed_graph_is_bounded() -> None:
    """RecoverSSM follows from --use-replayssm alone, which is off by default."""
    model = ModelShape(architectures=("KimiLinearForCausalLM",), is_hybrid=True, mamba_backends=("GDN_ATTN",))
    found = outcome(model=model, max_num_seqs=4, speculative_config=drafting(tokens=1))
    assert [graph.num_tokens for graph in found.captures[PIECEWISE]] == sorted(found.capture_sizes, reverse=True)
