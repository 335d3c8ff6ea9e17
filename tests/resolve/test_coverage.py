"""Coverage ranges: the same answers as one dispatch a batch."""

from __future__ import annotations

import re
from typing import Any

import pytest
from resolve_helpers import V1, V2, compiling, drafting, finding_codes, outcome

from cgplan import Batch, CUDAGraphMode, Resolution
from cgplan.resolve.coverage import Coverage, CoverageRange
from cgplan.resolve.dynamic_sd import tokens_at

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
TIERS: dict[str, Any] = {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 1]]}

DEPLOYMENTS: list[dict[str, Any]] = [
    {"max_num_seqs": 64},
    {"max_num_seqs": 1024, "max_num_batched_tokens": 1500},
    {"max_num_seqs": 264},
    {"max_num_seqs": 3, "max_num_batched_tokens": 17},
    {"max_num_seqs": 300, "max_cudagraph_capture_size": 1024, "max_num_batched_tokens": 2048},
    {"max_num_seqs": 200, "speculative_config": drafting(tokens=3), "max_num_batched_tokens": 1000},
    {"max_num_seqs": 64, "speculative_config": drafting(tokens=4, **TIERS), "max_num_batched_tokens": 600},
    {"max_num_seqs": 40, "enable_lora": True, "max_loras": 3, "specialize_active_lora": True},
    {"max_num_seqs": 40, "cudagraph_capture_sizes": [3, 5, 40, 77], "max_num_batched_tokens": 300},
    {"max_num_seqs": 40, "compilation_config": compiling(cudagraph_mode="FULL"), "max_num_batched_tokens": 300},
    {"max_num_seqs": 40, "compilation_config": compiling(cudagraph_mode="FULL_DECODE_ONLY")},
    {"max_num_seqs": 40, "compilation_config": compiling(cudagraph_mode="PIECEWISE")},
    {"max_num_seqs": 40, "compilation_config": compiling(cudagraph_mode="NONE")},
]


def spelled_out(coverage: Coverage) -> dict[int, tuple[CUDAGraphMode, int | None]]:
    found: dict[int, tuple[CUDAGraphMode, int | None]] = {}
    for item in coverage.ranges:
        for batch in range(item.first, item.last + 1):
            assert batch not in found
            found[batch] = (item.mode, item.padded)
    return found


def decode_by_hand(found: Resolution, loras: int = 0) -> dict[int, tuple[CUDAGraphMode, int | None]]:
    answers = {}
    for reqs in range(1, found.max_num_seqs + 1):
        drafts = found.uniform_decode_query_len - 1 if found.schedule is None else tokens_at(found.schedule, reqs)
        length = drafts + 1
        if reqs * length > found.max_num_batched_tokens:
            continue
        answer = found.dispatch_batch(Batch(reqs * length, reqs, length, loras))
        answers[reqs] = (answer.mode, answer.num_tokens if answer.graph else None)
    return answers


def mixed_by_hand(found: Resolution, most: int, loras: int = 0) -> dict[int, tuple[CUDAGraphMode, int | None]]:
    answers = {}
    for tokens in range(1, most + 1):
        answer = found.dispatch_batch(Batch(tokens, 1, tokens + 1, loras, has_prefill=True))
        answers[tokens] = (answer.mode, answer.num_tokens if answer.graph else None)
    return answers


@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
@pytest.mark.parametrize("fields", DEPLOYMENTS, ids=range(len(DEPLOYMENTS)))
def test_ranges_equal_one_dispatch_a_batch(env: dict[str, str], fields: dict[str, Any]) -> None:
    found = outcome(env=env, **fields)
    for loras in (0, 1) if found.lora else (0,):
        assert spelled_out(found.uniform_decode_coverage(loras)) == decode_by_hand(found, loras)
        mixed = spelled_out(found.mixed_coverage(loras))
        assert max(mixed) == found.max_num_batched_tokens
        most = min(found.max_num_batched_tokens, 1600)
        assert {n: mixed[n] for n in range(1, most + 1)} == mixed_by_hand(found, most, loras)


def test_ranges_join_wherever_the_answer_is_the_same() -> None:
    found = outcome(max_num_seqs=1024, env=V2)
    for coverage in (found.uniform_decode_coverage(), found.mixed_coverage()):
        for before, after in zip(coverage.ranges, coverage.ranges[1:], strict=False):
            assert after.first == before.last + 1
            assert (before.mode, before.padded, before.query_len) != (after.mode, after.padded, after.query_len)


def test_a6_decode_in_full_mixed_in_piecewise_up_to_the_largest_size() -> None:
    found = outcome(max_num_seqs=1024)
    assert found.uniform_decode_coverage().first_cliff == 513
    assert found.mixed_coverage().first_cliff == 513
    assert {r.mode for r in found.uniform_decode_coverage().ranges} == {FULL, NONE}
    assert {r.mode for r in found.mixed_coverage().ranges} == {PIECEWISE, NONE}


def test_no_cliff_within_the_cap() -> None:
    found = outcome(max_num_seqs=256)
    assert found.uniform_decode_coverage().first_cliff is None
    assert "CG701" not in finding_codes(found)
    assert "CG701" in finding_codes(outcome(max_num_seqs=1024))


CLIFFS: list[dict[str, Any]] = [
    {"max_num_seqs": 1024},
    {"max_num_seqs": 1000},
    {"max_num_seqs": 256, "speculative_config": drafting(tokens=3)},
    {"max_num_seqs": 250, "speculative_config": drafting(tokens=3)},
    {"max_num_seqs": 64, "cudagraph_capture_sizes": [1, 8, 16]},
    {
        "max_num_seqs": 256,
        "speculative_config": drafting(tokens=2),
        "compilation_config": compiling(cudagraph_mode="FULL_DECODE_ONLY"),
    },
    {
        "max_num_seqs": 300,
        "max_cudagraph_capture_size": 1024,
        "compilation_config": compiling(cudagraph_mode="FULL_DECODE_ONLY"),
    },
]


@pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])
@pytest.mark.parametrize("fields", CLIFFS, ids=range(len(CLIFFS)))
def test_the_warning_of_a_cliff_says_where_it_is(env: dict[str, str], fields: dict[str, Any]) -> None:
    found = outcome(env=env, **fields)
    cliff = found.uniform_decode_coverage().first_cliff
    assert cliff is not None
    (warning,) = [finding for finding in found.findings if finding.code in ("CG701", "CG704")]
    assert f"above {cliff - 1} requests" in warning.message


@pytest.mark.parametrize("fields", CLIFFS[:6], ids=range(6))
def test_the_fix_of_a_cliff_leaves_none(fields: dict[str, Any]) -> None:
    """Named sizes exclude a named maximum, and a maximum off the grid is cut to the grid."""
    found = outcome(env=V2, **fields)
    (warning,) = [finding for finding in found.findings if finding.code in ("CG701", "CG704")]
    named = re.search(r"--max-cudagraph-capture-size (\d+)", str(warning.fix))
    if named is not None:
        fields = {**fields, "max_cudagraph_capture_size": int(named.group(1))}
        assert outcome(env=V2, **fields).uniform_decode_coverage().first_cliff is None
    else:
        assert "cudagraph_capture_sizes" in fields


def test_no_cliff_means_no_warning() -> None:
    for fields in DEPLOYMENTS:
        found = outcome(**fields)
        if found.uniform_decode_coverage().first_cliff is None:
            assert not {"CG701", "CG704"} & finding_codes(found)


def test_worst_and_mean_of_the_51_sizes() -> None:
    found = outcome(max_num_seqs=256, max_num_batched_tokens=512)
    coverage = found.mixed_coverage()
    assert coverage.worst is not None
    assert (coverage.worst.first, coverage.worst.padded, coverage.worst.waste) == (9, 16, 7 / 16)
    by_hand = [found.dispatch(n, has_prefill=True).waste(n) for n in range(1, 513)]
    assert coverage.mean_waste == pytest.approx(sum(by_hand) / 512)


def test_without_a_graph_nothing_is_padded() -> None:
    coverage = outcome(enforce_eager=True, max_num_seqs=8).uniform_decode_coverage()
    assert coverage.ranges == (CoverageRange(1, 8, 1, NONE, None),)
    assert (coverage.worst, coverage.mean_waste, coverage.first_cliff) == (None, 0.0, 1)


def test_a_range_knows_its_worst_and_mean_waste() -> None:
    item = CoverageRange(5, 8, 1, FULL, 8)
    assert (item.waste, item.mean_waste) == (3 / 8, (3 + 2 + 1 + 0) / 4 / 8)
    decode = CoverageRange(5, 6, 4, FULL, 24)
    assert (decode.waste, decode.mean_waste) == (4 / 24, 2 / 24)


def test_decode_batches_end_with_the_token_budget() -> None:
    found = outcome(max_num_seqs=100, speculative_config=drafting(tokens=3), max_num_batched_tokens=100)
    assert found.uniform_decode_coverage().ranges[-1].last == 25


def test_tiers_are_covered_at_their_own_length() -> None:
    found = outcome(env=V2, max_num_seqs=64, speculative_config=drafting(tokens=4, **TIERS))
    lengths = {(r.query_len, r.first <= 8) for r in found.uniform_decode_coverage().ranges}
    assert lengths == {(5, True), (2, False)}
