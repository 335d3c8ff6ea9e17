"""Findings about decode batches that no graph covers, or not the one that was hoped for."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import V1, V2, compiling, drafting, outcome


def finding(code: str, **fields: Any) -> Any:
    """The only finding of `code`, or None."""
    found = [item for item in outcome(**fields).findings if item.code == code]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(("release", "noted"), [("0.30.0", True), ("0.31.0", False)])
def test_decode_batches_that_lose_full_are_named(release: str, noted: bool) -> None:
    """100 requests pad to 104, which no FULL decode graph holds until the size 100 is appended (0.31.0)."""
    found = finding("CG705", vllm=release, env=V2, max_num_seqs=100)
    assert (found is not None) is noted
    if found is not None:
        assert "97 to 100" in found.message
        assert found.fix == "set --max-num-seqs 96 or 104"


def test_the_offered_numbers_keep_full() -> None:
    for seqs in (96, 104):
        assert finding("CG705", vllm="0.30.0", env=V2, max_num_seqs=seqs) is None


def test_a_gap_in_named_sizes_is_noted() -> None:
    found = finding("CG706", env=V1, max_num_seqs=64, cudagraph_capture_sizes=[1, 2, 4, 4096])
    assert "5 decode requests run as 4096 tokens" in found.message
    assert finding("CG706", env=V1, max_num_seqs=64, cudagraph_capture_sizes=[1, 2, 4, 8, 16]) is None
    assert finding("CG706", max_num_seqs=64) is None


@pytest.mark.parametrize(
    ("seqs", "tokens", "asked", "env", "fix"),
    [
        (24, 1, 8, V2, "set --max-cudagraph-capture-size 24"),
        (6, 7, 42, V2, "set --max-cudagraph-capture-size 48"),
        (12, 4, 8, V1, "set --max-cudagraph-capture-size 48"),
    ],
)
def test_the_smallest_maximum_is_offered(seqs: int, tokens: int, asked: int, env: dict[str, str], fix: str) -> None:
    options = drafting("ngram", tokens - 1) if tokens > 1 else None
    fields = {"max_num_seqs": seqs, "speculative_config": options, "env": env}
    code = "CG704" if tokens > 1 else "CG701"
    found = finding(code, max_cudagraph_capture_size=asked, **fields)
    assert found.fix.startswith(fix)
    largest = int(fix.split()[-1])
    assert finding(code, max_cudagraph_capture_size=largest, **fields) is None


def test_a_cut_maximum_and_dropped_sizes_are_noted() -> None:
    assert "is 40, not 42" in finding("CG116", max_num_seqs=64, max_cudagraph_capture_size=42).message
    found = finding("CG115", max_num_batched_tokens=4096, cudagraph_capture_sizes=[8, 8192])
    assert "the largest left is 8" in found.message


def test_full_decode_only_has_no_piecewise_to_fall_back_to() -> None:
    options = compiling(cudagraph_mode="FULL_DECODE_ONLY")
    assert finding("CG705", vllm="0.30.0", env=V2, max_num_seqs=100, compilation_config=options) is None
    assert finding("CG701", vllm="0.30.0", env=V2, max_num_seqs=100, compilation_config=options) is not None
