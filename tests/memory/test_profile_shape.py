"""The decoder that the synthetic engine builds."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, InputError, gpu, load_model
from cgplan.memory.estimates import GIB
from cgplan.memory.profile.synthetic.shape import shape_of


def of(model: str, **fields: Any) -> Any:
    return shape_of(Deployment(model=load_model(model), gpu=gpu("h200"), **fields), 512)[0]


@pytest.mark.parametrize(
    ("model", "gib"),
    [("Qwen/Qwen2.5-0.5B-Instruct", 0.92), ("meta-llama/Llama-3.1-8B-Instruct", 13.98), ("Qwen/Qwen3-30B-A3B", 56.29)],
)
def test_weights_are_those_of_the_model_without_its_output_head(model: str, gib: float) -> None:
    """Measured on an H200 (torch's allocator): 0.93, 13.98 and 56.29 GiB."""
    assert of(model).weights_bytes / GIB == pytest.approx(gib, abs=0.02)


def test_ranks_share_the_heads_and_the_widths() -> None:
    one, two = of("meta-llama/Llama-3.1-8B-Instruct"), of("meta-llama/Llama-3.1-8B-Instruct", tensor_parallel_size=2)
    assert (two.heads, two.kv_heads, two.mlp) == (one.heads // 2, one.kv_heads // 2, one.mlp // 2)
    assert two.weights_bytes == pytest.approx(one.weights_bytes / 2, rel=0.01)


def test_more_ranks_than_kv_heads_copy_them() -> None:
    assert of("Qwen/Qwen2.5-7B-Instruct", tensor_parallel_size=7).kv_heads == 1


@pytest.mark.parametrize(
    ("model", "what"),
    [("deepseek-ai/DeepSeek-V3", "latent attention"), ("Qwen/Qwen3-Next-80B-A3B-Instruct", "state-space or linear")],
)
def test_what_it_cannot_build_is_refused(model: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        of(model)
    assert caught.value.code == "CG993"
    assert "--engine vllm" in str(caught.value.fix)


def test_heads_that_the_ranks_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="28 heads over 3 ranks"):
        of("Qwen/Qwen2.5-7B-Instruct", tensor_parallel_size=3)


def test_what_is_left_out_is_said() -> None:
    model = load_model("openai/gpt-oss-20b")
    _, notes = shape_of(Deployment(model=model, gpu=gpu("h200")), 512)
    assert any("mxfp4" in note for note in notes)
    assert any("full attention" in note for note in notes)
