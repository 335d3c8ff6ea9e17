"""The decoder that the synthetic engine builds."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import CgplanError, Deployment, InputError, gpu, load_model
from cgplan.inputs.catalogue import catalogue_names
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


def built(name: str) -> tuple[Any, tuple[str, ...], Any] | None:
    """The decoder of a model, what is said of it, and the model; None: it is refused."""
    try:
        model = load_model(name)
        shape, notes = shape_of(Deployment(model=model, gpu=gpu("h200")), 512)
    except CgplanError:
        return None
    return shape, notes, model


def test_every_model_of_the_catalogue_has_the_parameters_of_its_own_weights() -> None:
    """Those of cgplan's weights, but for the output head, towers and drafts. Where they differ, it is said."""
    checked = 0
    for name in catalogue_names():
        found = built(name)
        if found is None or found[2].weights is None:
            continue
        shape, notes, model = found
        own = sum(m.elements for m in model.weights.matrices if m.part not in ("vision", "draft", "head"))
        is_like = abs(shape.parameters / own - 1) <= 0.03
        assert is_like != any("billion parameters" in note for note in notes), (name, shape.parameters / own)
        assert is_like or "gemma-4-E4B" in name, f"{name}: {shape.parameters / own:.2f} of its parameters"
        checked += 1
    assert checked > 90


def test_two_projections_of_the_same_height_are_told_apart() -> None:
    """MiniMax M2: 2 x 1536 rows of gate and up are as many as the model is wide."""
    assert of("MiniMaxAI/MiniMax-M2").expert_mlp == 1536


def test_a_dense_mlp_beside_the_experts_is_a_shared_expert() -> None:
    shape = of("google/gemma-4-26B-A4B")
    assert (shape.dense_layers, shape.experts, shape.shared_mlp, shape.mlp) == (0, 128, 2112, 0)
    assert shape.weights_bytes / GIB == pytest.approx(47.0, abs=1.5)


def test_layers_with_other_heads_are_said_to_be_built_alike() -> None:
    shape, notes = shape_of(Deployment(model=load_model("google/gemma-4-31B-it"), gpu=gpu("h200")), 512)
    assert shape.head_size == 256
    assert "every layer has heads of 256, as most have, those with 512 too" in notes


@pytest.mark.parametrize(("method", "said"), [("ngram", False), ("eagle3", True)])
def test_a_drafter_that_is_left_out_is_said(method: str, said: bool) -> None:
    options = {"method": method, "num_speculative_tokens": 3}
    if said:
        options["model"] = load_model("meta-llama/Llama-3.2-1B-Instruct")
    asked = Deployment(
        model=load_model("meta-llama/Llama-3.1-8B-Instruct"), gpu=gpu("h200"), speculative_config=options
    )
    assert any("drafter (eagle3)" in note for note in shape_of(asked, 512)[1]) is said
