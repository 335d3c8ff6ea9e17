"""A GPU that the catalogue lacks, by its compute capability and memory, in every command that takes --gpu."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_cases import Run

LOGS = Path(__file__).parents[2] / "fixtures/logs"
ALIKE = ("--gpu", "sm90", "--gpu-memory-bytes", "79.19GiB")


def test_a_plan_by_it_is_that_of_the_gpu_it_stands_for(cgplan: Run) -> None:
    asked = ("plan", "--model", "Qwen/Qwen3-8B")
    by_name = cgplan(*asked, "--gpu", "h100")[1]
    by_capability = cgplan(*asked, *ALIKE)[1]
    row = next(line for line in by_name.splitlines() if line.startswith("KV cache"))
    assert row in by_capability
    assert "GPU: 132 multiprocessors" in by_capability
    assert "GPU: 132 multiprocessors" not in by_name


@pytest.mark.parametrize("words", [("check", *ALIKE), ("plan", *ALIKE), ("resolve", *ALIKE)])
def test_behind_a_line(cgplan: Run, words: tuple[str, ...]) -> None:
    status, out, _ = cgplan(*words, "--", "vllm", "serve", "Qwen/Qwen3-8B")
    assert status == 0
    assert "a GPU of compute capability 9.0" in out


def test_a_log_is_held_against_it(cgplan: Run) -> None:
    status, out, err = cgplan("logs", str(LOGS / "A01.txt"), *ALIKE)
    assert "CG904" not in err
    assert status in (0, 1)
    assert out


def test_without_its_memory_it_is_refused(cgplan: Run) -> None:
    status, _, err = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "sm90")
    assert status == 2
    assert "--gpu sm90 --gpu-memory-bytes 80GiB" in err


def test_what_an_amd_gpu_is_told_to_give_works(cgplan: Run) -> None:
    status, _, err = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "mi325x")
    assert status == 2
    words = err.partition("known; ")[2].partition(" plans ")[0].split()
    assert words == ["--gpu", "sm90", "--gpu-memory-bytes", "256GiB"]
    assert cgplan("plan", "--model", "Qwen/Qwen3-8B", *words)[0] == 0
