"""The capture grid. Counts and lists are what vLLM 0.33.0's own function gives for these inputs."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import B200, B300, GB10, H100, RTX5090, codes, drafting, finding_codes, outcome, refused

from cgplan import CompilationOptions, CUDAGraphMode, Gpu, ModelShape, StartupError
from cgplan.resolve.grid import GridInput, capture_sizes, decode_tiers, grid_up_to, request_counts
from cgplan.trace import Trace


def sizes_of(max_num_seqs: int, tokens: int = 8192, query_len: int = 1, cap: int = 512, **more: Any) -> list[int]:
    more.setdefault("tiers", [(query_len, max_num_seqs)])
    return capture_sizes(GridInput(max_num_seqs, tokens, query_len, cap, **more), Trace())


@pytest.mark.parametrize(
    ("row", "max_num_seqs", "gpu", "count", "largest"),
    [
        ("B1", 16, H100, 7, 32),
        ("B2", 32, H100, 11, 64),
        ("B3", 64, H100, 19, 128),
        ("B4", 128, H100, 35, 256),
        ("B5", 256, H100, 51, 512),
        ("B6", 512, H100, 51, 512),
        ("B6", 1024, H100, 51, 512),
        ("B7", 264, H100, 52, 512),
        ("B9", 1024, B200, 83, 1024),
        ("B9", 512, B200, 83, 1024),
        ("B10", 1000, B200, 84, 1024),
        ("B10", 264, B200, 53, 528),
        ("B11", 128, H100, 35, 256),
        ("B14", 1024, B300, 83, 1024),
        ("B14", 1024, RTX5090, 51, 512),
        ("B14", 1024, GB10, 51, 512),
        ("B10", 256, B200, 51, 512),
    ],
)
def test_sizes_by_sequences_and_gpu(row: str, max_num_seqs: int, gpu: Gpu, count: int, largest: int) -> None:
    found = outcome(max_num_seqs=max_num_seqs, gpu=gpu, max_num_batched_tokens=8192)
    assert (len(found.capture_sizes), found.max_capture_size) == (count, largest), row


@pytest.mark.parametrize("max_num_seqs", range(257, 512))
def test_b8_every_off_grid_limit_above_256_adds_one_size(max_num_seqs: int) -> None:
    sizes = sizes_of(max_num_seqs)
    assert len(sizes) == (51 if max_num_seqs % 16 == 0 else 52)
    assert max_num_seqs in sizes


@pytest.mark.parametrize(
    ("max_num_seqs", "expected"),
    [
        (1, [1, 2]),
        (2, [1, 2, 4]),
        (3, [1, 2, 3, 4]),
        (4, [1, 2, 4, 8]),
        (5, [1, 2, 4, 5, 8]),
        (16, [1, 2, 4, 8, 16, 24, 32]),
    ],
)
def test_b13_small_limits(max_num_seqs: int, expected: list[int]) -> None:
    """The document implies that an off-grid limit below 256 adds nothing; it is appended like any other."""
    assert sizes_of(max_num_seqs) == expected


@pytest.mark.parametrize(("max_num_seqs", "count"), [(132, 36), (250, 51)])
def test_b13_off_grid_limits_below_256_are_appended(max_num_seqs: int, count: int) -> None:
    sizes = sizes_of(max_num_seqs)
    assert len(sizes) == count
    assert max_num_seqs in sizes


@pytest.mark.parametrize(
    ("tokens", "count", "tail"),
    [(500, 51, [480, 496, 500]), (512, 51, [480, 496, 512]), (100, 16, [88, 96, 100]), (1, 1, [1]), (3, 3, [1, 2, 3])],
)
def test_b12_the_token_budget_bounds_the_grid_and_is_its_last_size(tokens: int, count: int, tail: list[int]) -> None:
    sizes = sizes_of(256, tokens=tokens) if tokens >= 256 else sizes_of(min(256, tokens), tokens=tokens, user_max=512)
    assert (len(sizes), sizes[-len(tail) :]) == (count, tail)


def test_b16_gpt_oss_has_83_sizes() -> None:
    model = ModelShape(architectures=("GptOssForCausalLM",), model_type="gpt_oss", has_sinks=True)
    found = outcome(model=model, max_num_seqs=1024)
    assert (len(found.capture_sizes), found.max_capture_size) == (83, 1024)


def test_a_named_maximum_appends_no_off_grid_limit() -> None:
    found = outcome(max_num_seqs=300, max_cudagraph_capture_size=1024)
    assert len(found.capture_sizes) == 83
    assert 300 not in found.capture_sizes
    full = [graph.num_tokens for graph in found.captures[found.decode_mode]]
    assert max(full) == 288
    assert found.dispatch(288).mode.name == "FULL"
    assert [found.dispatch(n)[:2] for n in (289, 300)] == [(found.mixed_mode, 304)] * 2


def test_interactivity_captures_every_small_size() -> None:
    sizes = sizes_of(256, interactivity=True)
    assert len(sizes) == 76
    assert sizes[:33] == [*range(1, 33), 40]


@pytest.mark.parametrize(("cap", "expected"), [(1, [1]), (5, [1, 2, 3, 4, 5]), (31, list(range(1, 32)))])
def test_interactivity_below_its_bound(cap: int, expected: list[int]) -> None:
    assert grid_up_to(cap, interactivity=True) == expected


@pytest.mark.parametrize(
    ("max_num_seqs", "query_len", "count", "largest"),
    [(256, 4, 51, 512), (64, 3, 46, 384), (512, 17, 55, 512), (16, 2, 11, 64), (64, 5, 55, 512)],
)
def test_b17_speculative_decoding_appends_decode_sizes(
    max_num_seqs: int, query_len: int, count: int, largest: int
) -> None:
    sizes = sizes_of(max_num_seqs, query_len=query_len)
    assert (len(sizes), sizes[-1]) == (count, largest)


def test_the_grid_never_grows_to_the_widest_speculative_batch() -> None:
    found = outcome(max_num_seqs=256, speculative_config=drafting(tokens=3))
    assert found.max_capture_size == 512
    assert found.uniform_decode_coverage().first_cliff == 129
    assert "CG704" in finding_codes(found)


def test_dynamic_tiers_append_their_own_sizes() -> None:
    rows = [[1, 8, 4], [9, 64, 1]]
    dynamic = outcome(
        max_num_seqs=64,
        speculative_config=drafting(tokens=4, num_speculative_tokens_per_batch_size=rows),
        env={"VLLM_USE_V2_MODEL_RUNNER": "1"},
    )
    static = outcome(max_num_seqs=64, speculative_config=drafting(tokens=4))
    assert (len(dynamic.capture_sizes), dynamic.max_capture_size) == (54, 512)
    assert (len(static.capture_sizes), static.max_capture_size) == (55, 512)


def test_an_invalid_schedule_keeps_the_single_tier() -> None:
    rows = [[9, 64, 1]]
    options = drafting(tokens=4, num_speculative_tokens_per_batch_size=rows)
    found = outcome(max_num_seqs=64, speculative_config=options, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
    assert (len(found.capture_sizes), found.max_capture_size) == (55, 512)


@pytest.mark.parametrize(
    ("steps", "tiers"),
    [
        (None, [(5, 64)]),
        (((8, 4), (64, 1)), [(5, 8), (2, 64)]),
        (((8, 4), (16, 1), (64, 4)), [(5, 64), (2, 16)]),
    ],
)
def test_decode_tiers_keep_the_widest_batch(
    steps: tuple[tuple[int, int], ...] | None, tiers: list[tuple[int, int]]
) -> None:
    assert sorted(decode_tiers(5, 64, steps)) == sorted(tiers)


@pytest.mark.parametrize(
    ("most", "cap", "expected"),
    [(1, 512, [1]), (6, 512, [1, 2, 4, 6]), (20, 512, [1, 2, 4, 8, 16, 20]), (600, 16, [1, 2, 4, 8, 16])],
)
def test_request_counts_end_with_the_limit(most: int, cap: int, expected: list[int]) -> None:
    assert request_counts(most, cap) == expected


def test_user_sizes_replace_the_grid_without_an_upper_bound_of_their_own() -> None:
    assert sizes_of(256, tokens=8192, user_sizes=[4096, 2048]) == [2048, 4096]
    found = outcome(cudagraph_capture_sizes=[2048, 4096], max_num_batched_tokens=8192)
    assert (found.capture_sizes, found.max_capture_size) == ((2048, 4096), 4096)


def test_duplicate_user_sizes_count_as_overridden() -> None:
    found = outcome(cudagraph_capture_sizes=[1, 2, 4, 4])
    assert found.capture_sizes == (1, 2, 4)
    assert "CG115" in codes(found)
    assert "CG115" not in codes(outcome(cudagraph_capture_sizes=[1, 2, 4]))


def test_user_sizes_above_the_token_budget_are_dropped_silently() -> None:
    found = outcome(cudagraph_capture_sizes=[4096, 8192], max_num_batched_tokens=2048)
    assert (found.capture_sizes, found.max_capture_size, found.graph_count()) == ((), 0, 0)
    assert "CG130" in finding_codes(found)
    assert found.dispatch(1).mode.name == "NONE"


def test_user_maximum_is_truncated_to_the_grid() -> None:
    found = outcome(max_cudagraph_capture_size=100)
    assert found.max_capture_size == 96
    assert "CG116" in codes(found)


def test_user_maximum_above_the_token_budget_takes_the_budget() -> None:
    found = outcome(max_cudagraph_capture_size=1024, max_num_batched_tokens=500, max_num_seqs=64)
    assert found.max_capture_size == 500


def test_user_maximum_that_agrees_with_user_sizes() -> None:
    found = outcome(cudagraph_capture_sizes=[1, 2, 8], max_cudagraph_capture_size=8)
    assert found.max_capture_size == 8


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_cudagraph_capture_size": 0}, "CG118"),
        ({"max_cudagraph_capture_size": -5}, "CG118"),
        ({"cudagraph_capture_sizes": []}, "CG119"),
        ({"cudagraph_capture_sizes": [1, 2], "max_cudagraph_capture_size": 8}, "CG117"),
        ({"cudagraph_capture_sizes": [9000], "max_cudagraph_capture_size": 9000}, "CG117"),
        ({"cudagraph_capture_sizes": [1], "max_cudagraph_capture_size": 0}, "CG118"),
    ],
)
def test_contradictory_sizes_do_not_start(fields: dict[str, Any], code: str) -> None:
    error = refused(max_num_batched_tokens=8192, **fields)
    assert (error.code, error.stage, error.raised_as) == (code, "create_engine_config", "ValidationError")
    assert error.fix


def test_no_grid_means_no_size_check() -> None:
    """The checks belong to the grid; without graphs it never runs."""
    options = CompilationOptions(cudagraph_mode=CUDAGraphMode.NONE)
    found = outcome(compilation_config=options, cudagraph_capture_sizes=[])
    assert found.capture_sizes == ()


@pytest.mark.parametrize("append", [True, False])
def test_older_releases_do_not_append(append: bool) -> None:
    assert (264 in sizes_of(264, append_off_grid=append)) is append
    assert (20 in sizes_of(256, query_len=5, append_uniform_decode=append)) is append


def test_the_trace_says_which_rule_added_what() -> None:
    trace = Trace()
    capture_sizes(GridInput(264, 500, 1, 512, tiers=[(1, 264)]), trace)
    assert [d.code for d in trace.decisions] == ["CG112", "CG109", "CG113", "CG111"]
    assert [d.after for d in trace.decisions[2:]] == ["+ 500", "+ 264"]


def test_the_simulator_of_the_document_agrees_for_plain_deployments() -> None:
    """Row G: the formulas of the document's own simulator, valid for one-token decode without user sizes."""
    for max_num_seqs in (*range(1, 40), 63, 100, 128, 200, 255, 256, 300, 333, 512, 777, 1024):
        for tokens in (1024, 1030, 2048, 8192):
            cap = min(2 * max_num_seqs, 512)
            sizes = {n for n in (1, 2, 4) if n <= cap} | set(range(8, min(cap, 248) + 1, 8))
            sizes |= set(range(256, cap + 1, 16)) | {n for n in (max_num_seqs, tokens) if n <= cap}
            assert sizes_of(max_num_seqs, tokens=tokens) == sorted(sizes)


def test_errors_name_the_flag() -> None:
    with pytest.raises(StartupError) as caught:
        sizes_of(256, user_max=0)
    assert caught.value.where == "--max-cudagraph-capture-size"


@pytest.mark.parametrize(("named", "noted"), [((0, 4), True), ((-1, 4), True), ((1, 4), False)])
def test_a_size_below_one_is_noted(named: tuple[int, ...], noted: bool) -> None:
    trace = Trace()
    assert capture_sizes(GridInput(4, 500, 1, 512, user_sizes=named), trace) == sorted(named)
    assert ("CG136" in {finding.code for finding in trace.findings}) is noted
