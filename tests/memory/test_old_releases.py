"""What the layers of older releases keep."""

from __future__ import annotations

from typing import Any

import pytest
from kv_cases import B200, H200, by_name, deployment, layers_of

from cgplan import Deployment, ModelShape, StartupError, resolve
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.kv.cache import kv_cache
from cgplan.memory.kv_specs import FullAttentionSpec, MambaSpec, MLAAttentionSpec, SlidingWindowSpec
from cgplan.memory.layers.hybrid_alignment import kernel_block_with_configuration
from cgplan.memory.layers.kv_layers import kv_layers

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def attention(spec: object) -> FullAttentionSpec:
    assert isinstance(spec, FullAttentionSpec)
    return spec


@pytest.mark.parametrize(("vllm", "window"), [("0.28.0", 512), ("0.29.0", 513)])
def test_coheres_window_counts_the_token_itself(vllm: str, window: int) -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    config = {**SIZES, "model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"]}
    model = shape_of({**config, "sliding_window": 512, "layer_types": kinds})
    asked = Deployment(model=model, vllm=vllm)
    first = kv_layers(asked, resolve(asked)).stages[0][0].spec
    assert isinstance(first, SlidingWindowSpec)
    assert first.sliding_window == window


@pytest.mark.parametrize(("vllm", "dtype"), [("0.31.0", "bfloat16"), ("0.32.0", "uint8")])
def test_a_class_may_not_see_the_cache_dtype(vllm: str, dtype: str) -> None:
    found = layers_of("XiaomiMiMo/MiMo-V2-Flash", tensor_parallel_size=4, kv_cache_dtype="fp8", vllm=vllm, gpu=H200)
    assert attention(by_name(found)["model.layers.0.self_attn.attn"].spec).dtype == dtype


@pytest.mark.parametrize(("vllm", "count"), [("0.23.0", 78), ("0.24.0", 21)])
def test_every_sparse_layer_had_an_indexer(vllm: str, count: int) -> None:
    found = by_name(layers_of("zai-org/GLM-5.2", tensor_parallel_size=8, vllm=vllm, gpu=B200))
    assert sum(name.endswith("k_cache") for name in found) == count


@pytest.mark.parametrize(("vllm", "dtype"), [("0.25.1", "uint8"), ("0.26.0", "bfloat16")])
def test_mla_layers_did_not_skip_the_dtype(vllm: str, dtype: str) -> None:
    asked: dict[str, Any] = {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ("0",)}
    found = by_name(layers_of("deepseek-ai/DeepSeek-V3", tensor_parallel_size=8, vllm=vllm, gpu=H200, **asked))
    first = found["model.layers.0.self_attn.attn"].spec
    assert isinstance(first, MLAAttentionSpec)
    assert first.dtype == dtype


@pytest.mark.parametrize(("vllm", "backend"), [("0.23.0", "FLASH_ATTN"), ("0.25.1", "TRITON_ATTN")])
def test_a_language_model_forgot_its_wrappers_image_tokens(vllm: str, backend: str) -> None:
    found = layers_of("google/gemma-3-4b-it", vllm=vllm, gpu=H200)
    assert {layer.backend for layer in by_name(found).values()} == {backend}


def test_the_block_of_a_hybrid_was_sized_before_the_model_and_then_put_back() -> None:
    found = layers_of("nvidia/Nemotron-H-56B-Base-8K", tensor_parallel_size=8, vllm="0.19.1", gpu=H200)
    assert (found.before.block_size, found.settings[0].block_size) == (4128, 16)
    state = by_name(found)["model.layers.0.mixer"].spec
    assert isinstance(state, MambaSpec)
    assert state.page_size_bytes == found.settings[0].mamba_page_size_padded == 2113536


def test_a_users_block_of_a_hybrid_was_not_put_back() -> None:
    found = layers_of("Qwen/Qwen3.5-9B", block_size=32, vllm="0.19.1", gpu=H200)
    assert found.before.block_size == found.settings[0].block_size > 32


@pytest.mark.parametrize(
    ("use_mla", "backend", "tokens"), [(False, None, 16), (True, None, 64), (True, "CUTLASS_MLA", 128)]
)
def test_the_kernel_block_was_assumed(use_mla: bool, backend: str | None, tokens: int) -> None:
    assert kernel_block_with_configuration(use_mla, backend) == tokens


def test_kda_states_were_float32_whatever_was_asked() -> None:
    asked: dict[str, Any] = {"tensor_parallel_size": 8, "mamba_ssm_cache_dtype": "float16", "gpu": H200}
    state = by_name(layers_of("moonshotai/Kimi-K3", vllm="0.29.0", **asked))["language_model.model.layers.0.self_attn"]
    assert isinstance(state.spec, MambaSpec)
    assert state.spec.dtypes[1] == "float32"
    with pytest.raises(StartupError):
        layers_of("moonshotai/Kimi-K3", vllm="0.30.0", **asked)


@pytest.mark.parametrize(("vllm", "refused"), [("0.26.0", True), ("0.27.1", False)])
def test_a_step_had_to_hold_a_block_of_states(vllm: str, refused: bool) -> None:
    asks: dict[str, Any] = {"gpu": H200, "max_num_batched_tokens": 512, "enable_prefix_caching": True}
    asked = deployment("Qwen/Qwen3-Next-80B-A3B-Instruct", vllm=vllm, **asks)
    if not refused:
        assert kv_cache(asked, resolve(asked), [40 << 30]).plan.block_size == 544
        return
    with pytest.raises(StartupError, match="544 tokens do not fit into a step of 512") as error:
        kv_cache(asked, resolve(asked), [40 << 30])
    assert (error.value.code, error.value.raised_as) == ("CG554", "AssertionError")


def test_a_hand_filled_shape_works_in_every_release() -> None:
    for vllm in ("0.19.1", "0.24.0", "0.33.0"):
        asked = Deployment(model=ModelShape(), vllm=vllm)
        assert len(kv_layers(asked, resolve(asked)).stages[0]) == 32
