"""Cached layers out of config.json, beside what whole models of the catalogue show (tests/memory)."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan.cache_layers import CacheShape
from cgplan.inputs.catalogue import catalogue_ids, load
from cgplan.inputs.hf_config import shape_of
from cgplan.releases import table

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def cache_of(model_type: str, architecture: str, **keys: Any) -> CacheShape:
    shape = shape_of({**SIZES, "model_type": model_type, "architectures": [architecture], **keys})
    assert shape.cache is not None, shape.cache_unknown
    return shape.cache


def windows(cache: CacheShape) -> dict[int, int | None]:
    return {index: group.sliding_window for group in cache.layers for index in group.layers}


def test_every_served_model_of_the_catalogue_but_a_few_is_known() -> None:
    unknown = {entry.model_id for entry in catalogue_ids() if entry.served and load(entry.model_id).cache is None}
    assert unknown <= {"tiiuae/Falcon-H1-0.5B-Base"}


def test_a_dense_decoder_has_one_kind_of_layer() -> None:
    (group,) = cache_of("llama", "LlamaForCausalLM").layers
    assert (group.name, group.layers) == ("model.layers.{}.self_attn.attn", tuple(range(8)))
    assert (group.num_heads, group.num_kv_heads, group.head_size) == (16, 4, 64)


def test_layer_types_decide_where_the_class_reads_them() -> None:
    kinds = ["sliding_attention", "full_attention"] * 4
    found = windows(cache_of("llama", "LlamaForCausalLM", layer_types=kinds, sliding_window=512))
    assert [found[i] for i in range(3)] == [512, None, 512]


def test_a_class_that_does_not_read_them_attends_to_everything() -> None:
    kinds = ["sliding_attention", "full_attention"] * 4
    more = {"layer_types": kinds, "sliding_window": 512, "use_sliding_window": True}
    assert set(windows(cache_of("qwen2", "Qwen2ForCausalLM", **more)).values()) == {None}


@pytest.mark.parametrize(
    ("model_type", "architecture", "full"),
    [("gemma2", "Gemma2ForCausalLM", [1, 3, 5, 7]), ("gemma3_text", "Gemma3ForCausalLM", [5])],
)
def test_the_class_has_a_pattern_where_none_is_given(model_type: str, architecture: str, full: list[int]) -> None:
    found = windows(cache_of(model_type, architecture, head_dim=64))
    assert [i for i, window in found.items() if window is None] == full


def test_every_other_layer_of_gpt_oss_slides_whatever_is_given() -> None:
    cache = cache_of("gpt_oss", "GptOssForCausalLM", layer_types=["full_attention"] * 8, sliding_window=128)
    assert sorted(i for i, window in windows(cache).items() if window) == [0, 2, 4, 6]


def test_a_window_without_a_list_holds_for_all() -> None:
    assert set(windows(cache_of("mistral", "MistralForCausalLM", sliding_window=1024)).values()) == {1024}


def test_too_short_a_list_is_said_when_the_cache_is_asked_for() -> None:
    shape = shape_of(
        {**SIZES, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "layer_types": ["full_attention"]}
    )
    assert shape.cache is None
    assert "8 entries expected, got 1" in (shape.cache_unknown or "")


def test_a_class_that_is_not_listed_is_not_guessed() -> None:
    shape = shape_of({**SIZES, "model_type": "bloom", "architectures": ["BloomForCausalLM"]})
    assert (shape.cache, shape.cache_unknown) == (None, None)


def test_a_pooling_model_made_of_a_generating_one_is_not_guessed() -> None:
    config = {**SIZES, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    assert shape_of(config, runner="pooling").cache is None


def test_attention_and_states_of_a_hybrid() -> None:
    cache = cache_of("jamba", "JambaForCausalLM", attn_layer_period=4, attn_layer_offset=2)
    assert [(group.kind, group.layers) for group in cache.layers] == [
        ("mamba1", (0, 1, 3, 4, 5, 7)),
        ("attention", (2, 6)),
    ]


def test_a_pattern_of_letters() -> None:
    cache = cache_of("nemotron_h", "NemotronHForCausalLM", hybrid_override_pattern="M-M*-ME*", head_dim=64)
    assert [(group.kind, group.layers) for group in cache.layers] == [("mamba2", (0, 2, 5)), ("attention", (3, 7))]


def test_a_state_beside_attention_in_every_layer() -> None:
    more = {"mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_state": 128}
    attention, state = cache_of("falcon_h1", "FalconH1ForCausalLM", **more).layers
    assert (attention.layers, state.layers) == (tuple(range(8)), tuple(range(8)))
    assert (state.name, state.name_offset) == ("model.{}.mixer", 8)
    assert state.state is not None
    assert (state.state.width, state.state.head_size, state.state.n_groups) == (1536, 64, 1)


def test_heads_that_do_not_divide_the_state_are_said() -> None:
    shape = shape_of(
        {**SIZES, "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "mamba_n_heads": 24}
    )
    assert shape.cache is None
    assert "must divide 1024" in (shape.cache_unknown or "")


@pytest.mark.parametrize(
    ("model_type", "architecture", "kind", "heads"),
    [("mamba", "MambaForCausalLM", "mamba1", 0), ("mamba2", "Mamba2ForCausalLM", "mamba2", 32)],
)
def test_models_of_states_alone(model_type: str, architecture: str, kind: str, heads: int) -> None:
    more = {"num_heads": 32, "head_dim": 64} if heads else {}
    (group,) = cache_of(model_type, architecture, **more).layers
    assert (group.kind, group.name, len(group.layers)) == (kind, "backbone.layers.{}.mixer", 8)
    assert group.state is not None
    assert (group.state.width, group.state.num_heads) == (2048, heads)


def test_a_block_may_have_no_attention() -> None:
    def block(group: int | None) -> dict[str, Any]:
        return {"attention": {"no_op": group is None, "n_heads_in_group": group}, "ffn": {"no_op": True}}

    blocks = [block(g) for g in (4, None, 8, 4, None, None, 4, 4)]
    cache = cache_of("nemotron-nas", "DeciLMForCausalLM", block_configs=blocks, num_key_value_heads=None)
    assert [(group.num_kv_heads, group.layers) for group in cache.layers] == [(4, (0, 3, 6, 7)), (2, (2,))]
    shape = shape_of(
        {**SIZES, "model_type": "nemotron-nas", "architectures": ["DeciLMForCausalLM"], "block_configs": blocks[:4]}
    )
    assert shape.cache is None


def test_a_window_may_leave_the_token_itself_out() -> None:
    kinds = ["sliding_attention", "full_attention"] * 4
    cache = cache_of("cohere2", "Cohere2ForCausalLM", layer_types=kinds, sliding_window=512)
    assert [(group.sliding_window, group.window_without_self) for group in cache.layers] == [(512, True), (None, False)]


def test_an_unknown_letter_is_not_guessed() -> None:
    config = {**SIZES, "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "head_dim": 64}
    shape = shape_of({**config, "hybrid_override_pattern": "M*??----"})
    assert shape.cache is None
    assert "letters" in (shape.cache_unknown or "")


def test_drafts_come_only_with_their_module() -> None:
    more = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
    with_module = cache_of("deepseek_v3", "DeepseekV3ForCausalLM", num_nextn_predict_layers=1, **more)
    assert [group.layers for group in with_module.draft_layers] == [(8,)]
    without = cache_of("deepseek_v3", "DeepseekV3ForCausalLM", num_nextn_predict_layers=0, **more)
    assert without.draft_layers == ()


def test_blocks_of_quantised_weights() -> None:
    config = {
        **SIZES,
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 8,
        "moe_intermediate_size": 768,
        "intermediate_size": 3072,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    blocks = shape_of(config).block_weights
    assert blocks is not None
    assert (blocks.rows, blocks.columns, blocks.experts, blocks.dense) == (128, 128, 768, 0)
    config["quantization_config"] = {"quant_method": "fp8"}
    assert shape_of(config).block_weights is None


def test_no_architecture_stands_twice() -> None:
    data = table("kv_layers")
    names = [name for kind in ("dense", "mla") for listed in data[kind].values() for name in listed.split()]
    names += [name for family in data["families"].values() for name in family]
    assert len(names) == len(set(names))
