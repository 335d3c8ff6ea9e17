"""A ModelShape out of a Hugging Face config.json, without Transformers: what vLLM's ModelConfig would say of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..model_shape import ModelShape
from .hf_architecture import Resolved, resolve
from .hf_attention import attention_kind, pooling_defaults
from .hf_cache import read_cache
from .hf_dimensions import Dimensions, read_dimensions
from .hf_features import (
    has_sinks,
    is_hybrid,
    is_mm_prefix_lm,
    largest_mm_item,
    mamba_backends,
    num_predict_layers,
)
from .hf_layers import attention_chunk_size, has_full_attention, sliding_window
from .hf_length import auto_dtype, derived_max_len
from .hf_node import ConfigNode
from .hf_parts import architectures_of, open_config
from .hf_quantization import block_weights, read_quantization
from .hf_sidecars import Sidecars, read_sidecars
from .hf_weights import read_weights
from .safe_json import exists, is_directory, read_object, shown


def read_config(path: Path | str, *, runner: str = "auto") -> ModelShape:
    """The shape of the model whose directory, or config.json, is `path`.

    Raises:
        InputError: CG910 unreadable, CG911 not JSON, CG912 a key has the wrong type or value, CG913 unknown
            architecture, CG914 too large.
    """
    file = Path(path)
    if is_directory(file):
        folder, file = file, file / "config.json"
        if not exists(file):
            raise InputError(
                f"{shown(folder)} holds no config.json",
                code="CG910",
                where=shown(folder),
                fix="give a Hugging Face model's directory, its config.json, or one manifest or script by its name",
            )
    config = read_object(file)
    sidecars = read_sidecars(file.parent) if file.name == "config.json" else Sidecars()
    name = file.absolute().parent.name if file.name == "config.json" else file.name
    return shape_of(config, name=name, runner=runner, sidecars=sidecars, where=shown(file))


def shape_of(
    config: Mapping[str, Any],
    *,
    name: str | None = None,
    runner: str = "auto",
    sidecars: Sidecars | None = None,
    where: str = "config.json",
) -> ModelShape:
    """The shape that vLLM 0.33.0's ModelConfig sees in `config`; nothing is read from disk.

    Args:
        config: the parsed config.json.
        name: what to call the model.
        runner: `--runner`: auto, generate, pooling or draft.
        sidecars: what stands beside config.json.
        where: how errors name the configuration.

    Raises:
        InputError: CG912 a key has the wrong type or value, CG913 unknown architecture.
    """
    beside = sidecars or Sidecars()
    if config.get("quantization_config") is None and beside.quantization_config is not None:
        config = {**config, "quantization_config": beside.quantization_config}
    try:
        return _shape(config, name, runner, beside, where)
    except RecursionError:
        raise InputError(
            f"{where}: nested too deeply", code="CG912", where=where, fix="give the published config.json"
        ) from None


def _shape(config: Mapping[str, Any], name: str | None, runner: str, beside: Sidecars, where: str) -> ModelShape:
    root, text = open_config(config, where)
    architectures = architectures_of(root)
    dimensions = read_dimensions(root, text)
    resolved = resolve(
        architectures,
        runner=runner,
        nested=root is not text,
        is_moe=dimensions.num_experts > 0,
        sentence_transformer=beside.sentence_transformer,
        where=where,
    )
    pooling = resolved.runner_type == "pooling"
    hybrid = is_hybrid(root, resolved)
    attention = attention_kind(root, text, resolved, hybrid=hybrid)
    chunked_prefill, prefix_caching = pooling_defaults(attention, resolved, beside.pooling_type)
    quantization = read_quantization(root, text, resolved)
    absolute = pooling and root.text("position_embedding_type") == "absolute"
    length = derived_max_len(
        root, text, cap=beside.tokenizer_length if absolute else None, encoder_length=beside.encoder_length
    )
    window = sliding_window(text)
    predict_layers = num_predict_layers(root, text, architectures)
    cache = read_cache(root, text, resolved, dimensions, window=window, num_predict_layers=predict_layers)
    return ModelShape(
        name=name,
        architectures=architectures,
        model_type=text.model_type,
        dtype=auto_dtype(root, text, pooling=pooling),
        max_model_len=length.default,
        max_model_len_limit=None if length.limit == length.default else length.limit,
        runner_type=resolved.runner_type,
        is_hybrid=hybrid,
        is_attention_free=resolved.has("is_attention_free"),
        is_encoder_decoder=attention.encoder_decoder,
        is_encoder_only=attention.kind == "encoder_only",
        is_multimodal_model=resolved.has("supports_multimodal"),
        is_mm_prefix_lm=is_mm_prefix_lm(root, text),
        largest_mm_item=largest_mm_item(root),
        is_diffusion=root.get("canvas_length") is not None,
        canvas_length=root.integer("canvas_length", low=1),
        mamba_backends=mamba_backends(root, text, architectures, resolved, hybrid=hybrid),
        sliding_window=window,
        has_full_attention_layers=has_full_attention(text, window),
        attention_chunk_size=attention_chunk_size(root, text),
        has_sinks=has_sinks(text, resolved),
        quantization=quantization.method,
        is_nvfp4_quantized=quantization.nvfp4,
        weight_block_quantized=quantization.weight_blocks,
        block_weights=block_weights(root, text, is_moe=dimensions.num_experts > 0),
        kv_cache_dtype=quantization.kv_cache_dtype,
        num_nextn_predict_layers=predict_layers,
        cache=cache.shape,
        cache_unknown=cache.unknown,
        weights=read_weights(root, text, resolved, dimensions, cache.shape, predict_layers, name),
        chunked_prefill_default=chunked_prefill,
        prefix_caching_default=prefix_caching,
        **_dimension_fields(dimensions, text, resolved),
    )


def _dimension_fields(dimensions: Dimensions, text: ConfigNode, resolved: Resolved) -> dict[str, Any]:
    causal = text.flag("is_causal") is not False
    mla = text.get("kv_lora_rank") is not None if resolved.transformers_backend else dimensions.is_mla and causal
    return {
        "hidden_size": dimensions.hidden_size,
        "num_hidden_layers": dimensions.num_hidden_layers,
        "num_attention_heads": dimensions.num_attention_heads,
        "num_kv_heads": dimensions.num_kv_heads,
        "head_size": dimensions.head_size,
        "vocab_size": dimensions.vocab_size,
        "intermediate_size": dimensions.intermediate_size,
        "is_moe": dimensions.num_experts > 0,
        "use_mla": mla,
        "index_topk": text.integer("index_topk"),
        "kv_lora_rank": text.integer("kv_lora_rank"),
        "qk_nope_head_dim": text.integer("qk_nope_head_dim"),
        "qk_rope_head_dim": dimensions.qk_rope_head_dim,
        "v_head_dim": text.integer("v_head_dim"),
    }
