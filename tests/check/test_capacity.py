"""What a plan of the memory says in a check: only where the GPU and the model are known."""

from __future__ import annotations

import subprocess
import sys

import pytest
from asked_lines import codes, told

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
