"""Layers of whole models: names, specs, stages, drafts."""

from __future__ import annotations

from typing import Any

import pytest
from kv_cases import A100, B200, H200, by_name, deployment, layers_of

from cgplan import Deployment, InputError, ModelShape, StartupError, resolve
from cgplan.memory.kv_specs import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from cgplan.memory.layers.kv_layers import kv_layers

EAGLE = ModelShape(architectures=("LlamaForCausalLM",), num_hidden_layers=1, hidden_size=4096)


def kinds(model: str, **fields: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for layer in by_name(layers_of(model, **fields)).values():
        found[layer.spec.kind] = found.get(layer.spec.kind, 0) + 1
    return found


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", {"FullAttentionSpec": 32}),
        ("Qwen/Qwen3-235B-A22B", {"FullAttentionSpec": 94}),
        ("google/gemma-3-27b-it", {"SlidingWindowSpec": 52, "FullAttentionSpec": 10}),
        ("openai/gpt-oss-20b", {"SlidingWindowSpec": 12, "FullAttentionSpec": 12}),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"ChunkedLocalAttentionSpec": 36, "FullAttentionSpec": 12}),
        ("deepseek-ai/DeepSeek-V3", {"MLAAttentionSpec": 61}),
        ("zai-org/GLM-5.2", {"MLAAttentionSpec": 99}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"MambaSpec": 36, "FullAttentionSpec": 12}),
        ("ai21labs/AI21-Jamba-1.5-Mini", {"MambaSpec": 28, "FullAttentionSpec": 4}),
        ("nvidia/Nemotron-H-8B-Base-8K", {"MambaSpec": 24, "FullAttentionSpec": 4}),
        ("ibm-granite/granite-4.0-h-1b", {"MambaSpec": 36, "FullAttentionSpec": 4}),
        ("moonshotai/Kimi-K3", {"MambaSpec": 69, "MLAAttentionSpec": 24}),
        ("XiaomiMiMo/MiMo-V2-Flash", {"FullAttentionSpec": 9, "SlidingWindowSpec": 39}),
    ],
)
def test_kinds_of_layers(model: str, count: dict[str, int]) -> None:
    assert kinds(model, tensor_parallel_size=4, gpu=H200) == count


def test_layers_that_share_a_cache_keep_nothing() -> None:
    names = by_name(layers_of("google/gemma-4-E4B-it"))
    assert len(names) == 42 - 18
    full = names["language_model.model.layers.5.self_attn.attn"].spec
    sliding = names["language_model.model.layers.0.self_attn.attn"].spec
    assert isinstance(full, FullAttentionSpec)
    assert isinstance(sliding, SlidingWindowSpec)
    assert (full.head_size, sliding.head_size) == (512, 256)


def test_full_layers_may_have_their_own_number_of_heads() -> None:
    found = by_name(layers_of("google/gemma-4-26B-A4B", tensor_parallel_size=2))
    full = found["language_model.model.layers.5.self_attn.attn"].spec
    assert isinstance(full, FullAttentionSpec)
    assert (full.num_kv_heads, full.head_size) == (1, 512)


def test_values_may_be_shorter_than_keys() -> None:
    layer = by_name(layers_of("XiaomiMiMo/MiMo-V2-Flash", tensor_parallel_size=4))["model.layers.0.self_attn.attn"]
    assert isinstance(layer.spec, FullAttentionSpec)
    assert (layer.spec.head_size, layer.spec.head_size_v) == (192, 128)
    assert layer.backend == "FLASH_ATTN_DIFFKV"


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1)])
def test_heads_are_divided_and_then_replicated(tp: int, heads: int) -> None:
    asked = Deployment(tensor_parallel_size=tp, gpus_per_node=16)
    spec = kv_layers(asked, resolve(asked)).stages[0][0].spec
    assert isinstance(spec, FullAttentionSpec)
    assert spec.num_kv_heads == heads


def test_heads_that_do_neither_do_not_load() -> None:
    model = ModelShape(num_attention_heads=48, num_kv_heads=8)
    asked = Deployment(model=model, tensor_parallel_size=3)
    with pytest.raises(StartupError) as error:
        kv_layers(asked, resolve(asked))
    assert (error.value.code, error.value.raised_as) == ("CG540", "AssertionError")


def test_sparse_kernels_read_layouts_of_their_own() -> None:
    fp8 = layers_of("deepseek-ai/DeepSeek-V3.2", tensor_parallel_size=8, kv_cache_dtype="fp8")
    latent = by_name(fp8)["model.layers.0.self_attn.attn"].spec
    assert isinstance(latent, MLAAttentionSpec)
    assert (latent.cache_dtype_str, latent.page_size_bytes) == ("fp8_ds_mla", 64 * 656)
    assert fp8.settings[0].cache_dtype == "fp8_ds_mla"
    plain = by_name(layers_of("deepseek-ai/DeepSeek-V3", tensor_parallel_size=8, kv_cache_dtype="fp8"))
    assert plain["model.layers.0.self_attn.attn"].spec.page_size_bytes == 64 * 576


def test_an_indexer_keeps_keys_in_some_layers_only() -> None:
    found = by_name(layers_of("zai-org/GLM-5.2", tensor_parallel_size=8))
    indexers = [name for name in found if name.endswith("k_cache")]
    assert len(indexers) == 21
    shared = found["model.layers.3.self_attn.attn"].spec
    leader = found["model.layers.2.self_attn.attn"].spec
    assert isinstance(shared, MLAAttentionSpec)
    assert isinstance(leader, MLAAttentionSpec)
    assert (shared.is_index_group_leader, leader.is_index_group_leader) == (False, True)
    assert list(found)[:2] == ["model.layers.0.self_attn.indexer.k_cache", "model.layers.0.self_attn.attn"]


def test_parts_of_a_deepseek_v4_layer() -> None:
    found = by_name(layers_of("deepseek-ai/DeepSeek-V4-Flash", tensor_parallel_size=8))
    window = found["model.layers.2.attn.swa_cache"].spec
    sparse = found["model.layers.2.attn"].spec
    assert isinstance(window, SlidingWindowMLASpec)
    assert isinstance(sparse, MLAAttentionSpec)
    assert (window.page_size_bytes, sparse.page_size_bytes) == (37440, 37440)
    assert found["model.layers.2.attn.indexer.k_cache"].spec.page_size_bytes == 8640
    assert found["model.layers.2.attn.compressor.state_cache"].spec.page_size_bytes == 32832


def test_states_are_padded_to_the_attention_page() -> None:
    found = by_name(layers_of("Qwen/Qwen3-Next-80B-A3B-Instruct", gpu=H200))
    state = found["model.layers.0.linear_attn"].spec
    attention = found["model.layers.3.self_attn.attn"].spec
    assert isinstance(state, MambaSpec)
    assert state.page_size_bytes == attention.page_size_bytes == 576 * 2048
    assert (state.num_prefill_checkpoint_blocks, state.prefill_checkpoint_alignment) == (1, 576)


def test_no_kernel_of_an_a100_exports_a_state() -> None:
    state = by_name(layers_of("Qwen/Qwen3-Next-80B-A3B-Instruct", gpu=A100))["model.layers.0.linear_attn"].spec
    assert isinstance(state, MambaSpec)
    assert (state.num_prefill_checkpoint_blocks, state.block_size) == (0, 544)


def test_drafts_keep_states_too() -> None:
    draft = {"method": "mtp", "num_speculative_tokens": 3}
    found = by_name(layers_of("Qwen/Qwen3.5-9B", draft=draft, gpu=H200))
    state = found["language_model.model.layers.0.linear_attn"].spec
    assert isinstance(state, MambaSpec)
    assert (state.num_speculative_blocks, state.shapes[0]) == (3, (6, 8192))
    own = found["mtp.layers.0.self_attn.attn"].spec
    assert (own.kind, own.is_draft) == ("FullAttentionSpec", True)


def test_names_of_drafts() -> None:
    eagle = by_name(layers_of(model=None, draft={"method": "eagle", "model": EAGLE, "num_speculative_tokens": 2}))
    assert list(eagle)[-1] == "model.layers.32.self_attn.attn"
    small = by_name(layers_of(model=None, draft={"model": EAGLE, "num_speculative_tokens": 2}))
    assert list(small)[-1] == "draft_model.model.layers.0.self_attn.attn"
    ngram = layers_of(model=None, draft={"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4})
    assert len(by_name(ngram)) == 32


def test_an_eagle_draft_behind_pipeline_stages_meets_its_own_number() -> None:
    eagle = {"method": "eagle", "model": EAGLE, "num_speculative_tokens": 2}
    with pytest.raises(StartupError, match=r"layers\.16\.") as error:
        layers_of(model=None, draft=eagle, pipeline_parallel_size=2)
    assert error.value.code == "CG558"
    assert layers_of(model=None, draft=eagle, pipeline_parallel_size=1)


def test_stages_share_the_layers_out() -> None:
    found = layers_of("meta-llama/Llama-3.1-8B-Instruct", pipeline_parallel_size=3)
    assert [len(stage) for stage in found.stages] == [11, 11, 10]
    assert found.stages[1][0].name == "model.layers.11.self_attn.attn"


def test_each_stage_settles_its_own_block() -> None:
    found = layers_of("nvidia/Nemotron-H-8B-Base-8K", pipeline_parallel_size=5, gpu=H200)
    assert [settings.block_size for settings in found.settings] == [1040, 1040, 1040, 1040, 16]


def test_layers_that_skip_the_dtype() -> None:
    skipping = layers_of(
        "meta-llama/Llama-3.1-8B-Instruct", kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=("0", "1"), gpu=H200
    )
    found = by_name(skipping)
    first, third = (found[f"model.layers.{i}.self_attn.attn"].spec for i in (0, 2))
    assert isinstance(first, FullAttentionSpec)
    assert isinstance(third, FullAttentionSpec)
    assert (first.dtype, third.dtype) == ("bfloat16", "uint8")
    assert skipping.settings[0].block_size == 32


def test_turboquant_leaves_the_boundary_alone() -> None:
    found = by_name(layers_of("Qwen/Qwen2.5-7B", kv_cache_dtype="turboquant_k8v4", gpu=H200))
    backends = [layer.backend for layer in found.values()]
    assert backends[:2] == backends[-2:] == ["FLASH_ATTN"] * 2
    assert set(backends[2:-2]) == {"TURBOQUANT"}


def test_a_checkpoint_may_ask_for_fp8_when_its_layers_are_built() -> None:
    found = layers_of("poolside/Laguna-S-2.1-FP8", tensor_parallel_size=4, gpu=H200)
    assert (found.before.cache_dtype, found.stages[0][0].spec.page_size_bytes) == ("fp8", 16 * 2 * 256)


def test_a_window_may_hold_for_all_layers() -> None:
    assert set(kinds("mistralai/Mistral-7B-v0.3")) == {"FullAttentionSpec"}
    model = ModelShape(sliding_window=4096, has_full_attention_layers=False)
    asked = Deployment(model=model)
    assert {layer.spec.kind for layer in kv_layers(asked, resolve(asked)).stages[0]} == {"SlidingWindowSpec"}


def test_sliding_layers_choose_their_block() -> None:
    sliding = by_name(layers_of("openai/gpt-oss-20b", gpu=B200, block_size=128))["model.layers.0.attn.attn"].spec
    assert (sliding.kind, sliding.block_size) == ("SlidingWindowSpec", 64)


def test_chunks_stay_chunks() -> None:
    layer = by_name(layers_of("meta-llama/Llama-4-Scout-17B-16E-Instruct", tensor_parallel_size=8))
    spec = layer["language_model.model.layers.0.self_attn.attn"].spec
    assert isinstance(spec, ChunkedLocalAttentionSpec)
    assert spec.attention_chunk_size == 8192


@pytest.mark.parametrize("architecture", ["BloomForCausalLM", "NoSuchForCausalLM"])
def test_an_unknown_model_is_not_guessed(architecture: str) -> None:
    asked = Deployment(model=ModelShape(architectures=(architecture,)))
    with pytest.raises(InputError) as error:
        kv_layers(asked, resolve(asked))
    assert error.value.code == "CG543"


def test_a_draft_that_is_not_known_is_not_guessed() -> None:
    asked = deployment(draft={"method": "mtp", "num_speculative_tokens": 1}, model="Qwen/Qwen3-8B")
    with pytest.raises((InputError, StartupError)):
        kv_layers(asked, resolve(asked))
