"""What a layer refuses about its KV cache dtype when it is built, after its backend was chosen."""

from __future__ import annotations

from ...deployment import Deployment
from ...model_shape import ModelShape
from ...releases import canonical, holds
from ...trace import Rule
from .backends import LayerBackend
from .load_rules import (
    BLOCK_WEIGHTS,
    FLEX_SOFTCAP,
    FP8_E5M2_SCALES,
    SPARSE_DCP,
    TRITON_FP8,
    TRITON_MLA_FP8,
    V4_PACKED,
    load_error,
)

_WITH_SCALES = ("fp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "quark")
"""Quantisation methods that give every attention layer scales of its own."""

_TRITON_FP8_CAPABILITY = (8, 9)
_TAKES_AUTO = "0.30.0"
_REFINES_EXPERTS = "0.29.0"
_SCHEME_DECIDES = "0.24.0"
"""From then on an llm-compressor checkpoint counts only if it declares a scheme for the cache."""


def check_kv_dtype(deployment: Deployment, model: ModelShape, kv_dtype: str, chosen: LayerBackend) -> None:
    """Refuses what a layer of `model` cannot store. `kv_dtype`: of the layer.

    Raises:
        StartupError: CG544 to CG548.
    """
    release = canonical(deployment.vllm)
    name = chosen.name

    def has(rule: Rule) -> bool:
        return holds(release, rule.since, rule.until)

    if name == "FLEX_ATTENTION" and chosen.layer is not None and chosen.layer.softcap:
        raise load_error(
            FLEX_SOFTCAP,
            "FlexAttention does not apply the soft cap of the model's attention logits",
            where="--attention-backend",
            raised_as="NotImplementedError",
            raised_in="FlexAttentionImpl",
        )
    old_gpu = deployment.gpu.platform == "cuda" and deployment.gpu.capability < _TRITON_FP8_CAPABILITY
    if old_gpu and kv_dtype.startswith("fp8"):
        for rule, backends in ((TRITON_FP8, ("TRITON_ATTN",)), (TRITON_MLA_FP8, ("TRITON_MLA",))):
            if name in backends and has(rule):
                raise load_error(
                    rule,
                    f"{name} has no {kv_dtype} KV cache on {deployment.gpu.name}",
                    where="--kv-cache-dtype",
                    raised_in=f"{name} layer",
                )
    dcp = deployment.decode_context_parallel_size
    if dcp > 1 and name == "FLASHMLA_SPARSE" and kv_dtype != "fp8_ds_mla" and has(SPARSE_DCP):
        raise load_error(
            SPARSE_DCP,
            f"{name} serves decode context parallelism from an fp8_ds_mla cache only, not {kv_dtype}",
            where="--kv-cache-dtype",
            raised_as="NotImplementedError",
            raised_in="FlashMLASparseImpl",
        )
    if kv_dtype == "fp8_e5m2" and _has_scales(model, release):
        raise load_error(
            FP8_E5M2_SCALES,
            f"the checkpoint's {model.quantization} scales do not fit an fp8_e5m2 KV cache",
            where="--kv-cache-dtype",
            raised_in="_init_kv_cache_quant",
        )


def _has_scales(model: ModelShape, release: str) -> bool:
    if model.quantization == "compressed-tensors":
        declared = model.cache is not None and model.cache.built_kv_dtype is not None
        return declared or not holds(release, _SCHEME_DECIDES)
    return model.quantization in _WITH_SCALES


def check_block_weights(deployment: Deployment) -> None:
    """Refuses a tensor parallel size that cuts a block of quantised weights.

    Raises:
        StartupError: CG559.
    """
    blocks, tp = deployment.model.block_weights, deployment.tensor_parallel_size
    if blocks is None:
        return
    widths = [("shared experts", blocks.shared_experts), ("dense layers", blocks.dense)]
    # From 0.29 on the scales of expert layers are refined where a block is cut.
    if not deployment.enable_expert_parallel and not holds(canonical(deployment.vllm), _REFINES_EXPERTS):
        widths.append(("experts", blocks.experts))
    for what, width in widths:
        if width and tp > 1 and (width // tp % blocks.rows or width // tp % blocks.columns):
            raise load_error(
                BLOCK_WEIGHTS,
                f"{width} channels of the {what} in blocks of {blocks.rows} do not divide by tensor parallel size {tp}",
                where="--tensor-parallel-size",
                raised_in="validate_fp8_block_shape",
            )


def check_v4_dtype(release: str, kv_dtype: str) -> None:
    """Refuses a dtype that DeepSeek V4's packed layout does not have.

    Raises:
        StartupError: CG549.
    """
    takes_auto = holds(release, _TAKES_AUTO)
    if kv_dtype.startswith("fp8") or (kv_dtype == "auto" and takes_auto):
        return
    raise load_error(
        V4_PACKED,
        f"DeepSeek V4's packed cache layout needs an fp8 KV cache dtype, not {kv_dtype}",
        where="--kv-cache-dtype",
        raised_as="ValueError" if takes_auto else "AssertionError",
        raised_in="_resolve_dsv4_kv_cache_dtype",
    )
