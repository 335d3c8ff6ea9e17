"""Tokens of a hybrid model in `cgplan plan`: what the release's log prints, and what they are counted in."""

from __future__ import annotations

import re

import pytest
from plan_cases import Run

QWEN = (
    "--gpu", "rtx5090", "--weights-bytes", "18.47GiB", "--", "vllm", "serve", "Qwen/Qwen3.6-27B",
    "--max-model-len", "16384", "--max-num-batched-tokens", "2048",
)  # fmt: skip


def printed(cgplan: Run, *words: str) -> tuple[int, float, str]:
    """Tokens, the concurrency, and the page without line breaks."""
    out = " ".join(cgplan("plan", *words)[1].split())
    tokens, times = re.search(r"KV tokens ([0-9,]+)", out), re.search(r"Concurrency ([0-9.]+)x", out)
    assert tokens
    assert times
    return int(tokens[1].replace(",", "")), float(times[1]), out


def test_until_019_they_are_of_one_group_of_layers(cgplan: Run) -> None:
    tokens, times, out = printed(cgplan, "--vllm", "0.19", *QWEN)
    assert tokens < times * 16384 / 2
    found = re.search(r"of one group of layers alone; in requests of the full length ([0-9,]+)", out)
    assert found
    assert int(found[1].replace(",", "")) == pytest.approx(times * 16384, rel=0.005)
    assert "counted in requests of the full length" not in out


def test_since_020_they_are_counted_in_requests(cgplan: Run) -> None:
    tokens, times, out = printed(cgplan, "--vllm", "0.22", *QWEN)
    assert tokens == pytest.approx(times * 16384, rel=0.005)
    assert "counted in requests of the full length" in out
    assert "one group of layers" not in out


def test_a_model_of_one_group_has_no_label(cgplan: Run) -> None:
    out = printed(cgplan, "--vllm", "0.19", "--model", "Qwen/Qwen3-8B", "--gpu", "h100")[2]
    assert "one group of layers" not in out
    assert "counted in requests" not in out
