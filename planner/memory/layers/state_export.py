"""Whether a state's prefill kernel can export the state within a prompt, which then takes a block of its own.

Sources: vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py:148-260;
vllm/models/kimi_k3/nvidia/kda.py:363-380.
"""

from __future__ import annotations

from ...cache_layers import StateSizes
from ...deployment import Deployment


def gdn_exports(deployment: Deployment) -> bool:
    """FlashInfer's kernel runs: on compute capability 9.0; on 10.x and 12.x with keys of 128 elements and CUDA 13."""
    sizes = _sizes(deployment, "gdn")
    if sizes is None or deployment.gpu.platform != "cuda":
        return False
    if deployment.gpu.capability == (9, 0):
        return True
    return deployment.gpu.major in (10, 12) and sizes.key_head_size == 128


def kda_exports(deployment: Deployment, dtype: str, ssm_dtype: str) -> bool:
    """FlashKDA runs. `ssm_dtype`: of the recurrent state, "auto" is float32."""
    sizes = _sizes(deployment, "kda")
    return (
        sizes is not None
        and deployment.gpu.platform == "cuda"
        and deployment.gpu.major in (9, 10, 12)
        and sizes.head_size == 128
        and sizes.has_gate_bound
        and dtype == "bfloat16"
        and ssm_dtype in ("auto", "bfloat16", "float32")
    )


def _sizes(deployment: Deployment, kind: str) -> StateSizes | None:
    cache = deployment.model.cache
    found = [layers.state for layers in cache.layers if layers.kind == kind] if cache is not None else []
    return found[0] if found else None
