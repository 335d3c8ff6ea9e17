"""The model that a line names, and what stands in for it."""

from __future__ import annotations

import pytest

from cgplan.inputs.served_model import named_model


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("Qwen/Qwen3.6-27B-FP8", "Qwen/Qwen3.6-27B"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct"),
        ("an-org/Qwen3-14B-unsloth-bnb-4bit", "Qwen/Qwen3-14B"),
        ("an-org/Qwen3-32B-quantized.w4a16", "Qwen/Qwen3-32B"),
        ("an-org/Qwen3-4B-FP8-dynamic", "Qwen/Qwen3-4B"),
        ("an-org/Llama-3.3-70B-Instruct-NVFP4", "meta-llama/Llama-3.3-70B-Instruct"),
        ("an-org/Kimi-K2.6-INT4", "nvidia/Kimi-K2.6-NVFP4"),
        ("/models/qwen3-8b/", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"),
        ("an-org/Qwen3-8B-chat", "Qwen/Qwen3-8B"),
        ("an-org/my-model-AWQ", None),
        ("-FP8", None),
        ("/", None),
        ("~nobody/m", None),
    ],
)
def test_the_shape_that_stands_in(name: str, like: str | None) -> None:
    found = named_model(name)
    assert not found.is_known
    assert found.like == like
    assert found.shape.name == found.name
    assert found.shape.confidence is None or like is not None


def test_how_weights_are_stored_is_not_taken_over() -> None:
    found = named_model("an-org/Kimi-K2.6-INT4")
    assert (found.shape.use_mla, found.shape.quantization, found.shape.kv_cache_dtype) == (True, None, None)
    assert found.shape.weights is None


def test_a_known_model_is_itself() -> None:
    found = named_model("nvidia/Kimi-K2.6-NVFP4")
    assert found.is_known
    assert found.like is None
    assert found.shape.quantization == "modelopt_fp4"


def test_a_model_whose_shape_cannot_be_read_stands_in_for_none() -> None:
    """MiniMax-M3 is in the catalogue and unknown to the registry."""
    assert named_model("an-org/MiniMax-M3-AWQ").like is None
