"""The longest sequence that vLLM derives from a config.json, and the data type that `--dtype auto` gives.

Follows vllm/transformers_utils/model_arch_config_convertor.py:350-392 and vllm/config/model.py:2423-2684 at 0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import shorten
from .hf_node import MAX_INT, ConfigNode, bad_value, words

DEFAULT_MAX_LEN = 2048
"""Where no key tells, config/model.py:2595."""

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# RoPE kinds whose factor max_position_embeddings already holds, config/model.py:2617-2624.
_SCALED_ALREADY = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn")
# Keys of rope_parameters that are given by layer type: ALLOWED_LAYER_TYPES of Transformers 5.20, and DeepSeek V4's.
_NESTED_KEYS = words(
    """
    full_attention sliding_attention chunked_attention window_attention indexed_attention
    compressed_sparse_attention heavily_compressed_attention minimax_m3_sparse conv moe hybrid
    hybrid_sliding reference_sliding_attention linear_attention sparse dense main compress
    """
)

_DTYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int8": "int8",
    "uint8": "uint8",
}
# config/model.py:2398-2403.
_NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")


class Length(NamedTuple):
    """`default` of `--max-model-len` and the `limit` a user may ask for, tokens; a limit of 0 is none."""

    default: int
    limit: int


def derived_max_len(root: ConfigNode, text: ConfigNode, *, cap: int | None, encoder_length: int | None) -> Length:
    """The lengths that vLLM derives.

    Args:
        cap: model_max_length of the tokenizer, where vLLM looks at it.
        encoder_length: max_seq_length of a sentence-transformers checkpoint, which overrides all.

    Raises:
        InputError: CG912 a length or a RoPE entry has the wrong type or is out of range.
    """
    lengths = [n for n in (_longest(root, text), cap) if n is not None]
    derived = float(min(lengths, default=DEFAULT_MAX_LEN))
    ropes = list(_ropes(text))
    if ropes and "gemma3" not in text.model_type:
        derived *= _scaling_factor(ropes, text.at(_rope_key(text)))
    if encoder_length is not None:
        derived = float(encoder_length)
    longest = _in_range(derived, text)
    default = longest
    if any(_rope_type(rope) in ("longrope", "su") for rope in ropes):
        default = text.integer("original_max_position_embeddings", low=1) or longest
    return Length(default, max(longest, text.integer("model_max_length") or 0) if lengths else 0)


def _in_range(length: float, text: ConfigNode) -> int:
    if not 1 <= length <= MAX_INT:
        raise bad_value(text.at("max_position_embeddings"), f"the longest sequence must be 1 to {MAX_INT} tokens")
    return int(length)


def _longest(root: ConfigNode, text: ConfigNode) -> int | None:
    if root.model_type == "moss_audio" and isinstance(root.raw.get("language_config"), dict):
        inner = ConfigNode(root.raw["language_config"], {}, "", root.at("language_config."))
        length = inner.integer("max_position_embeddings")
        if length is not None:
            return length
    # Command-R's key overrides the smaller ones.
    return text.integer("model_max_length") or min(
        (n for n in (text.integer(key) for key in _LENGTH_KEYS) if n is not None), default=None
    )


def _rope_key(text: ConfigNode) -> str:
    return "rope_scaling" if text.get("rope_scaling") else "rope_parameters"


def _ropes(text: ConfigNode) -> Iterator[Mapping[str, Any]]:
    """RoPE parameters, one a layer type where they are given by layer type."""
    given = text.get(_rope_key(text))
    if given is None or given == {}:
        return
    if not isinstance(given, dict):
        raise bad_value(text.at(_rope_key(text)), f"an object expected, got {shorten(given, 40)}")
    if _NESTED_KEYS.issuperset(given):
        yield from (rope for rope in given.values() if isinstance(rope, dict) and rope)
    else:
        yield given


def _rope_type(rope: Mapping[str, Any]) -> Any:
    return rope.get("rope_type", rope.get("type", "default"))


def _scaling_factor(ropes: list[Mapping[str, Any]], where: str) -> float:
    factor: Any = 1.0
    for rope in ropes:
        kind = _rope_type(rope)
        if not (isinstance(kind, str) and kind in _SCALED_ALREADY):
            factor = rope.get("factor", factor)
    if factor is None:
        return 1.0
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor <= 1e9:
        raise bad_value(f"{where}.factor", f"a positive number expected, got {shorten(factor, 40)}")
    return float(factor)


def auto_dtype(root: ConfigNode, text: ConfigNode, *, pooling: bool) -> str:
    """The torch name of the data type that `--dtype auto` gives on a GPU of compute capability 8.0 or more.

    Raises:
        InputError: CG912 torch has no data type of that name.
    """
    declared = _declared_dtype(root) or _declared_dtype(text)
    for key in ("vision_config", "encoder_config"):
        part = root.get(key)
        if declared is None and isinstance(part, dict):
            declared = _declared_dtype(ConfigNode(part, {}, "", root.at(f"{key}.")))
    float16_works = root.model_type not in _NO_FLOAT16
    preferred = "float16" if pooling and float16_works else "bfloat16"
    if declared is None or declared == "float32":
        return preferred
    return declared if declared == "bfloat16" or (declared == "float16" and float16_works) else preferred


def _declared_dtype(node: ConfigNode) -> str | None:
    for key in ("dtype", "torch_dtype"):
        name = node.text(key)
        if name is not None:
            if name not in _DTYPES:
                raise bad_value(node.at(key), f"torch has no data type {shorten(name, 40)}")
            return _DTYPES[name]
    return None
