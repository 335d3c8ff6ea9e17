"""Which quantisation method vLLM reads out of a quantization_config, and what the fusion passes ask of it.

Follows vllm/transformers_utils/model_arch_config_convertor.py:225-273 and vllm/config/model.py:1383-1485 at 0.33.0,
with no --quantization given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import shorten
from ..model_shape import BlockWeights
from .hf_architecture import Resolved
from .hf_node import ConfigNode, bad_value, words

# model_executor/layers/quantization/__init__.py:15-50; the online shorthands are no checkpoint's method.
_METHODS = words(
    """
    awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed auto_gptq gptq
    gptq_marlin awq_marlin humming compressed-tensors experts_int8 quark moe_wna16 torchao inc mxfp4
    gpt_oss_mxfp4 deepseek_v4_fp8 online fp8_per_tensor fp8_per_block fp8_per_channel
    int8_per_channel_weight_only nvfp4_per_token mxfp8
    """
)
# The platform's own list has no bitsandbytes or gguf: they left the release.
_DEPRECATED = ("fbgemm_fp8", "fp_quant")

_MODELOPT_BLOCK_ALGORITHMS = ("FP8_PB_WO", "FP8_BLOCK_SCALES")  # quantization/modelopt.py:132
_KV_CACHE_DTYPES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}  # utils/torch_utils.py:78-81


class Quantization(NamedTuple):
    """See the fields of the same names of ModelShape."""

    method: str | None = None
    nvfp4: bool = False
    weight_blocks: bool = False
    kv_cache_dtype: str | None = None


def read_quantization(root: ConfigNode, text: ConfigNode, resolved: Resolved) -> Quantization:
    """What the checkpoint's quantization_config means to vLLM.

    Raises:
        InputError: CG912 an entry has the wrong type, or vLLM knows no such method.
    """
    config, where = _config(root)
    in_part = config is None
    if config is None:
        config, where = _config(text)
    if config is None:
        return Quantization()
    declared = _declared_method(config, where)
    method = _override(declared, config, where, root.model_type, resolved)
    if method and method not in _METHODS:
        raise bad_value(where, f"quantisation method {shorten(method, 40)} is not known to vLLM (0.33.0 was looked at)")
    if method in _DEPRECATED:
        raise bad_value(
            where,
            f"quantisation method {method} is deprecated and refused by vLLM 0.33.0",
            fix="use another checkpoint, or --allow-deprecated-quantization",
        )
    return Quantization(
        method=method or None,
        nvfp4=_is_nvfp4(method, config),
        weight_blocks=_has_weight_blocks(method, config),
        # That one is looked for at the top only.
        kv_cache_dtype=None if in_part else _kv_cache_dtype(declared, config),
    )


def _config(node: ConfigNode) -> tuple[Mapping[str, Any] | None, str]:
    for key in ("quantization_config", "compression_config"):
        config = node.mapping(key)
        if config is not None:
            return config, node.at(key)
    return None, node.at("quantization_config")


def _text(config: Mapping[str, Any], key: str, where: str) -> str:
    value = config.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_value(f"{where}.{key}", f"text expected, got {shorten(value, 40)}")
    return value


def _declared_method(config: Mapping[str, Any], where: str) -> str:
    """quant_method in lower case, or what ModelOpt's producer block implies."""
    producer, inner = config.get("producer"), config.get("quantization")
    by_modelopt = isinstance(producer, dict) and producer.get("name") == "modelopt"
    if isinstance(inner, dict) and (by_modelopt or "modelopt_quant_config" in inner):
        algorithm = inner.get("quant_algo")
        if algorithm is not None:
            return _modelopt_method(str(algorithm).upper(), where)
    return _text(config, "quant_method", where).lower().replace("compressed_tensors", "compressed-tensors")


def _modelopt_method(algorithm: str, where: str) -> str:
    if algorithm in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"):
        return "modelopt"
    if algorithm == "NVFP4":
        return "modelopt_fp4"
    if algorithm == "MIXED_PRECISION":
        return "modelopt_mixed"
    raise bad_value(f"{where}.quantization.quant_algo", f"ModelOpt algorithm {shorten(algorithm, 40)} is not known")


def _override(declared: str, config: Mapping[str, Any], where: str, model_type: str, resolved: Resolved) -> str:
    """The method after the classes' override_quantization_method and the model's hook."""
    if declared in ("gptq", "awq"):
        return f"auto_{declared}"
    if declared == "mxfp4" and model_type == "gpt_oss":
        return "gpt_oss_mxfp4"
    if declared == "fp8" and model_type in ("deepseek_v4", "deepseek_v41"):
        return "deepseek_v4_fp8"
    # The hook of Kimi K3, model_executor/models/config.py:497-522.
    is_kimi_k3 = resolved.model_class in ("KimiK3ForConditionalGeneration", "KimiK3MTPModel")
    if is_kimi_k3 and declared == "compressed-tensors" and config.get("format") == "mxfp4-pack-quantized":
        return "mxfp4"
    if declared.startswith("modelopt"):
        algorithm = _algorithm(config)
        if algorithm == "FP8":
            return "modelopt"
        if "FP4" in algorithm:
            return "modelopt_fp4"
        if "MXFP8" in algorithm:
            return "modelopt_mxfp8"
        if algorithm == "MIXED_PRECISION":
            return "modelopt_mixed"
    return declared


def _algorithm(config: Mapping[str, Any]) -> str:
    """quantization/modelopt.py:288-305."""
    inner = config.get("quantization", config)
    return str(inner.get("quant_algo", "")).upper() if isinstance(inner, dict) else ""


def _layer_algorithms(config: Mapping[str, Any]) -> list[str]:
    layers = config.get("quantized_layers")
    if not isinstance(layers, dict):
        return []
    return [str(layer.get("quant_algo", "")).upper() for layer in layers.values() if isinstance(layer, dict)]


def _is_nvfp4(method: str, config: Mapping[str, Any]) -> bool:
    """ModelConfig.is_nvfp4_quantized, config/model.py:2301-2320."""
    if method == "modelopt_mixed":
        return "NVFP4" in _layer_algorithms(config)
    return method == "modelopt_fp4" or (
        method == "compressed-tensors" and "nvfp4" in str(config.get("format", "")).lower()
    )


def _has_weight_blocks(method: str, config: Mapping[str, Any]) -> bool:
    """Whether has_blocked_weights() of config/vllm.py:1808-1815 holds for the method's configuration class."""
    if method in ("fp8", "deepseek_v4_fp8"):
        return config.get("weight_block_size") is not None
    if method == "modelopt":
        return _algorithm(config) == "FP8_PB_WO"
    if method == "modelopt_mixed":
        inner = config.get("quantization")
        algorithms = _layer_algorithms(inner if isinstance(inner, dict) else config)
        return any(algorithm in _MODELOPT_BLOCK_ALGORITHMS for algorithm in algorithms)
    if method == "compressed-tensors":
        groups = config.get("config_groups")
        weights = [g.get("weights") for g in groups.values() if isinstance(g, dict)] if isinstance(groups, dict) else []
        return any(isinstance(w, dict) and w.get("strategy") == "block" for w in weights)
    return False


def _kv_cache_dtype(declared: str, config: Mapping[str, Any]) -> str | None:
    """What `--kv-cache-dtype auto` becomes, utils/torch_utils.py:443-516; None where it stays auto."""
    if not declared.startswith("modelopt"):
        return None
    inner = config.get("quantization", config)
    inner = inner if isinstance(inner, dict) else {}
    wanted: Any = None
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        wanted = wanted or inner.get(key) or config.get(key)
    if isinstance(wanted, dict):
        if wanted.get("dynamic") is False and wanted.get("num_bits") == 8 and wanted.get("type") == "float":
            wanted = "fp8"
        elif wanted.get("num_bits") == 4 and wanted.get("type") == "float":
            wanted = "nvfp4"
    return _KV_CACHE_DTYPES.get(wanted.lower()) if isinstance(wanted, str) else None


def built_kv_dtype(root: ConfigNode, text: ConfigNode) -> str | None:
    """What an "auto" KV cache becomes when the attention layers of an llm-compressor checkpoint are built.

    vllm/model_executor/layers/attention/attention.py:250-262.
    """
    config, where = _config(root)
    if config is None:
        config, where = _config(text)
    if config is None or _declared_method(config, where) != "compressed-tensors":
        return None
    return "fp8" if isinstance(config.get("kv_cache_scheme"), dict) else None


def block_weights(root: ConfigNode, text: ConfigNode, *, is_moe: bool) -> BlockWeights | None:
    """The blocks of fp8 weights, and the widths of the layers that are made of them.

    Only layers that no list leaves out count: model_executor/layers/quantization/utils/fp8_utils.py:1285-1345.
    """
    config, _ = _config(root)
    if config is None:
        config, _ = _config(text)
    block = _weight_block(config) if config is not None else None
    if block is None:
        return None
    width = text.integer("moe_intermediate_size") or (text.integer("intermediate_size") if is_moe else 0) or 0
    shared = text.integer("shared_expert_intermediate_size") or 0
    if not shared and text.integer("n_shared_experts"):
        shared = width * (text.integer("n_shared_experts") or 0)
    dense = 0 if is_moe else text.integer("intermediate_size") or 0
    return BlockWeights(rows=block[0], columns=block[1], experts=width, shared_experts=shared, dense=dense)


def _weight_block(config: Mapping[str, Any]) -> tuple[int, int] | None:
    given = config.get("weight_block_size")
    if given is None:
        groups = config.get("config_groups")
        weights = [g.get("weights") for g in groups.values() if isinstance(g, dict)] if isinstance(groups, dict) else []
        blocks = [w.get("block_structure") for w in weights if isinstance(w, dict) and w.get("strategy") == "block"]
        given = blocks[0] if blocks else None
    if isinstance(given, list) and len(given) == 2 and all(type(n) is int and n > 0 for n in given):
        return given[0], given[1]
    return None
