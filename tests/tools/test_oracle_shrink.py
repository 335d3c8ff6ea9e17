"""Shrinking, on comparators that need no vLLM."""

from __future__ import annotations

import importlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

shrink: Any = importlib.import_module("oracle.shrink")
sampling: Any = importlib.import_module("oracle.sampling")
Input = dict[str, Any]


def an_input() -> Input:
    return {
        "device": {"capability": [9, 0], "name": "a GPU"},
        "model": "qwen3",
        "usage_context": "LLM_CLASS",
        "args": {
            "max_num_seqs": 300,
            "enforce_eager": True,
            "compilation_config": {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 8, 16]},
        },
        "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"},
        "graph": {"support": ["ALWAYS", "NEVER"], "dispatch": [[1, 1, 1, 0, True], [8, 8, 1, 0, True]]},
    }


def seqs(found: Input) -> int:
    return int(found["args"].get("max_num_seqs", 0))


def test_one_cause_is_left() -> None:
    small = shrink.shrink(an_input(), lambda i: "eager" if i["args"].get("enforce_eager") else None)
    assert small == {"device": an_input()["device"], "model": "llama", "args": {"enforce_eager": True}, "graph": {}}


def test_two_causes_are_left_together() -> None:
    def kind(found: Input) -> str | None:
        sizes = found["args"].get("compilation_config", {}).get("cudagraph_capture_sizes", [])
        return "both" if 8 in sizes and "env" in found else None

    small = shrink.shrink(an_input(), kind)
    assert small["args"] == {"compilation_config": {"cudagraph_capture_sizes": [8]}}
    assert "env" in small


def test_a_number_goes_to_its_border() -> None:
    small = shrink.shrink(an_input(), lambda i: "many" if seqs(i) >= 37 else None)
    assert seqs(small) == 37


def test_a_model_that_matters_stays() -> None:
    assert shrink.shrink(an_input(), lambda i: "model" if i["model"] == "qwen3" else None)["model"] == "qwen3"


def test_another_kind_of_disagreement_is_not_followed() -> None:
    def kind(found: Input) -> str:
        return "large" if seqs(found) >= 100 else "small"

    assert seqs(shrink.shrink(an_input(), kind)) == 100


def test_an_input_without_a_disagreement_is_left_alone() -> None:
    assert shrink.shrink(an_input(), lambda i: None) == an_input()


def test_the_input_given_is_not_changed() -> None:
    given_input = an_input()
    shrink.shrink(given_input, lambda i: "always")
    assert given_input == an_input()


def test_tries_are_limited() -> None:
    calls = []

    def kind(found: Input) -> str:
        calls.append(found)
        return "large" if seqs(found) > 100 else "small"

    shrink.shrink(an_input(), kind, most_tries=7)
    assert len(calls) <= 8


@given(st.integers(0, 500), st.integers(0, 10**6))
def test_what_is_left_cannot_be_made_smaller(index: int, seed: int) -> None:
    found = sampling.sample("0.33.0", seed, 1)[0]["input"]
    names = sorted(found["args"])
    if not names:
        return
    name = names[index % len(names)]

    def kind(candidate: Input) -> str | None:
        return "it" if name in candidate["args"] else None

    small = shrink.shrink(found, kind, most_tries=2000)
    assert list(small["args"]) == [name]
    assert all(step(small) in (None, small) or kind(step(small)) is None for step in shrink.steps(small))
