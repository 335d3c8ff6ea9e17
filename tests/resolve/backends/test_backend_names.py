"""Names of attention backends, backends a kind of layer, and what a model asks of them."""

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

from cgplan.errors import InputError, StartupError
from cgplan.model_shape import ModelShape
from cgplan.resolve.backends import BackendChoice
from cgplan.sections import AttentionOptions, Software, SpeculativeOptions
from cgplan.trace import RULES, Trace
from cgplan.vocabulary import AttentionCGSupport

# --- names ------------------------------


ENUM_NAMES = """
FLASH_ATTN FLASH_ATTN_DIFFKV TRITON_ATTN TRITON_ATTN_DIFFKV TRITON_FLASH_ATTN ROCM_ATTN ROCM_SEGMENTED_ATTN
ROCM_AITER_MLA ROCM_AITER_TRITON_MLA ROCM_AITER_FA ROCM_AITER_MLA_SPARSE XPU_MLA_SPARSE TORCH_SDPA
FLASHINFER TRITON_FLASHINFER FLASHINFER_MLA TOKENSPEED_MLA FLASHINFER_MLA_SPARSE FLASHINFER_MLA_SPARSE_SM120
FLASHINFER_MLA_SPARSE_SM90 TRITON_MLA CUTLASS_MLA FLASHMLA FLASHMLA_SPARSE FLASHMLA_SPARSE_DSV4
FLASHINFER_MLA_SPARSE_DSV4 ROCM_FLASHMLA_SPARSE_DSV4 FLASHMLA_SPARSE_DSV41 FLASHINFER_MLA_SPARSE_DSV41
ROCM_FLASHMLA_SPARSE_DSV41 FLASHMLA_MEGA_ATTN_DSV41 B12X FLASH_ATTN_MLA FLASH_ATTN_MLA_SPARSE
FLASH_ATTN_MLA_SPARSE_FA4 MINIMAX_M3_SPARSE CUTLASS_MSA TRITON_MSA STEP5_DSA NO_ATTENTION FLEX_ATTENTION
HPC_ATTN ROCM_AITER_UNIFIED_ATTN CPU_ATTN CPU_MLA AMX_MLA TURBOQUANT ROCM_OCTAVE ULTRAQUANT CUSTOM
"""


def test_all_names_of_the_enum_are_known() -> None:
    assert set(FACTS.backends) == set(ENUM_NAMES.split())
    for backend in FACTS.backends.values():
        assert backend.unavailable or backend.class_name
        assert backend.unavailable or backend.source.startswith("vllm/")


@pytest.mark.parametrize("name", ["auto", "AUTO", "cutlass_msa", "TRITON_MSA"])
def test_names_that_mean_automatic(name: str) -> None:
    assert choose(attention_backend=name).name == "FLASH_ATTN"


def test_names_are_upper_cased_and_both_places_count() -> None:
    assert choose(attention_backend="triton_attn").name == "TRITON_ATTN"
    assert choose(attention_config=AttentionOptions(backend="Flashinfer")).name == "FLASHINFER"


@pytest.mark.parametrize("name", ["FLASH_ATTN_VLLM_V1", "XFORMERS", "TREE_ATTN", "flash-atn"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InputError) as unknown:
        choose(attention_backend=name)
    assert unknown.value.code == "CG305"
    assert unknown.value.fix


def test_near_name_is_proposed() -> None:
    with pytest.raises(InputError) as unknown:
        choose(attention_backend="FLASH_ATN")
    assert "FLASH_ATTN" in (unknown.value.fix or "")


def test_explicit_backend_that_does_not_fit() -> None:
    with pytest.raises(StartupError) as refused:
        choose(DEEPSEEK, (8, 0), attention_backend="FLASHMLA")
    error = refused.value
    assert (error.code, error.stage, error.raised_as) == ("CG302", "attn_backend_selection", "ValueError")
    assert "8.0" in error.message
    assert "TRITON_MLA" in (error.fix or "")


def test_no_backend_fits() -> None:
    with pytest.raises(StartupError) as refused:
        choose(DEEPSEEK_SPARSE, (8, 0))
    assert refused.value.code == "CG303"
    assert refused.value.fix


@pytest.mark.parametrize("name", ["TORCH_SDPA", "NO_ATTENTION", "CUSTOM"])
def test_names_that_nobody_can_select(name: str) -> None:
    with pytest.raises(StartupError) as refused:
        choose(attention_backend=name)
    assert refused.value.code == "CG302"


def test_backend_of_another_platform_is_found_out() -> None:
    trace = Trace()
    choose(attention_backend="CPU_ATTN", trace=trace)
    assert [f.code for f in trace.findings] == ["CG328"]


def test_backend_per_kind() -> None:
    model = shape(sliding_window=1024)
    options = AttentionOptions(backend_per_kind={"sliding_window": "triton_attn"})
    choice = choose(model, (8, 0), attention_config=options)
    assert [(g.name, g.kind) for g in choice.groups] == [
        ("FLASH_ATTN", "attention"),
        ("TRITON_ATTN", "sliding_window"),
    ]
    for bad in ({"sliding": "TRITON_ATTN"}, {"sliding_window": "auto"}):
        with pytest.raises(InputError):
            choose(model, attention_config=AttentionOptions(backend_per_kind=bad))


# --- groups ------------------------------


def test_the_weakest_group_counts() -> None:
    trace = Trace()
    choice = choose(shape(mamba_backends=("MAMBA2",), is_hybrid=True), trace=trace)
    assert [g.support for g in choice.groups] == [AL, UB]
    assert (choice.support, choice.weakest) == (UB, "Mamba2AttentionBackend")
    assert "CG316" in [d.code for d in trace.decisions]


def test_attention_free() -> None:
    model = shape(is_attention_free=True, num_attention_heads=0, num_kv_heads=0, head_size=0)
    assert choose(model) == BackendChoice((), AL, None, "none", ())
    mamba = choose(model.model_copy(update={"mamba_backends": ("MAMBA2",)}))
    assert (mamba.name, mamba.support, mamba.weakest) == ("none", UB, "Mamba2AttentionBackend")


def test_chunked_local_attention_is_never_captured() -> None:
    model = shape(architectures=("Llama4ForCausalLM",), attention_chunk_size=8192)
    choice = choose(model)
    assert (choice.support, choice.weakest) == (NV, "ChunkedLocalAttention_8192_FlashAttentionBackend")
    assert choose(model, extra_groups=False).support == AL


def test_cross_attention_may_take_another_backend() -> None:
    whisper = shape(architectures=("WhisperForConditionalGeneration",), is_encoder_decoder=True, head_size=64)
    choice = choose(whisper, (10, 0))
    assert [(g.name, g.kind) for g in choice.groups] == [
        ("FLASHINFER", "attention"),
        ("FLASH_ATTN", "cross_attention"),
    ]
    assert choice.groups[1].class_name == "CrossAttention_FlashAttentionBackend"
    assert len(choose(whisper, (10, 0), extra_groups=False).groups) == 1


def test_encoder_only_layers_are_wrapped() -> None:
    bert = shape(architectures=("BertModel",), is_encoder_only=True, head_size=64)
    assert choose(bert).groups[0].class_name == "EncoderOnlyAttention_FlashAttentionBackend"
    assert choose(bert, (8, 0), extra_groups=False).weakest == "FlashAttentionBackend"
    assert choose(bert, (10, 0)).name == "FLASH_ATTN"


@pytest.mark.parametrize(
    ("capability", "deep_gemm", "drafts", "support"),
    [
        ((10, 0), True, 0, AL),
        ((10, 0), False, 0, UB),
        ((9, 0), True, 0, UB),
        ((9, 0), True, 1, UB),
        ((9, 0), True, 2, AL),
        ((9, 0), True, 3, UB),
        ((9, 0), False, 3, AL),
    ],
)
def test_sparse_indexer(capability: tuple[int, int], deep_gemm: bool, drafts: int, support: AttentionCGSupport) -> None:
    spec = SpeculativeOptions(method="ngram", num_speculative_tokens=drafts) if drafts else None
    software = Software(deep_gemm=deep_gemm)
    choice = choose(DEEPSEEK_SPARSE, capability, software=software, speculative_config=spec)
    assert [(g.kind, g.support) for g in choice.groups[1:]] == [("indexer", support)]


def test_drafter_selects_for_itself() -> None:
    draft = shape(head_size=64, num_attention_heads=32, num_kv_heads=8)
    spec = SpeculativeOptions(method="eagle3", num_speculative_tokens=3, model=draft)
    choice = choose(LLAMA, (9, 0), attention_backend="TRITON_ATTN", speculative_config=spec)
    assert [(g.name, g.kind) for g in choice.groups] == [
        ("TRITON_ATTN", "attention"),
        ("FLASH_ATTN", "draft"),
    ]
    ngram = SpeculativeOptions(method="ngram", num_speculative_tokens=3)
    assert len(choose(speculative_config=ngram).groups) == 1


def test_models_with_attention_of_their_own() -> None:
    v4 = DEEPSEEK_SPARSE.model_copy(update={"architectures": ("DeepseekV4ForCausalLM",), "head_size": 512})
    assert choose(v4, (9, 0)).name == "FLASHMLA_SPARSE_DSV4"
    assert choose(v4, (12, 0)).name == "FLASHINFER_MLA_SPARSE_DSV4"
    assert choose(v4, (10, 0)).support == AL
    with pytest.raises(StartupError):
        choose(v4, (10, 0), attention_backend="FLASHINFER_MLA_SPARSE")
    step5 = shape(architectures=("Step5ForCausalLM",))
    assert choose(step5).support == STD


def test_batch_invariance() -> None:
    on = {"VLLM_BATCH_INVARIANT": "1"}
    assert choose(capability=(10, 0), env=on).name == "FLASH_ATTN"
    hybrid = shape(mamba_backends=("GDN_ATTN",))
    with pytest.raises(StartupError) as refused:
        choose(hybrid, env=on)
    assert (refused.value.code, refused.value.raised_as) == ("CG304", "RuntimeError")
    assert choose(hybrid, env=on, extra_groups=False).support == UB


@pytest.mark.parametrize(
    ("capability", "kv", "name", "support"),
    [
        ((8, 0), "auto", "TRITON_ATTN", AL),
        ((9, 0), "auto", "FLASH_ATTN", AL),
        ((9, 0), "fp8", "FLASH_ATTN", AL),
        ((10, 0), "auto", "FLASHINFER", UB),
        ((12, 0), "auto", "TRITON_ATTN", AL),
    ],
)
def test_gemma4(capability: tuple[int, int], kv: str, name: str, support: AttentionCGSupport) -> None:
    model = shape(architectures=("Gemma4ForCausalLM",), head_size=256)
    choice = choose(model, capability, kv_cache_dtype=kv)
    assert (choice.name, choice.support) == (name, support)


def test_diffusion_gemma() -> None:
    model = shape(architectures=("DiffusionGemmaForBlockDiffusion",), head_size=256, is_diffusion=True)
    assert choose(model, (10, 0)).name == "FLASH_ATTN"
    with pytest.raises(StartupError) as refused:
        choose(model, (10, 0), attention_backend="FLASHINFER")
    assert (refused.value.code, refused.value.raised_as) == ("CG307", "ValidationError")


def test_kv_cache_dtype_of_the_architecture() -> None:
    trace = Trace()
    glm = DEEPSEEK_SPARSE.model_copy(update={"architectures": ("GlmMoeDsaForCausalLM",)})
    assert choose(glm, (10, 0), trace=trace).name == "FLASHINFER_MLA_SPARSE"
    assert trace.decisions[0].code == "CG306"
    assert choose(glm, (9, 0)).name == "FLASH_ATTN_MLA_SPARSE"
    assert choose(DEEPSEEK_SPARSE, (12, 0), kv_cache_dtype="bfloat16").name == "FLASHINFER_MLA_SPARSE_SM120"
    assert choose(shape(kv_cache_dtype="fp8"), (8, 0)).name == "FLASHINFER"


# --- other platforms ------------------------------


@pytest.mark.parametrize(
    ("platform", "model", "given", "name", "support"),
    [
        ("rocm", LLAMA, {}, "ROCM_ATTN", AL),
        ("rocm", shape(head_size=72), {}, "TRITON_ATTN", AL),
        ("rocm", DEEPSEEK, {}, "TRITON_MLA", UB),
        (
            "rocm",
            DEEPSEEK,
            {"software": Software(packages=("aiter",)), "env": {"VLLM_ROCM_USE_AITER": "1"}},
            "ROCM_AITER_MLA",
            UB,
        ),
        ("rocm", DEEPSEEK_SPARSE, {}, "ROCM_AITER_MLA_SPARSE", UB),
        ("xpu", LLAMA, {}, "FLASH_ATTN", AL),
        ("xpu", LLAMA, {"attention_backend": "TRITON_ATTN"}, "TRITON_ATTN", AL),
        ("xpu", DEEPSEEK, {}, "FLASH_ATTN_MLA", STD),
        ("xpu", DEEPSEEK_SPARSE, {}, "XPU_MLA_SPARSE", NV),
        ("cpu", LLAMA, {"attention_backend": "FLASH_ATTN"}, "CPU_ATTN", NV),
        ("cpu", DEEPSEEK, {}, "CPU_MLA", NV),
    ],
)
def test_other_platforms(
    platform: str, model: ModelShape, given: dict[str, Any], name: str, support: AttentionCGSupport
) -> None:
    choice = choose(model, (9, 0), platform=platform, **given)
    assert (choice.name, choice.groups[0].support) == (name, support)


def test_platform_that_is_not_modelled() -> None:
    with pytest.raises(InputError):
        choose(platform="tpu")


# --- rules ------------------------------


def test_every_code_raised_has_a_rule() -> None:
    for code in ("CG301", "CG302", "CG303", "CG304", "CG305", "CG306", "CG307", "CG308", "CG309", "CG316"):
        rule = RULES[code]
        assert rule.why
        assert rule.example
        assert rule.instead
        assert rule.source.startswith("vllm/")


def test_decisions_say_what_was_chosen_and_what_bounds_it() -> None:
    trace = Trace()
    choose(capability=(8, 0), trace=trace)
    assert [(d.code, d.field, d.after) for d in trace.decisions] == [
        ("CG301", "attention_backend", "FLASH_ATTN"),
        ("CG321", "attention_support", "UNIFORM_BATCH"),
    ]
