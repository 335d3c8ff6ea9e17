from __future__ import annotations

import json

import pytest
from asked_lines import codes, drafts, mended, pointed_at, report, told

M = "Qwen/Qwen3-8B --max-num-seqs 6"


@pytest.mark.parametrize("release", ["0.22.1", "0.28.0", "0.33.0"])
def test_a_maximum_in_requests(release: str) -> None:
    line = f"{M} --max-cudagraph-capture-size 6 {drafts(3)} --attention-backend FLASH_ATTN"
    one = told(line, "CG440", release)
    assert one is not None
    assert "6 requests of 4 tokens need 24" in one.message
    assert (one.flag, pointed_at(one)) == ("--max-cudagraph-capture-size 24", "--max-cudagraph-capture-size")
    assert codes(line, release) == ["CG440 warning"]
    assert codes(mended(line, "CG440", release), release) == []


def test_sizes_in_requests() -> None:
    line = f"{M} --cudagraph-capture-sizes 1 2 4 6 {drafts(3)}"
    one = told(line, "CG440")
    assert one is not None
    assert one.flag == "--cudagraph-capture-sizes 1 2 4 6 12 24"
    assert told(mended(line, "CG440"), "CG440") is None


@pytest.mark.parametrize("line", [f"{M} --max-cudagraph-capture-size 24 {drafts(3)}", f"{M} {drafts(3)}"])
def test_a_maximum_in_tokens(line: str) -> None:
    assert codes(line) == []


def test_without_drafts_a_token_is_a_request() -> None:
    assert told(f"{M} --max-cudagraph-capture-size 2", "CG440") is None


def test_a_named_maximum_adds_no_decode_sizes() -> None:
    line = f"{M} --max-cudagraph-capture-size 42 {drafts(6)}"
    one = told(line, "CG441")
    assert one is not None
    assert one.flag == "--cudagraph-capture-sizes 7 14 21 28 35 42"
    assert one.fix is not None
    assert one.fix.startswith("drop --max-cudagraph-capture-size")
    assert codes(line) == ["CG441 warning"]
    after = report(mended(line, "CG441"))
    assert after.diagnostics == ()
    assert after.resolution is not None
    assert after.resolution.capture_sizes == (7, 14, 21, 28, 35, 42)
    assert codes(f"{M} {drafts(6)}") == []


def test_before_029_dropping_the_maximum_is_not_advised() -> None:
    one = told(f"{M} --max-cudagraph-capture-size 42 {drafts(6)}", "CG441", "0.28.0")
    if one is not None:
        assert "drop" not in (one.fix or "")


def test_the_grid_ends_below_the_fullest_batch() -> None:
    line = f"Qwen/Qwen3-8B --max-num-seqs 32 {drafts(16)}"
    one = told(line, "CG704")
    assert one is not None
    assert one.flag == "--max-cudagraph-capture-size 544"
    assert told(mended(line, "CG704"), "CG704") is None
    assert told(f"Qwen/Qwen3-8B --max-num-seqs 30 {drafts(16)}", "CG704") is None


def test_far_too_many_requests_are_lowered_instead() -> None:
    one = told(f"Qwen/Qwen3-8B --max-num-seqs 1024 {drafts(3)}", "CG704")
    assert one is not None
    assert one.flag == "--max-num-seqs 128"


def dynamic(*steps: list[int]) -> str:
    """Draft tokens by batch size: [first batch, last batch, tokens]."""
    config = {
        "method": "ngram",
        "num_speculative_tokens": steps[0][2],
        "num_speculative_tokens_per_batch_size": list(steps),
    }
    return f"--speculative-config '{json.dumps(config)}'"


def test_holes_between_full_graphs() -> None:
    line = f"Qwen/Qwen3-8B --max-num-seqs 64 {dynamic([1, 8, 5], [9, 32, 2], [33, 64, 1])}"
    one = told(line, "CG710")
    assert one is not None
    assert one.severity == "warning"
    assert "5, 9 to 10, 12 to 13, 17 to 18 and 8 more ranges of requests run PIECEWISE" in one.message
    even = f"Qwen/Qwen3-8B --max-num-seqs 64 {dynamic([1, 4, 3], [5, 64, 0])}"
    assert told(even, "CG710") is None
    assert told(f"Qwen/Qwen3-8B --max-num-seqs 64 {drafts(5)}", "CG710") is None


def test_the_fullest_batch_of_dynamic_drafts() -> None:
    steps = dynamic([1, 16, 7], [17, 64, 3])
    one = told(f"Qwen/Qwen3-8B --max-num-seqs 64 --max-cudagraph-capture-size 48 {steps}", "CG440")
    assert one is not None
    assert "64 requests of 4 tokens need 256" in one.message
