"""A refusal does not hide what does not rest on it, and names the release that takes the line."""

from __future__ import annotations

import pytest
from asked_lines import codes, told

from cgplan.check import Context, check
from cgplan.check.limits import most_requests
from cgplan.check.registry import CHECKS
from cgplan.releases import SUPPORTED

NVFP4 = "Qwen/Qwen3-8B --max-num-seqs 64 --kv-cache-dtype nvfp4 --attention-backend FLASHINFER"
TIGHT = "--gpu-memory-utilization 0.99"


def test_a_later_release_that_takes_the_line_is_named() -> None:
    one = told(NVFP4, "CG302", "0.29.0", "rtx5090")
    assert one is not None
    assert one.fix is not None
    assert one.fix.endswith("vLLM 0.32 and later take it (--vllm 0.32)")
    assert told(NVFP4, "CG302", "0.31.0", "rtx5090") is not None
    assert told(NVFP4, "CG302", "0.32.0", "rtx5090") is None


def test_no_release_is_named_where_none_takes_it() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 64 --attention-backend FLASHMLA"
    for release in ("0.25.1", SUPPORTED[-1]):
        one = told(line, "CG302", release, "a100")
        assert one is not None
        assert "and later take it" not in str(one.fix)


@pytest.mark.parametrize("line", [
    NVFP4,
    "Qwen/Qwen3-8B --max-num-seqs 64 --attention-backend FLASHMLA",
    "Qwen/Qwen3-8B --max-num-seqs 64 --cudagraph-capture-sizes 1 2 --max-cudagraph-capture-size 8",
    "Qwen/Qwen3-8B --max-num-seqs 64 --tensor-parallel-size 7",
])  # fmt: skip
def test_the_share_of_the_memory_is_looked_at_all_the_same(line: str) -> None:
    found = codes(f"{line} {TIGHT}", "0.29.0", "rtx5090")
    assert any(one.endswith(" error") for one in found)
    assert "CG520 warning" in found
    assert "CG520 warning" not in codes(f"{line} --gpu-memory-utilization 0.9", "0.29.0", "rtx5090")


def test_nothing_is_said_that_rests_on_the_refused_setting() -> None:
    backend = codes(f"{NVFP4} {TIGHT}", "0.29.0", "rtx5090")
    assert not [one for one in backend if one.startswith(("CG2", "CG33", "CG7"))]
    sizes = "Qwen/Qwen3-8B --max-num-seqs 64 --cudagraph-capture-sizes 1 2 --max-cudagraph-capture-size 8"
    assert codes(f"{sizes} {TIGHT}", "0.29.0", "h100") == ["CG117 error", "CG520 warning"]


def test_a_finding_beyond_a_refusal_changes_no_line() -> None:
    one = told(f"{NVFP4} {TIGHT}", "CG520", "0.29.0", "rtx5090")
    assert one is not None
    assert one.edits == ()
    assert one.flag is not None
    alone = told(f"Qwen/Qwen3-8B --max-num-seqs 64 {TIGHT}", "CG520", "0.29.0", "rtx5090")
    assert alone is not None
    assert alone.edits != ()


def test_the_memory_is_planned_where_only_the_backend_is_at_fault() -> None:
    line = "Qwen/Qwen3-32B --max-num-seqs 64 --attention-backend FLASHMLA"
    found = codes(line, "0.29.0", "l4")
    assert "CG302 error" in found
    assert any(one.startswith("CG597") for one in found)
    assert not any(one.startswith("CG597") for one in codes(line, "0.29.0", "h200"))


def test_a_mode_in_a_part_that_is_refused_is_not_spoken_of() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 64 --runner pooling"
    assert any(one.startswith("CG207") for one in codes(line))
    llama = "meta-llama/Llama-4-Scout-17B-16E-Instruct -tp 8 --max-num-seqs 64"
    assert any(one.startswith("CG332") for one in codes(llama, "0.19.1"))
    lost = codes(f'{llama} -O \'{{"cudagraph_mode":"FULL"}}\'', "0.19.1")
    assert any(one.startswith("CG905") for one in lost)
    assert not any(one.startswith("CG332") for one in lost)


def test_a_size_that_is_the_maximum_and_dropped_says_why() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 4 --max-num-batched-tokens 2048 --cudagraph-capture-sizes 1 2 4 9000"
    one = told(f"{line} --max-cudagraph-capture-size 9000", "CG117")
    assert one is not None
    assert "exceeds max_num_batched_tokens, 2048, and is dropped" in one.message
    other = told("Qwen/Qwen3-8B --cudagraph-capture-sizes 1 2 4 --max-cudagraph-capture-size 8", "CG117")
    assert other is not None
    assert "dropped" not in other.message


def test_the_most_requests_for_programs() -> None:
    line = "vllm serve Qwen/Qwen3.6-27B --max-num-seqs {}"
    refused = check(line.format(256), Context(release="0.33.0", settings={"num_gpu_blocks": 95}))
    assert refused.most_requests is not None
    assert refused.most_requests.value == 95
    assert "95 Mamba cache blocks" in refused.most_requests.reason
    assert check(line.format(64), Context(release="0.33.0", settings={"num_gpu_blocks": 95})).most_requests is None
    assert "CG501" not in CHECKS
    assert most_requests.__doc__


def test_the_encoder_is_in_the_list_of_what_needs_no_backend() -> None:
    line = "Qwen/Qwen3-VL-8B-Instruct --max-num-seqs 64 -cc.cudagraph_mm_encoder=true --attention-backend FLASHMLA"
    assert "CG594 warning" in codes(line, "0.33.0", "h100")
