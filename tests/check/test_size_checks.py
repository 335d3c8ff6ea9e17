from __future__ import annotations

import json

import pytest
from asked_lines import codes, drafts, mended, pointed_at, report, told
from hypothesis import given
from hypothesis import strategies as st

M = "Qwen/Qwen3-8B --max-num-seqs 16"
NAMED = f"{M} --cudagraph-capture-sizes"


@pytest.mark.parametrize(
    "line",
    [
        "Qwen/Qwen3-8B --max-num-seqs 256",
        "meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 128 -tp 2",
        "Qwen/Qwen3-30B-A3B --max-num-seqs 64 --gpu-memory-utilization 0.9",
        f"Qwen/Qwen3-8B --max-num-seqs 64 {drafts(3)} --attention-backend FLASH_ATTN",
        "Qwen/Qwen3-8B --max-num-seqs 16 --cudagraph-capture-sizes 1 2 4 8 16 32",
    ],
)
@pytest.mark.parametrize("release", ["0.22.1", "0.28.0", "0.30.0", "0.33.0"])
def test_good_lines_are_quiet(line: str, release: str) -> None:
    assert codes(line, release, "h100") == []


def test_vllms_own_defaults_are_no_warning() -> None:
    assert codes("Qwen/Qwen3-8B", on="h100") == ["CG701 info"]
    assert codes("Qwen/Qwen3-8B --max-num-seqs 1024", on="h100") == ["CG701 warning"]
    assert codes("Qwen/Qwen3-8B --max-cudagraph-capture-size 64", on="h100") == ["CG701 warning"]
    found = report("Qwen/Qwen3-8B", on="h100").resolution
    assert found is not None
    assert [(one.code, one.severity) for one in found.findings] == [("CG701", "info")]


def test_vllms_own_defaults_are_no_matter_where_the_gpu_is_assumed() -> None:
    """Which limits vLLM chooses depends on the GPU."""
    assert codes("Qwen/Qwen3-8B") == []
    assert codes("Qwen/Qwen3-8B --max-num-seqs 1024") == ["CG701 warning"]


def test_doubled_and_unsorted() -> None:
    one = told(f"{NAMED} 16 4 4 8", "CG150")
    assert one is not None
    assert "size 4 is named more than once" in one.message
    assert (one.severity, one.safe) == ("info", True)
    assert mended(f"{NAMED} 16 4 4 8", "CG150") == f"{NAMED} 4 8 16"
    assert told(f"{NAMED} 4 8 16", "CG150") is None
    unsorted = told(f"{NAMED} 16 4 8", "CG150")
    assert unsorted is not None
    assert "not ascending" in unsorted.message


def test_sizes_are_mended_where_they_stand() -> None:
    assert mended(f"{M} -cc.cudagraph_capture_sizes=[16,4,8]", "CG150") == f"{M} '-cc.cudagraph_capture_sizes=[4,8,16]'"
    whole = f"{M} -cc '{json.dumps({'cudagraph_capture_sizes': [16, 4, 8]})}'"
    one = told(whole, "CG150")
    assert one is not None
    assert (one.edits, one.flag) == ((), "-cc.cudagraph_capture_sizes=[4,8,16]")


def test_sizes_above_the_token_budget() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 8 --max-num-batched-tokens 256 --cudagraph-capture-sizes 1 2 4 8 512 1024"
    one = told(line, "CG115")
    assert one is not None
    assert one.message == "capture sizes 512, 1024 are dropped: no size exceeds max_num_batched_tokens, 256"
    assert one.safe
    before, after = report(line).resolution, report(mended(line, "CG115")).resolution
    assert before is not None
    assert after is not None
    assert before.captures == after.captures
    assert codes(mended(line, "CG115")) == []


def test_a_maximum_off_the_grid() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 64 --max-cudagraph-capture-size 100"
    assert mended(line, "CG116") == "Qwen/Qwen3-8B --max-num-seqs 64 --max-cudagraph-capture-size 96"
    assert codes(mended(line, "CG116")) == []


def test_sizes_that_make_no_graph() -> None:
    line = f"{M} -cc.cudagraph_mode=FULL_DECODE_ONLY --cudagraph-capture-sizes 1 4 16 32 64"
    one = told(line, "CG151")
    assert one is not None
    assert "capture sizes 32, 64 make no graph of their own" in one.message
    assert codes(mended(line, "CG151")) == codes(
        f"{M} -cc.cudagraph_mode=FULL_DECODE_ONLY --cudagraph-capture-sizes 1 4 16"
    )
    assert told(mended(line, "CG151"), "CG151") is None
    assert told(f"{NAMED} 1 4 16 32 64", "CG151") is None


@pytest.mark.parametrize(
    ("line", "idle"),
    [
        (f"{NAMED} 8 16 --performance-mode interactivity", True),
        (f"{M} --performance-mode interactivity", False),
        (f"{M} --max-num-batched-tokens 4096 --performance-mode throughput", True),
        (f"{M} --performance-mode throughput", False),
        (f"{M} --performance-mode balanced", False),
    ],
)
def test_performance_mode_without_effect(line: str, idle: bool) -> None:
    one = told(line, "CG153")
    assert (one is not None) is idle
    if one is not None:
        assert one.severity == "error"
        assert "--performance-mode" not in mended(line, "CG153")


def test_max_num_seqs_off_the_grid() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 100"
    one = told(line, "CG705", "0.30.0")
    assert one is not None
    assert (one.flag, one.safe, pointed_at(one)) == ("--max-num-seqs 104", False, "--max-num-seqs")
    assert codes(mended(line, "CG705", "0.30.0"), "0.30.0") == []
    assert codes(line, "0.31.0") == []


@given(st.integers(1, 600))
def test_the_mending_mends(seqs: int) -> None:
    line = f"Qwen/Qwen3-8B --max-num-seqs {seqs}"
    for code in ("CG701", "CG705"):
        if told(line, code, "0.30.0") is not None:
            after = report(mended(line, code, "0.30.0"), "0.30.0")
            assert not {"CG701", code} & {one.code for one in after.diagnostics}


def test_a_cliff_with_named_sizes() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 20 --cudagraph-capture-sizes 1 2 4 8 16"
    one = told(line, "CG701")
    assert one is not None
    assert one.flag == "--cudagraph-capture-sizes 1 2 4 8 16 20"
    assert codes(mended(line, "CG701")) == []


def test_a_gap_in_named_sizes() -> None:
    one = told("Qwen/Qwen3-8B --max-num-seqs 64 --cudagraph-capture-sizes 1 2 4 64", "CG706")
    assert one is not None
    assert one.message == "5 decode requests run as 64 tokens: 92.2% of the step is padding"
    assert one.flag == "--cudagraph-capture-sizes 1 2 4 8 16 32 64"
    line = "Qwen/Qwen3-8B --max-num-seqs 64 --cudagraph-capture-sizes 1 2 4 64"
    assert told(mended(line, "CG706"), "CG706") is None
    assert told("Qwen/Qwen3-8B --max-num-seqs 64 --cudagraph-capture-sizes 1 2 4 8 16 32 64", "CG706") is None


def test_the_other_wide_gaps_are_named() -> None:
    sizes = "16 32 48 64 96 128 160 192 256 512"
    one = told(f"Qwen/Qwen3-8B --max-num-seqs 512 --cudagraph-capture-sizes {sizes}", "CG706")
    assert one is not None
    assert one.message == (
        "1 decode request runs as 16 tokens: 93.8% of the step is padding; 193 as 256 (24.6%) and 257 as 512 (49.8%)"
    )
    assert one.fix == "add 1, 2, 4, 8, 224 and 384 to the capture sizes"
    assert one.flag == "--cudagraph-capture-sizes 1 2 4 8 16 32 48 64 96 128 160 192 224 256 384 512"


def test_a_named_list_that_is_too_short_grows_by_steps() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 1024 --cudagraph-capture-sizes 1 2 4"
    one = told(line, "CG701")
    assert one is not None
    assert one.flag == "--cudagraph-capture-sizes 1 2 4 8 16 32 64 128 256 512 1024"
    assert one.fix == f"use {one.flag}, or set --max-num-seqs 4"
    assert codes(mended(line, "CG701")) == []


def test_a_refused_line_has_no_cliff_of_defaults() -> None:
    assert codes("Qwen/Qwen3-8B --no-such-option", on="h100") == ["CG905 error"]


def test_a_single_number_of_requests() -> None:
    one = told("Qwen/Qwen3-8B --max-num-seqs 9", "CG705", "0.30.0")
    assert one is not None
    assert one.message == "decode batches of 9 requests lose their FULL graph to PIECEWISE"
