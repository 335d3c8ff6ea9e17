"""Attention backends of vLLM 0.33.0: the reference tables, groups, names and platforms."""

from __future__ import annotations

from typing import Any

import pytest
from backend_cases import (
    AL,
    DEEPSEEK,
    DEEPSEEK_SPARSE,
    FACTS,
    LLAMA,
    NV,
    STD,
    UB,
    choose,
    shape,
)

from cgplan.model_shape import ModelShape
from cgplan.sections import AttentionOptions, Software, SpeculativeOptions
from cgplan.trace import Trace
from cgplan.vocabulary import AttentionCGSupport

# --- reference 1: levels ------------------------------

FIXED_LEVELS = {
    "TRITON_ATTN": AL,
    "TRITON_ATTN_DIFFKV": AL,
    "FLEX_ATTENTION": AL,
    "TURBOQUANT": UB,
    "ULTRAQUANT": UB,
    "B12X": UB,
    "ROCM_ATTN": AL,
    "ROCM_SEGMENTED_ATTN": AL,
    "ROCM_AITER_UNIFIED_ATTN": AL,
    "ROCM_AITER_FA": UB,
    "ROCM_OCTAVE": UB,
    "CPU_ATTN": NV,
    "FLASH_ATTN_MLA": UB,
    "FLASHMLA": UB,
    "FLASHINFER_MLA": AL,
    "TOKENSPEED_MLA": UB,
    "CUTLASS_MLA": STD,
    "TRITON_MLA": UB,
    "FLASH_ATTN_MLA_SPARSE": UB,
    "FLASH_ATTN_MLA_SPARSE_FA4": UB,
    "FLASHMLA_SPARSE": UB,
    "FLASHINFER_MLA_SPARSE": UB,
    "FLASHINFER_MLA_SPARSE_SM120": UB,
    "FLASHINFER_MLA_SPARSE_SM90": UB,
    "ROCM_AITER_MLA": UB,
    "ROCM_AITER_TRITON_MLA": UB,
    "ROCM_AITER_MLA_SPARSE": UB,
    "XPU_MLA_SPARSE": NV,
    "CPU_MLA": NV,
    "AMX_MLA": NV,
    "FLASHMLA_SPARSE_DSV4": AL,
    "FLASHINFER_MLA_SPARSE_DSV4": AL,
    "MINIMAX_M3_SPARSE": UB,
}


@pytest.mark.parametrize(("name", "support"), FIXED_LEVELS.items())
def test_fixed_levels(name: str, support: AttentionCGSupport) -> None:
    assert FACTS.backends[name].level == support.name


@pytest.mark.parametrize(
    ("kind", "model", "name", "support"),
    [
        ("MAMBA1", "JambaForCausalLM", "MAMBA1_ATTN", UB),
        ("MAMBA2", "BambaForCausalLM", "MAMBA2_ATTN", UB),
        ("SHORT_CONV", "Lfm2ForCausalLM", "SHORT_CONV_ATTN", UB),
        ("GDN_ATTN", "Qwen3NextForCausalLM", "GDN_ATTN", UB),
        ("LINEAR", "MiniMaxText01ForCausalLM", "LINEAR_ATTN", STD),
        ("LINEAR", "BailingMoeV2_5ForCausalLM", "BAILING_LINEAR_ATTN", UB),
        ("SHORT_CONV", "Qwen4ExpForCausalLM", "PLE_SHORT_CONV_ATTN", UB),
        ("GDN_ATTN", "KimiK3ForConditionalGeneration", "KIMI_K3_KDA", AL),
    ],
)
def test_levels_of_state_space_layers(kind: str, model: str, name: str, support: AttentionCGSupport) -> None:
    choice = choose(shape(architectures=(model,), mamba_backends=(kind,)), extra_groups=False)
    assert [(g.name, g.support) for g in choice.groups[1:]] == [(name, support)]


@pytest.mark.parametrize(
    ("capability", "software", "options", "env", "support"),
    [
        ((9, 0), {}, {}, {}, AL),
        ((9, 0), {"flash_attn_3": False}, {}, {}, UB),
        ((9, 0), {}, {"flash_attn_version": 2}, {}, UB),
        ((9, 0), {}, {"flash_attn_version": 4}, {}, AL),
        ((10, 0), {}, {}, {}, AL),
        ((10, 0), {"flash_attn_4": False}, {}, {}, UB),
        ((10, 0), {}, {"flash_attn_version": 3}, {}, AL),
        ((10, 0), {}, {}, {"VLLM_BATCH_INVARIANT": "1"}, UB),
        ((8, 0), {}, {}, {}, UB),
        ((8, 9), {}, {"flash_attn_version": 3}, {}, UB),
        ((12, 0), {}, {}, {}, UB),
    ],
)
def test_flash_attention_version_decides_its_level(
    capability: tuple[int, int],
    software: dict[str, bool],
    options: dict[str, Any],
    env: dict[str, str],
    support: AttentionCGSupport,
) -> None:
    choice = choose(
        capability=capability,
        attention_backend="FLASH_ATTN",
        software=Software(**software),
        attention_config=AttentionOptions(**options),
        env=env,
    )
    assert choice.support == support


@pytest.mark.parametrize(
    ("capability", "model", "given", "support"),
    [
        ((9, 0), LLAMA, {}, UB),
        ((9, 0), LLAMA, {"decode_context_parallel_size": 2}, STD),
        ((9, 0), LLAMA, {"software": Software(flashinfer_cubins=False)}, STD),
        ((9, 0), LLAMA, {"env": {"VLLM_BATCH_INVARIANT": "0"}}, UB),
        ((9, 0), LLAMA, {"attention_config": AttentionOptions(use_trtllm_attention=False)}, STD),
        ((9, 0), LLAMA, {"attention_config": AttentionOptions(use_non_causal=True)}, UB),
        ((9, 0), shape(head_size=512), {}, STD),
        ((9, 0), LLAMA, {"kv_cache_dtype": "nvfp4"}, STD),
        ((9, 0), shape(num_attention_heads=30), {}, STD),
        ((8, 0), LLAMA, {}, UB),
        ((8, 0), LLAMA, {"attention_config": AttentionOptions(use_non_causal=True)}, STD),
        ((8, 0), LLAMA, {"decode_context_parallel_size": 2}, STD),
        ((10, 0), LLAMA, {}, UB),
        ((10, 3), LLAMA, {}, UB),
        ((10, 0), shape(head_size=512), {}, UB),
        ((10, 0), LLAMA, {"attention_config": AttentionOptions(use_non_causal=True)}, STD),
        ((11, 0), LLAMA, {}, STD),
        ((12, 0), LLAMA, {}, UB),
        ((12, 1), LLAMA, {"kv_cache_dtype": "nvfp4"}, UB),
        ((12, 0), shape(head_size=512), {}, STD),
    ],
)
def test_flashinfer_level(
    capability: tuple[int, int], model: ModelShape, given: dict[str, Any], support: AttentionCGSupport
) -> None:
    choice = choose(model, capability, attention_backend="FLASHINFER", **given)
    assert choice.groups[0].name == "FLASHINFER"
    assert choice.support == support


def test_hpc_needs_drafts_for_more_than_one_token() -> None:
    assert choose(attention_backend="HPC_ATTN").support == STD
    drafts = SpeculativeOptions(method="ngram", num_speculative_tokens=2)
    assert choose(attention_backend="HPC_ATTN", speculative_config=drafts).support == UB


@pytest.mark.parametrize(("sliding_window", "support"), [(None, STD), (1024, NV)])
@pytest.mark.parametrize(("capability", "name"), [((9, 0), "TRITON_FLASH_ATTN"), ((10, 0), "TRITON_FLASHINFER")])
def test_composites_are_bound_by_their_routing(
    capability: tuple[int, int], name: str, sliding_window: int | None, support: AttentionCGSupport
) -> None:
    model = shape(head_size=256, is_mm_prefix_lm=True, sliding_window=sliding_window)
    choice = choose(model, capability)
    assert (choice.name, choice.support) == (name, support)


# --- reference 3: selection ------------------------------


@pytest.mark.parametrize(
    ("model", "capability", "given", "name", "support"),
    [
        (LLAMA, (8, 0), {}, "FLASH_ATTN", UB),
        (LLAMA, (9, 0), {}, "FLASH_ATTN", AL),
        (LLAMA, (10, 0), {}, "FLASHINFER", UB),
        (LLAMA, (10, 0), {"software": Software(flashinfer_cubins=False)}, "FLASHINFER", STD),
        (LLAMA, (10, 0), {"software": Software(flashinfer=False)}, "FLASH_ATTN", AL),
        (LLAMA, (10, 0), {"attention_config": AttentionOptions(use_non_causal=True)}, "FLASH_ATTN", AL),
        (LLAMA, (12, 0), {}, "FLASH_ATTN", UB),
        (LLAMA, (7, 5), {"dtype": "float16"}, "TRITON_ATTN", AL),
        (LLAMA, (9, 0), {"dtype": "float32"}, "TRITON_ATTN", AL),
        (LLAMA, (8, 0), {"kv_cache_dtype": "fp8"}, "FLASHINFER", UB),
        (LLAMA, (9, 0), {"kv_cache_dtype": "fp8"}, "FLASH_ATTN", AL),
        (LLAMA, (9, 0), {"kv_cache_dtype": "turboquant_4bit_nc"}, "TURBOQUANT", UB),
        (LLAMA, (9, 0), {"kv_cache_dtype": "int8_per_token_head"}, "TRITON_ATTN", AL),
        (shape(head_size=36), (9, 0), {}, "TRITON_ATTN", AL),
        (shape(head_size=20), (9, 0), {}, "FLEX_ATTENTION", AL),
        (shape(head_size=512), (8, 0), {}, "FLASHINFER", UB),
        (shape(head_size=512), (9, 0), {}, "FLASH_ATTN", AL),
        (shape(has_sinks=True, head_size=64), (8, 0), {}, "TRITON_ATTN", AL),
        (shape(has_sinks=True, head_size=64), (9, 0), {}, "FLASH_ATTN", AL),
        (shape(has_sinks=True, head_size=64), (12, 0), {}, "FLASHINFER", UB),
        *[(shape(head_size=size), (10, 0), {}, "FLASH_ATTN", AL) for size in (80, 96, 112, 192)],
        *[(shape(head_size=size), (10, 0), {}, "FLASHINFER", UB) for size in (64, 128, 256, 512)],
        (DEEPSEEK, (9, 0), {}, "FLASH_ATTN_MLA", UB),
        (DEEPSEEK, (9, 0), {"kv_cache_dtype": "fp8"}, "FLASHMLA", UB),
        (DEEPSEEK, (10, 0), {}, "FLASHINFER_MLA", AL),
        (DEEPSEEK, (8, 0), {}, "TRITON_MLA", UB),
        (DEEPSEEK, (12, 0), {}, "TRITON_MLA", UB),
        (DEEPSEEK_SPARSE, (9, 0), {}, "FLASH_ATTN_MLA_SPARSE", UB),
        (DEEPSEEK_SPARSE, (9, 0), {"kv_cache_dtype": "fp8"}, "FLASHMLA_SPARSE", UB),
        (DEEPSEEK_SPARSE, (9, 0), {"kv_cache_dtype": "fp8_e4m3"}, "FLASHINFER_MLA_SPARSE_SM90", UB),
        (DEEPSEEK_SPARSE, (10, 0), {}, "FLASHMLA_SPARSE", UB),
        (DEEPSEEK_SPARSE, (10, 0), {"tensor_parallel_size": 8}, "FLASH_ATTN_MLA_SPARSE_FA4", UB),
        (DEEPSEEK_SPARSE, (10, 0), {"kv_cache_dtype": "fp8"}, "FLASHINFER_MLA_SPARSE", UB),
        (DEEPSEEK_SPARSE, (12, 0), {}, "FLASHINFER_MLA_SPARSE_SM120", UB),
    ],
)
def test_typical_outcomes(
    model: ModelShape,
    capability: tuple[int, int],
    given: dict[str, Any],
    name: str,
    support: AttentionCGSupport,
) -> None:
    choice = choose(model, capability, **given)
    assert (choice.name, choice.groups[0].support) == (name, support)


def test_rejected_candidates_are_named_with_their_reasons() -> None:
    choice = choose(LLAMA, (7, 5), dtype="float16")
    assert [name for name, _ in choice.rejected] == ["FLASH_ATTN", "FLASHINFER"]
    assert any("7.5" in text for text in choice.rejected[0][1])


def test_unavailable_modules_are_passed_over() -> None:
    without = choose(DEEPSEEK_SPARSE, (10, 0), tensor_parallel_size=8, unavailable=("FLASH_ATTN_MLA_SPARSE_FA4",))
    assert without.name == "FLASHINFER_MLA_SPARSE"


def test_block_size_that_excludes_a_better_backend_is_a_finding() -> None:
    trace = Trace()
    choice = choose(shape(head_size=256), (10, 0), block_size=256, trace=trace)
    assert choice.name == "FLASHINFER"
    assert not trace.findings
    model = shape(head_size=256, is_mm_prefix_lm=True)
    choice = choose(model, (10, 0), block_size=32, trace=trace)
    assert choice.name == "TRITON_ATTN" or choice.rejected[0][0] == "TRITON_FLASHINFER"
    assert [f.code for f in trace.findings] == ["CG308"]


def test_document_table_against_the_code() -> None:
    """Reference section 6: what the design document says, and what 0.33.0 does."""
    explicit = {
        ("FLASH_ATTN", (8, 0)): UB,
        ("FLASH_ATTN", (9, 0)): AL,
        ("TRITON_ATTN", (9, 0)): AL,
        ("FLASHINFER", (10, 0)): UB,
        ("FLASHINFER", (8, 0)): UB,
        ("FLASHINFER", (9, 0)): UB,
        ("FLASHINFER", (12, 0)): UB,
    }
    for (name, capability), support in explicit.items():
        assert choose(capability=capability, attention_backend=name).support == support
    mla = {("FLASHMLA", (9, 0)): UB, ("FLASHINFER_MLA", (10, 0)): AL, ("CUTLASS_MLA", (10, 0)): STD}
    for (name, capability), support in mla.items():
        assert choose(DEEPSEEK, capability, attention_backend=name).support == support
