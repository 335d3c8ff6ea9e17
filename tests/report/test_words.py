"""Words of the screen."""

from __future__ import annotations

import pytest

from cgplan.report.words import as_option, counted, sentence


def test_counted() -> None:
    assert [counted(number, "request") for number in (0, 1, 2)] == ["0 requests", "1 request", "2 requests"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the drafter is small", "The drafter is small."),
        ("vLLM: rules of 0.28.0", "vLLM: rules of 0.28.0."),
        ("max_model_len auto: taken.", "max_model_len auto: taken."),
        ("compilation_config.cache_dir: read", "compilation_config.cache_dir: read."),
        ("--max-loras: no effect", "--max-loras: no effect."),
        ("GPU: one", "GPU: one."),
    ],
)
def test_sentence(text: str, expected: str) -> None:
    assert sentence(text) == expected
    assert sentence(expected) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set VLLM_X=1, or less", "set --env VLLM_X=1, or less"),
        ("set --env VLLM_X=1", "set --env VLLM_X=1"),
        ("Unset VLLM_BATCH_INVARIANT", "drop --env VLLM_BATCH_INVARIANT"),
        ("TORCH_COMPILE_DISABLE=1 does it", "--env TORCH_COMPILE_DISABLE=1 does it"),
        ("VLLM_COMPILE is a mode", "VLLM_COMPILE is a mode"),
    ],
)
def test_variables_are_options(text: str, expected: str) -> None:
    assert as_option(text) == expected
    assert as_option(expected) == expected
