"""What an architecture changes, and breakable CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    B200,
    JAMBA,
    MAMBA,
    RTX5090,
    SPARSE_MLA,
    T4,
    V1,
    codes,
    compiling,
    configured,
    mode_of,
    outcome,
    refused,
)

from cgplan import CompilationMode, CUDAGraphMode, Deployment, Gpu, ModelShape
from cgplan.resolve import hooks, splitting
from cgplan.resolve.pipeline import configure
from cgplan.trace import Trace

GPT_OSS = ModelShape(architectures=("GptOssForCausalLM",), model_type="gpt_oss")
LONGCAT = ModelShape(architectures=("LongcatFlashNgramForCausalLM",), is_moe=True)
DIFFUSION = ModelShape(
    architectures=("DiffusionGemmaForBlockDiffusion",), is_diffusion=True, canvas_length=256, max_model_len=8192
)
VOXTRAL = ModelShape(architectures=("VoxtralRealtimeGeneration",), is_multimodal_model=True)
BAILING = ModelShape(architectures=("BailingMoeV3ForCausalLM",), is_moe=True)
KDA_OP = "vllm::bailing_v3_kda_attention"

BREAKABLE = [
    "AliceAIForCausalLM",
    "BeamForCausalLM",
    "DeepseekV32MTPModel",
    "DeepseekV32ForCausalLM",
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForConditionalGeneration",
    "DeepSeekV4MTPModel",
    "DeepseekV41ForCausalLM",
    "Dots3NoteForCausalLM",
    "Dots3NoteMTPModel",
    "Glm5NextForCausalLM",
    "Glm5NextForConditionalGeneration",
    "Glm5NextMTPModel",
    "GlmMoeDsaForCausalLM",
    "HYV4ForCausalLM",
    "HYV4MTPModel",
    "InklingForCausalLM",
    "InklingForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "KimiK3MTPModel",
    "KimiLinearForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "MuseSpark1xForCausalLM",
    "MuseSparkForConditionalGeneration",
    "Qwen4ExpForCausalLM",
    "Qwen4ExpForConditionalGeneration",
    "Qwen4ExpMTP",
    "Step5ForCausalLM",
    "Step5ForConditionalGeneration",
]


def test_gpt_oss_raises_the_maximum_and_appends_nothing() -> None:
    found = outcome(model=GPT_OSS, max_num_seqs=300)
    assert (len(found.capture_sizes), found.max_capture_size) == (83, 1024)
    assert 300 not in found.capture_sizes
    assert "CG215" in codes(found)


@pytest.mark.parametrize(
    ("fields", "largest"),
    [
        ({"max_cudagraph_capture_size": 128}, 128),
        ({"cudagraph_capture_sizes": [1, 2, 4]}, 4),
        ({"compilation_config": {"max_cudagraph_capture_size": 256}}, 256),
        ({"max_num_batched_tokens": 600, "max_num_seqs": 64}, 600),
    ],
)
def test_gpt_oss_follows_the_user(fields: dict[str, Any], largest: int) -> None:
    assert outcome(model=GPT_OSS, **fields).max_capture_size == largest


def test_longcat_defaults_to_uncompiled_full() -> None:
    found = outcome(model=LONGCAT)
    assert found.compilation_mode is CompilationMode.NONE
    assert found.cudagraph_mode is CUDAGraphMode.FULL
    assert "CG216" in codes(found)


def test_longcat_follows_the_user() -> None:
    options = compiling(mode="VLLM_COMPILE", cudagraph_mode="PIECEWISE")
    found = outcome(model=LONGCAT, compilation_config=options)
    assert (found.compilation_mode, found.cudagraph_mode) == (CompilationMode.VLLM_COMPILE, CUDAGraphMode.PIECEWISE)
    assert mode_of(model=LONGCAT, compilation_config=compiling(mode="VLLM_COMPILE")) is CUDAGraphMode.FULL
    assert mode_of(model=LONGCAT, enforce_eager=True) is CUDAGraphMode.NONE


@pytest.mark.parametrize(("asked", "seqs"), [(None, 8), (128, 8), (127, 127), (200, 8), (4, 4)])
def test_block_diffusion_lowers_large_limits(asked: int | None, seqs: int) -> None:
    assert outcome(model=DIFFUSION, max_num_seqs=asked).max_num_seqs == seqs


def test_block_diffusion_verifies_a_whole_canvas() -> None:
    """Row F12. The grid counts 1 + canvas tokens a request; the V2 runner decodes a canvas without a bonus token.

    vllm/model_executor/models/diffusion_gemma.py:1122 (num_new_sampled_tokens_per_step = 0) and
    vllm/v1/worker/gpu/model_runner.py:439-442.
    """
    found = outcome(model=DIFFUSION)
    assert 257 in found.capture_sizes
    full = found.captures[CUDAGraphMode.FULL]
    assert {graph.uniform_query_len for graph in full} == {256}
    assert {graph.num_tokens % 256 for graph in full} == {0}


def test_block_diffusion_needs_runner_v2() -> None:
    assert refused(model=DIFFUSION, env=V1).code == "CG610"


@pytest.mark.parametrize(
    ("mode", "starts"), [("FULL", False), ("FULL_DECODE_ONLY", True), ("FULL_AND_PIECEWISE", True)]
)
def test_voxtral_realtime_refuses_full_mixed_batches(mode: str, starts: bool) -> None:
    options = compiling(cudagraph_mode=mode)
    if starts:
        assert mode_of(model=VOXTRAL, compilation_config=options).value == mode
    else:
        error = refused(model=VOXTRAL, compilation_config=options)
        assert (error.code, error.stage, error.raised_as) == ("CG221", "load_model", "AssertionError")


def test_voxtral_realtime_is_judged_by_the_configured_mode() -> None:
    """The model asserts when it is loaded: FULL is refused although the backend would have lowered it."""
    options = compiling(cudagraph_mode="FULL")
    error = refused(model=VOXTRAL, compilation_config=options, attention_support="UNIFORM_BATCH")
    assert error.code == "CG221"


def test_bailing_moe_v3_adds_a_splitting_op() -> None:
    assert outcome(model=BAILING).config["splitting_ops"][-1] == KDA_OP
    uncompiled = outcome(model=BAILING, compilation_config=compiling(mode="NONE"))
    assert uncompiled.config["splitting_ops"] == [KDA_OP]
    named = compiling(splitting_ops=["<attention_ops>", KDA_OP])
    assert outcome(model=BAILING, compilation_config=named).config["splitting_ops"].count(KDA_OP) == 1


@pytest.mark.parametrize("model", [MAMBA.model_copy(update={"prefix_caching_default": True}), JAMBA])
def test_mamba_prefix_caching_needs_chunked_prefill(model: ModelShape) -> None:
    fields = {"model": model, "enable_chunked_prefill": False, "max_num_batched_tokens": 1_000_000}
    assert refused(**fields).code == "CG134"
    assert outcome(**fields, enable_prefix_caching=False).max_num_batched_tokens == 1_000_000
    assert refused(**fields, enable_prefix_caching=True).code == "CG134"


def test_mamba_hooks_change_no_mode() -> None:
    """Despite the hook's own description in vLLM, it sets no CUDA graph mode."""
    assert configured(model=JAMBA) is CUDAGraphMode.FULL_AND_PIECEWISE
    assert configured(model=JAMBA, optimization_level=1) is CUDAGraphMode.PIECEWISE


@pytest.mark.parametrize("architecture", BREAKABLE)
def test_breakable_graphs_by_default(architecture: str) -> None:
    found = outcome(model=ModelShape(architectures=(architecture,)))
    assert found.compilation_mode is CompilationMode.NONE
    assert found.config["breakable_cudagraph"] == "1"
    assert found.cudagraph_mode is CUDAGraphMode.FULL_AND_PIECEWISE
    assert found.config["splitting_ops"] == []


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "DeepseekV3ForCausalLM", "KimiK2ForCausalLM"])
def test_other_architectures_are_compiled(architecture: str) -> None:
    found = outcome(model=ModelShape(architectures=(architecture,)))
    assert found.compilation_mode is CompilationMode.VLLM_COMPILE
    assert found.config["breakable_cudagraph"] is None


def test_any_architecture_of_the_list_turns_them_on() -> None:
    found = outcome(model=ModelShape(architectures=("LlamaForCausalLM", "Step5ForCausalLM")))
    assert found.compilation_mode is CompilationMode.NONE


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("0", False), ("true", False), ("", False), ("01", False), (None, None)]
)
def test_only_the_exact_text_1_turns_breakable_graphs_on(value: str | None, on: bool | None) -> None:
    env = {} if value is None else {"VLLM_USE_BREAKABLE_CUDAGRAPH": value}
    for model, default in ((ModelShape(), False), (SPARSE_MLA, True)):
        found = outcome(model=model, env=env)
        expected = default if on is None else on
        assert (found.compilation_mode is CompilationMode.NONE) is expected


def test_breakable_graphs_override_a_compilation_mode_of_the_user() -> None:
    options = compiling(mode="VLLM_COMPILE")
    found = outcome(compilation_config=options, env={"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"})
    assert found.compilation_mode is CompilationMode.NONE
    assert "CG205" in codes(found)


def test_a5_breakable_graphs_keep_piecewise_without_compilation() -> None:
    for mode in ("PIECEWISE", "FULL_AND_PIECEWISE"):
        options = compiling(cudagraph_mode=mode)
        assert mode_of(model=SPARSE_MLA, compilation_config=options).value == mode
        assert mode_of(model=SPARSE_MLA, compilation_config=options, env=V1).value == mode


def test_breakable_graphs_leave_attention_unsplit_in_the_downgrade() -> None:
    full = compiling(cudagraph_mode="FULL")
    level = "UNIFORM_BATCH"
    assert mode_of(model=SPARSE_MLA, compilation_config=full, attention_support=level).value == "FULL_DECODE_ONLY"
    assert mode_of(model=SPARSE_MLA, attention_support="NEVER") is CUDAGraphMode.NONE


def test_rocm_has_its_own_breakable_list() -> None:
    rocm = Gpu(name="AMD Instinct MI300X", platform="rocm", capability=(9, 4), memory_bytes=192 << 30)
    sparse = outcome(gpu=rocm, model=SPARSE_MLA)
    assert sparse.compilation_mode is CompilationMode.VLLM_COMPILE
    v41 = outcome(gpu=rocm, model=ModelShape(architectures=("DeepseekV41ForCausalLM",)))
    assert v41.compilation_mode is CompilationMode.NONE


INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}


@pytest.mark.parametrize(
    ("fields", "breakable"),
    [
        ({}, True),
        ({"env": {}}, False),
        ({"env": {"VLLM_BATCH_INVARIANT": "0"}}, False),
        ({"env": {**INVARIANT, "VLLM_USE_BREAKABLE_CUDAGRAPH": "0"}}, False),
        ({"enforce_eager": True}, False),
        ({"dtype": "float16"}, False),
        ({"quantization": "fp8"}, False),
        ({"model": ModelShape(quantization="fp8")}, False),
        ({"model": ModelShape(hidden_size=1000, intermediate_size=1000, head_size=100)}, False),
        ({"tensor_parallel_size": 2}, True),
        ({"tensor_parallel_size": 8}, False),
        ({"gpu": B200}, False),
        ({"gpu": B200, "tensor_parallel_size": 2}, True),
        ({"gpu": RTX5090, "tensor_parallel_size": 8}, True),
        ({"gpu": T4, "dtype": "bfloat16"}, False),
    ],
)
def test_batch_invariance_turns_breakable_graphs_on_for_tuned_layers(fields: dict[str, Any], breakable: bool) -> None:
    """The shapes are those of a rank of Llama 3.1 8B; each GPU family has tables of its own."""
    found = outcome(**{"env": INVARIANT, **fields})
    assert (found.config["breakable_cudagraph"] == "1") is breakable


def test_a_layer_size_that_varies_is_not_looked_up() -> None:
    model = ModelShape(hidden_size=4096, intermediate_size=None, head_size=100)
    assert outcome(env=INVARIANT, model=model).config["breakable_cudagraph"] is None


def test_the_hook_reads_the_first_architecture_only() -> None:
    model = ModelShape(architectures=("LlamaForCausalLM", "GptOssForCausalLM"))
    assert outcome(model=model).max_capture_size == 512


def test_the_added_op_leaves_attention_split() -> None:
    engine = configure(Deployment(model=BAILING), Trace())
    assert splitting.contains_attention(engine)
    hooks.add_splitting_op(engine)
    assert splitting.contains_attention(engine)
