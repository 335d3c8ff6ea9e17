"""Short ways to say what the tests of the resolver say often."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import (
    CompilationOptions,
    CUDAGraphMode,
    Deployment,
    Gpu,
    Graph,
    ModelShape,
    Resolution,
    SpeculativeOptions,
    StartupError,
    resolve,
)

GIB = 1 << 30

H100 = Gpu()
A100_80 = Gpu(name="NVIDIA A100-SXM4-80GB", capability=(8, 0), memory_bytes=84974239744, sm_count=108)
L4 = Gpu(name="NVIDIA L4", capability=(8, 9), memory_bytes=23580639232, sm_count=58)
T4 = Gpu(name="Tesla T4", capability=(7, 5), memory_bytes=15843721216, sm_count=40)
B200 = Gpu(name="NVIDIA B200", capability=(10, 0), memory_bytes=191510806528, sm_count=148)
B300 = Gpu(name="NVIDIA B300 SXM6 AC", capability=(10, 3), memory_bytes=295279001600, sm_count=148)
RTX5090 = Gpu(name="NVIDIA GeForce RTX 5090", capability=(12, 0), memory_bytes=33668988928, sm_count=170)
GB10 = Gpu(name="NVIDIA GB10", capability=(12, 1), memory_bytes=128524165120, sm_count=48, integrated=True)

V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}

MOE = ModelShape(architectures=("Qwen3MoeForCausalLM",), model_type="qwen3_moe", is_moe=True)
MLA = ModelShape(
    architectures=("DeepseekV3ForCausalLM",),
    model_type="deepseek_v3",
    is_moe=True,
    use_mla=True,
    num_attention_heads=128,
    num_kv_heads=128,
    head_size=576,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
SPARSE_MLA = MLA.model_copy(
    update={"architectures": ("DeepseekV32ForCausalLM",), "model_type": "deepseek_v32", "index_topk": 2048}
)
WHISPER = ModelShape(
    architectures=("WhisperForConditionalGeneration",),
    model_type="whisper",
    is_encoder_decoder=True,
    is_multimodal_model=True,
    max_model_len=448,
    num_attention_heads=20,
    num_kv_heads=20,
    head_size=64,
    hidden_size=1280,
)
EMBEDDER = ModelShape(architectures=("Qwen3ForCausalLM",), model_type="qwen3", runner_type="pooling")
MAMBA = ModelShape(
    architectures=("Mamba2ForCausalLM",),
    model_type="mamba2",
    is_attention_free=True,
    mamba_backends=("MAMBA2",),
    prefix_caching_default=False,
)
JAMBA = ModelShape(architectures=("JambaForCausalLM",), model_type="jamba", is_hybrid=True, mamba_backends=("MAMBA1",))


def given(**fields: Any) -> Deployment:
    """A deployment on an attention backend that supports ALWAYS, unless the test says otherwise."""
    fields.setdefault("attention_support", "ALWAYS")
    return Deployment(**fields)


def outcome(**fields: Any) -> Resolution:
    """The resolution of `given(**fields)`."""
    return resolve(given(**fields))


def mode_of(**fields: Any) -> CUDAGraphMode:
    """The final mode of `given(**fields)`."""
    return outcome(**fields).cudagraph_mode


def configured(**fields: Any) -> CUDAGraphMode:
    """The mode before the attention backend is known."""
    return outcome(**fields).configured_mode


def compiling(**options: Any) -> CompilationOptions:
    return CompilationOptions(**options)


def drafting(method: str = "ngram", tokens: int = 3, **options: Any) -> SpeculativeOptions:
    """Speculative decoding; methods that need a draft model get a one-layer one."""
    if method in ("eagle", "eagle3", "draft_model", "dflash"):
        options.setdefault("model", ModelShape(num_hidden_layers=1))
    return SpeculativeOptions(method=method, num_speculative_tokens=tokens, **options)


def refused(**fields: Any) -> StartupError:
    """The refusal of `given(**fields)`; the test fails where vLLM would start."""
    with pytest.raises(StartupError) as caught:
        outcome(**fields)
    return caught.value


def codes(resolution: Resolution) -> set[str]:
    """Codes of the rules that changed something."""
    return {decision.code for decision in resolution.decisions}


def finding_codes(resolution: Resolution) -> set[str]:
    return {finding.code for finding in resolution.findings}


def rows(graphs: tuple[Graph, ...]) -> list[tuple[int | None, ...]]:
    """Graphs as plain tuples without trailing defaults, so that expectations stay short."""
    defaults: tuple[int | None, ...] = tuple(Graph(-1))
    found = []
    for graph in graphs:
        row: list[int | None] = list(graph)
        while len(row) > 1 and row[-1] == defaults[len(row) - 1]:
            row.pop()
        found.append(tuple(row))
    return found
