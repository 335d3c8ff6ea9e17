"""Models and choices of attention backends, for tests."""

from __future__ import annotations

from typing import Any

from cgplan.deployment import Deployment
from cgplan.model_shape import ModelShape
from cgplan.resolve.backends import BackendChoice, choose_backends
from cgplan.resolve.backends.facts import catalogue
from cgplan.sections import Gpu
from cgplan.trace import Trace
from cgplan.vocabulary import AttentionCGSupport

AL = AttentionCGSupport.ALWAYS
UB = AttentionCGSupport.UNIFORM_BATCH
STD = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
NV = AttentionCGSupport.NEVER
RELEASE = "0.33.0"
FACTS = catalogue(RELEASE)
DEEPSEEK_DIMS = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


LLAMA = ModelShape()
DEEPSEEK = ModelShape(
    architectures=("DeepseekV3ForCausalLM",),
    num_attention_heads=128,
    num_kv_heads=128,
    head_size=576,
    use_mla=True,
    **DEEPSEEK_DIMS,
)


DEEPSEEK_SPARSE = DEEPSEEK.model_copy(update={"architectures": ("DeepseekV32ForCausalLM",), "index_topk": 2048})


def choose(
    model: ModelShape = LLAMA,
    capability: tuple[int, int] = (9, 0),
    *,
    dtype: str = "bfloat16",
    extra_groups: bool = True,
    trace: Trace | None = None,
    platform: str = "cuda",
    unavailable: tuple[str, ...] = (),
    **given: Any,
) -> BackendChoice:
    gpu = Gpu(capability=capability, platform=platform)  # type: ignore[arg-type]
    deployment = Deployment(model=model, gpu=gpu, **given)
    return choose_backends(
        deployment,
        dtype=dtype,
        trace=trace or Trace(),
        extra_groups=extra_groups,
        unavailable=unavailable,
    )


def shape(**given: Any) -> ModelShape:
    return LLAMA.model_copy(update=given)
