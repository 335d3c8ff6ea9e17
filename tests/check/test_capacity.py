"""What a plan of the memory says in a check: only where the GPU and the model are known."""

from __future__ import annotations

import subprocess
import sys

import pytest
from asked_lines import codes, told

from cgplan import Deployment, MemoryFlags, load_model, plan
from cgplan.releases.gpus import gpu
from cgplan.report.rules import find


@pytest.mark.parametrize(
    ("line", "on", "code", "severity", "fix"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "h100", "CG597", "error", "--tensor-parallel-size 4"),
        ("Qwen/Qwen3-8B", "l4", "CG561", "error", "--max-model-len"),
        ("Qwen/Qwen3.6-27B --gpu-memory-utilization 0.95", "h100", "CG501", "error", "--max-num-seqs 256"),
        ("Qwen/Qwen3-8B --num-gpu-blocks-override 1000000", "h100", "CG577", "error", "--num-gpu-blocks-override"),
        ("Qwen/Qwen3-8B -q awq", "h100", "CG143", "error", "leave --quantization out"),
    ],
)
def test_what_does_not_fit(line: str, on: str, code: str, severity: str, fix: str) -> None:
    one = told(line, code, on=on)
    assert one is not None
    assert one.severity == severity
    assert fix in str(one.fix)


@pytest.mark.parametrize(
    ("line", "on"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct -tp 4 --max-num-seqs 256", "h100"),
        ("Qwen/Qwen3-8B --max-model-len 8192", "l4"),
        ("Qwen/Qwen3.6-27B --gpu-memory-utilization 0.9 --max-num-seqs 256", "h100"),
    ],
)
def test_what_fits(line: str, on: str) -> None:
    assert [code for code in codes(line, on=on) if "error" in code or "warning" in code] == []


@pytest.mark.parametrize(
    ("line", "on", "code", "by_best"),
    [
        ("moonshotai/Kimi-K2-Instruct -tp 8", "h200", "CG560", False),
        ("Qwen/Qwen2.5-VL-7B-Instruct --max-model-len 32768", "l4", "CG560", False),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8 -tp 2", "h100", "CG501", True),
    ],
)
def test_what_does_not_start_by_the_plan_is_an_error(line: str, on: str, code: str, by_best: bool) -> None:
    one = told(line, code, "0.22.1" if by_best else "0.33.0", on=on)
    assert one is not None
    assert one.severity == "error"
    assert ("it does not start by the best estimate" in one.message) is by_best


def test_what_only_the_bounds_leave_open_is_an_information() -> None:
    one = told("Qwen/Qwen3.5-27B --max-num-seqs 380", "CG501", "0.25.1", on="h100")
    assert one is not None
    assert one.severity == "info"


def test_weights_by_the_name_of_the_model() -> None:
    line = "Qwen/Qwen3.6-27B-FP8 --gpu-memory-utilization 0.95"
    one = told(line, "CG501", "0.20.2", on="h100")
    assert one is not None
    assert (one.severity, one.flag) == ("error", "--max-num-seqs 512")
    assert not any(code.startswith("CG501") for code in codes(f"{line} --max-num-seqs 512", "0.20.2", "h100"))


def test_the_advice_is_that_of_the_plan() -> None:
    line = "openai/gpt-oss-20b --max-model-len 8192 --gpu-memory-utilization 0.95 --no-enable-prefix-caching"
    one = told(line, "CG521", "0.19.1", on="h100")
    assert one is not None
    assert one.flag == "--gpu-memory-utilization 0.92"
    made = plan(
        Deployment(
            model=load_model("openai/gpt-oss-20b"), gpu=gpu("h100"), vllm="0.19.1",
            max_model_len=8192, enable_prefix_caching=False,
        ),
        MemoryFlags(0.95),
    )  # fmt: skip
    assert one.fix == next(found.fix for found in made.findings if found.code == "CG509")


def test_a_gpu_that_is_not_named_is_not_planned_for() -> None:
    assert told("meta-llama/Llama-3.3-70B-Instruct", "CG597") is None
    assert told("Qwen/Qwen3.6-27B", "CG511") is not None


def test_one_reason_is_given_once() -> None:
    # Little is left outside the budget: CG521 says so, and the plan's CG509 not again.
    line = "openai/gpt-oss-20b --max-model-len 8192 --gpu-memory-utilization 0.95 --no-enable-prefix-caching"
    found = codes(line, "0.19.1", "h100")
    assert any(code.startswith("CG521") for code in found)
    assert not any(code.startswith("CG509") for code in found)
    assert not any(code.startswith("CG511") for code in codes("Qwen/Qwen3.6-27B", on="h100"))


def test_no_plan_is_loaded_without_a_gpu() -> None:
    script = (
        "import sys; from cgplan import check; check('vllm serve Qwen/Qwen3-8B');"
        "print('cgplan.memory.plan' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize(("old", "new"), [("CG591", "CG525"), ("cg595", "CG529")])
def test_codes_that_were_given_twice(old: str, new: str) -> None:
    assert find(old).code == new


def test_a_prefill_that_vllm_does_not_profile() -> None:
    """CG552: a warning where the memory left outside may not hold it; where it does, only `plan` says so."""
    line = "Qwen/Qwen3.5-9B --max-num-batched-tokens 8192 --gpu-memory-utilization"
    tight = told(f"{line} 0.97", "CG552", on="l40s")
    assert tight is not None
    assert tight.severity == "warning"
    assert "from reading, not measured" in tight.message
    assert told(f"{line} 0.8", "CG552", on="l40s") is None
    assert told(f"{line} 0.97", "CG552", on="h100") is None  # FlashInfer prefills there


@pytest.mark.parametrize(("on", "starts"), [("l40s", False), ("a100", False), ("h200", True)])
def test_attention_without_kernels_for_the_gpu(on: str, starts: bool) -> None:
    one = told("deepseek-ai/DeepSeek-V4-Flash -tp 8", "CG336", on=on)
    assert (one is None) is starts
    if one is not None:
        assert one.severity == "error"
