"""The two levels of a config.json that matter: the whole, and the part that describes the language model.

Follows PreTrainedConfig.get_text_config of Transformers 5.20 and vllm/transformers_utils/config.py:335-440 at 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import shorten
from .hf_node import ConfigNode, bad_value, class_defaults, words

# Names under which remote code keeps the language model's part; the first that is there wins.
_PART_KEYS = ("text_config", "llm_config", "language_config", "decoder", "generator", "text_encoder")

# Keys that a class takes from the top of a flat file for its language model, besides those it has defaults for.
_FLAT_KEYS = words(
    """
    num_key_value_heads layer_types use_sliding_window rope_parameters rope_scaling rope_theta dtype
    torch_dtype
    """
)

# transformers_utils/config.py:185-188: published without a model_type.
_MODEL_TYPE_OF_ARCHITECTURE = {
    "LongcatFlashForCausalLM": "longcat_flash",
    "LongcatFlashNgramForCausalLM": "longcat_flash",
}


def open_config(config: Mapping[str, Any], where: str) -> tuple[ConfigNode, ConfigNode]:
    """The whole configuration, and its language model's part (the same node for a text model).

    Raises:
        InputError: CG912 there is no model_type, or a part is no object.
    """
    if config.get("model_type") == "eagle":
        config = _unwrap_eagle(config, where)
    model_type = _model_type(config, where)
    root = ConfigNode(config, class_defaults(model_type), model_type, f"{where}: ")
    return root, _language_part(root)


def architectures_of(root: ConfigNode) -> tuple[str, ...]:
    """`architectures` as vLLM rewrites them, or the default of the model type; empty when there is neither.

    Sources: transformers_utils/config.py:910-922; model_arch_config_convertor.py:553-570, 591-601.
    """
    given = root.names("architectures")
    if not given:
        base = root.defaults.get("@base")
        return (base,) if base else ()
    if root.model_type in ("mimo_v2", "mimo_v2_flash") and root.get("vision_config"):
        return ("MiMoV2OmniForCausalLM",)
    if root.model_type == "deepseek_v4" and given == ["DeepseekV4ForCausalLM"] and root.integer("vision_n_layers"):
        return ("DeepseekV4ForConditionalGeneration",)
    return tuple(given)


def _model_type(config: Mapping[str, Any], where: str) -> str:
    model_type = config.get("model_type")
    if model_type is None:
        names = config.get("architectures")
        first = names[0] if isinstance(names, list) and names else None
        model_type = _MODEL_TYPE_OF_ARCHITECTURE.get(first) if isinstance(first, str) else None
    if isinstance(model_type, str) and model_type:
        return model_type
    at = f"{where}: model_type"
    if model_type is None:
        raise bad_value(at, "the key is missing", fix="give the model's own config.json, which names its model_type")
    raise bad_value(at, f"text expected, got {shorten(model_type, 40)}")


def _language_part(root: ConfigNode) -> ConfigNode:
    known = root.defaults.get("@text")
    if known is not None:
        return _known_part(root, *known)
    if root.defaults:
        # The class has no such part, but a stray object of that name is taken for one.
        for key in ("text_config", "decoder", "generator", "text_encoder"):
            if isinstance(root.raw.get(key), dict):
                return _part(root, key, root.raw[key], None, fixed=False)
        return root
    thinker = root.raw.get("thinker_config")
    if isinstance(thinker, dict) and isinstance(thinker.get("text_config"), dict):
        return _part(root, "thinker_config.text_config", thinker["text_config"], None, fixed=False)
    for key in _PART_KEYS:
        if isinstance(root.raw.get(key), dict):
            return _part(root, key, root.raw[key], None, fixed=False)
    return root


def _known_part(root: ConfigNode, path: str, model_type: str, kind: str, flat: str = "") -> ConfigNode:
    """The part of a class whose shape is known; absent, it is all defaults, or stands at the top (flat)."""
    raw: Any = root.raw
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    if raw is None:
        defaults = class_defaults(model_type)
        if root.model_type == "glm5_next":
            return ConfigNode(root.raw, defaults, root.model_type, root.where)  # a flat file is its own part
        keys = {*defaults, *_FLAT_KEYS} if flat else set()
        raw = {key: value for key, value in root.raw.items() if key in keys}
        raw = {**root.defaults.get("@absent", {}), **raw}
        where = root.where if flat else root.at(f"{path}.")
        return ConfigNode(raw, defaults, model_type, where)
    return _part(root, path, raw, model_type, fixed=kind == "fixed")


def _part(root: ConfigNode, path: str, raw: Any, default_type: str | None, *, fixed: bool) -> ConfigNode:
    at = root.at(path)
    if not isinstance(raw, dict):
        raise bad_value(at, f"an object expected, got {shorten(raw, 40)}")
    own = raw.get("model_type")
    if own is not None and not isinstance(own, str):
        raise bad_value(f"{at}.model_type", f"text expected, got {shorten(own, 40)}")
    if own == "kimi_k2" and root.model_type == "kimi_k25":
        own = "deepseek_v3"  # the class renames it
    shape_of = default_type if fixed or own is None else own
    return ConfigNode(raw, class_defaults(shape_of or ""), own or default_type or "", f"{at}.")


def _unwrap_eagle(config: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """An EAGLE draft wraps the configuration of its base model (transformers_utils/configs/eagle.py)."""
    inner = config.get("model")
    if not isinstance(inner, dict):
        raise bad_value(f"{where}: model", "an EAGLE draft needs the object of its base model")
    names = inner.get("architectures")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise bad_value(f"{where}: model.architectures", "a list of texts expected")
    draft = [name if name.startswith("Eagle") else f"Eagle{name}" for name in names]
    return {**inner, **{k: v for k, v in config.items() if k not in ("model", "model_type")}, "architectures": draft}
