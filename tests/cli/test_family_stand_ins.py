"""A model that is not in the catalogue, beside one of its family that is."""

from __future__ import annotations

import json

import pytest
from plan_cases import Run

LIKE = "the shape of Qwen/Qwen2.5-7B, of the same family and size, in the place of Qwen/Qwen2-7B"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--model", "Qwen/Qwen2-7B"),
        ("resolve", "--model", "Qwen/Qwen2-7B"),
        ("tune", "--model", "Qwen/Qwen2-7B", "--shape", "low"),
        ("plan", "--", "vllm", "serve", "Qwen/Qwen2-7B"),
        ("resolve", "--", "vllm", "serve", "Qwen/Qwen2-7B"),
    ],
    ids=str,
)
def test_its_relative_stands_in_and_is_named(cgplan: Run, words: tuple[str, ...]) -> None:
    command, *rest = words
    status, out, err = cgplan(command, "--gpu", "h100", *rest)
    assert (status, err) == (0, "")
    assert LIKE in " ".join(out.split())


def test_its_weights_are_those_of_the_relative(cgplan: Run) -> None:
    found = [
        json.loads(cgplan("plan", "--json", "--gpu", "h100", "--model", name)[1])["weights_bytes"]
        for name in ("Qwen/Qwen2-7B", "Qwen/Qwen2.5-7B")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["plan", "resolve", "tune"])
@pytest.mark.parametrize("name", ["Qwen/Qwen3-8BB", "meta-llama/Llama-3.1-8B-Instrct"])
def test_a_slip_of_a_known_name_is_refused(cgplan: Run, command: str, name: str) -> None:
    more = ["--shape", "low"] if command == "tune" else []
    status, _, err = cgplan(command, "--gpu", "h100", "--model", name, *more)
    assert status == 2
    assert err.startswith("error[CG915]")
    assert "did you mean" in err


def test_check_plans_no_memory_of_a_relative(cgplan: Run) -> None:
    """On 24 GB the relative does not fit as it is; the model that is meant may."""

    def said(name: str) -> tuple[int, str]:
        status, out, _ = cgplan("check", "--gpu", "l4", "--", "vllm", "serve", name, "--max-model-len", "131072")
        return status, out

    status, out = said("Qwen/Qwen2-7B")
    assert (status, "CG953" in out, "error" in out) == (0, True, False)
    status, out = said("Qwen/Qwen2.5-7B")
    assert (status, "error CG5" in out) == (1, True)


def test_an_old_release_is_not_said_to_refuse(cgplan: Run) -> None:
    line = (
        "--gpu",
        "h100",
        "--model",
        "Qwen/Qwen3-8B",
        "--gpu-memory-utilization",
        "0.998",
        "--assume-release",
        "0.19.1",
    )
    status, out, _ = cgplan("plan", "--vllm", "0.8.5", *line)
    assert status == 0
    assert "refuse" not in out
    assert "0.8.5 is not known to look at that" in " ".join(out.split())
    status, out, _ = cgplan("plan", "--vllm", "0.10.2", *line)
    assert status == 1
    assert "refuses to start" in " ".join(out.split())
