from __future__ import annotations

import pytest
from asked_lines import codes, mended, pointed_at, told

from cgplan.check import Context, check
from cgplan.sections import Gpu

M = "Qwen/Qwen3-8B --max-num-seqs 64"
SMALL = Gpu(name="a small GPU", capability=(8, 9), memory_bytes=20 * 2**30, sm_count=60)
OFF = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0"


@pytest.mark.parametrize(
    ("used", "small", "unknown"), [("0.99", True, True), ("0.98", True, False), ("0.97", False, False)]
)
def test_margin(used: str, small: bool, unknown: bool) -> None:
    line = f"vllm serve {M} --gpu-memory-utilization {used}"
    assert any(one.code == "CG520" for one in check(line, Context(gpu=SMALL)).diagnostics) is small
    assert (told(line, "CG520") is not None) is unknown


def test_graphs_outside_the_budget() -> None:
    line = f"{M} --gpu-memory-utilization 0.95"
    one = told(line, "CG521", "0.19.1", "h100")
    assert one is not None
    assert "30 graphs" in one.message
    assert one.severity == "info"  # 4 GiB are outside, 30 graphs take half a GiB
    assert mended(line, "CG521", "0.19.1", "h100") == f"{M} --gpu-memory-utilization 0.9"
    assert told(line, "CG521", "0.28.0", "h100") is not None  # runner V2 estimates nothing before 0.29
    assert told(line, "CG521", "0.29.0", "h100") is None
    assert told(f"{M} --gpu-memory-utilization 0.9", "CG521", "0.19.1", "h100") is None
    assert told(f"{M} --gpu-memory-utilization 0.95 --enforce-eager", "CG521", "0.19.1", "h100") is None


def test_estimate_switched_off() -> None:
    line = f"vllm serve {M} --gpu-memory-utilization 0.97"
    one = told(f"{OFF} {line}", "CG522")
    assert one is not None
    assert f"({OFF})" in one.message
    assert told(line, "CG522") is None
    assert told(f"{OFF} vllm serve {M} --gpu-memory-utilization 0.9", "CG522") is None


def test_a_high_utilization_pays_for_the_estimate() -> None:
    assert codes(f"{M} --gpu-memory-utilization 0.96") == ["CG523 info"]
    assert codes(f"{M} --gpu-memory-utilization 0.92") == []
    assert told(f"{M} --gpu-memory-utilization 0.96 --enforce-eager", "CG523") is None


def test_unified_memory() -> None:
    # By default 110 of 119.7 GiB are asked for, and public starts of a GB10 had 101 to 113 free.
    assert codes(M, "0.33.0", "gb10") == ["CG504 info", "CG524 info"]
    assert codes(f"{M} --gpu-memory-utilization 0.8", "0.33.0", "gb10") == ["CG524 info"]
    assert codes(M, "0.33.0", "h100") == []
    assert told(f"{M} --kv-cache-memory-bytes 20G", "CG524", "0.33.0", "gb10") is None


def test_bytes_from_the_log() -> None:
    line = f"{M} --kv-cache-memory-bytes 20G"
    assert codes(line, "0.27.1") == codes(line, "0.26.0") == []  # runner V2 estimates nothing before 0.29
    assert codes(line, "0.29.0") == codes(line, "0.33.0") == ["CG525 info"]
    assert codes(f"{OFF} vllm serve {line}") == []


def test_stored_plan() -> None:
    one = told(f"VLLM_ENABLE_STARTUP_PLAN=1 vllm serve {M}", "CG526")
    assert pointed_at(one) == "VLLM_ENABLE_STARTUP_PLAN=1"
    assert told(f"VLLM_ENABLE_STARTUP_PLAN=0 vllm serve {M}", "CG526") is None
    assert told(f"VLLM_ENABLE_STARTUP_PLAN=1 vllm serve {M}", "CG526", "0.26.0") is None


def test_bytes_beside_a_utilization() -> None:
    one = told(f"{M} --kv-cache-memory-bytes 20G --gpu-memory-utilization 0.9", "CG527")
    assert pointed_at(one) == "--gpu-memory-utilization"
    assert told(f"{M} --kv-cache-memory-bytes 20G", "CG527") is None


@pytest.mark.parametrize(("release", "fires"), [("0.22.1", True), ("0.23.0", False), ("0.33.0", False)])
def test_encoder_graphs(release: str, fires: bool) -> None:
    line = "Qwen/Qwen3-VL-8B-Instruct --max-num-seqs 64 -cc.cudagraph_mm_encoder=true"
    assert (told(line, "CG528", release) is not None) is fires
    assert (told(line, "CG594", release) is not None) is not fires  # one of the two speaks of it
    for quiet in (
        "Qwen/Qwen3-VL-8B-Instruct --max-num-seqs 64",
        f"{line} --enforce-eager",
        f"{M} -cc.cudagraph_mm_encoder=true",
    ):
        assert told(quiet, "CG528", release) is None
        assert told(quiet, "CG594", release) is None


@pytest.mark.parametrize(
    ("model", "used", "severity"),
    [
        ("openai/gpt-oss-20b", "0.95", "warning"),  # ran out: 166 graphs, 0.77 GiB of logits
        ("meta-llama/Llama-3.1-8B-Instruct", "0.95", "info"),  # these two started
        ("google/gemma-3-27b-it", "0.95", "info"),
        ("meta-llama/Llama-3.1-8B-Instruct", "0.97", "warning"),
    ],
)
def test_a_warning_only_where_the_room_may_be_too_small(model: str, used: str, severity: str) -> None:
    one = told(f"{model} --max-model-len 8192 --gpu-memory-utilization {used}", "CG521", "0.19.1", "h100")
    assert one is not None
    assert one.severity == severity


def test_one_advice_about_the_margin() -> None:
    """CG521 advises 0.9, so that CG520 with 0.97 would contradict it."""
    line = f"{M} --gpu-memory-utilization 0.99"
    assert told(line, "CG520", "0.19.1", "h100") is None
    assert codes(line, "0.19.1", "h100") == ["CG521 warning"]
    assert codes(f"{line} --enforce-eager", "0.19.1", "h100") == ["CG242 info", "CG520 warning"]


def test_the_advice_of_the_log_is_not_put_below_what_is_given() -> None:
    one = told("Qwen/Qwen3-8B --gpu-memory-utilization 0.9764 --max-num-seqs 64", "CG523", "0.21.0", "rtx4090")
    assert one is not None
    assert "more than 0.9764" in one.message


@pytest.mark.parametrize(("release", "fires"), [("0.25.1", False), ("0.26.0", True), ("0.33.0", False)])
def test_gated_delta_layers(release: str, fires: bool) -> None:
    line = "Qwen/Qwen3.5-27B --max-num-seqs 64 --max-num-batched-tokens 16384"
    one = told(line, "CG529", release, "h100")
    assert (one is not None) is fires
    if one is not None:
        assert one.message.startswith("a part of the KV cache goes to a graph estimate that grows")
    assert told("Qwen/Qwen3.5-27B --max-num-seqs 64 --max-num-batched-tokens 4096", "CG529", release, "h100") is None


def test_gated_delta_layers_in_gib_only_of_the_model_that_was_measured() -> None:
    one = told("Qwen/Qwen3.5-122B-A10B --max-num-seqs 16 --max-num-batched-tokens 29818", "CG529", "0.26.0", "b200")
    assert one is not None
    assert one.message.startswith("about 3.6 GiB of the KV cache")


def test_gated_delta_layers_on_unified_memory() -> None:
    """CG524 says that the estimate is off by much more."""
    line = "Qwen/Qwen3.5-27B --max-num-seqs 64 --max-num-batched-tokens 16384"
    assert told(line, "CG529", "0.26.0", "gb10") is None
    assert told(line, "CG524", "0.26.0", "gb10") is not None
