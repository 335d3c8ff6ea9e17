"""The sizes of a model as vLLM's converters read them.

Follows vllm/transformers_utils/model_arch_config_convertor.py:71-217 and 461-876 at 0.33.0.
"""

from __future__ import annotations

from dataclasses import replace

from ..light_dataclass import dataclass
from .hf_node import ConfigNode, bad_value, checked_int, words

# transformers_utils/config.py:55-75.
_KV_HEAD_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_EXPERT_KEYS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")

# model_arch_config_convertor.py:275-304.
_MLA_MODEL_TYPES = words(
    """
    axk1 deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deepseek_v41 dots3_note deepseek_mtp k3_dspark
    glm5_next glm5_next_text glm_moe_dsa glm4_moe_lite glm4_moe_lite_mtp kimi_k2 kimi_linear longcat_flash
    pangu_ultra_moe pangu_ultra_moe_mtp bailing_hybrid bailing_hybrid_mtp bailing_hybrid_v3_mtp hy_v4
    hy_v4_mtp
    """
)


@dataclass(frozen=True)
class Dimensions:
    """See the fields of the same names of ModelShape; heads and sizes of the whole model."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    intermediate_size: int | None
    num_experts: int
    is_mla: bool
    qk_rope_head_dim: int | None


def read_dimensions(root: ConfigNode, text: ConfigNode) -> Dimensions:
    """The sizes of the language model.

    Raises:
        InputError: CG912 a size has the wrong type, is missing or out of range.
    """
    text = _sized_part(root, text)
    heads = text.integer("num_attention_heads") or 0
    mla = _is_mla(text)
    rope_dim = _rope_head_dim(text)
    hidden = _needed(text, "hidden_size")
    sizes = Dimensions(
        hidden_size=hidden,
        num_hidden_layers=_num_layers(text),
        num_attention_heads=heads,
        num_kv_heads=_kv_heads(text, heads),
        head_size=_mla_head_size(text, rope_dim or 0) if mla else _head_size(text, hidden, heads),
        vocab_size=_needed(text, "vocab_size"),
        intermediate_size=_intermediate_size(text),
        num_experts=_num_experts(text),
        is_mla=mla,
        qk_rope_head_dim=rope_dim,
    )
    return _special(root, text, sizes)


def _sized_part(root: ConfigNode, text: ConfigNode) -> ConfigNode:
    inner = root.raw.get("language_config")
    if root.model_type == "moss_audio" and isinstance(inner, dict):
        return ConfigNode(inner, {}, text.model_type, root.at("language_config."))
    return text


def _needed(text: ConfigNode, key: str) -> int:
    size = text.integer(key)
    if not size:
        raise bad_value(text.at(key), "the key is missing or 0", fix="give the model's own config.json, in full")
    return size


def _num_layers(text: ConfigNode) -> int:
    if text.model_type == "nemotron_h":
        # The class counts its layers and ignores num_hidden_layers.
        listed = text.names("layers_block_type") or text.names("layer_types") or text.text("hybrid_override_pattern")
        return len(listed or ()) or int(text.defaults.get("num_hidden_layers", 0)) or _needed(text, "num_hidden_layers")
    if text.model_type == "longcat_flash":
        return _needed(text, "num_layers")
    layers = _needed(text, "num_hidden_layers")
    if text.model_type == "hrm_text" and text.get("num_layers_per_stack") is None:
        # Every layer runs once a cycle and counts each time.
        high, low = (text.integer(key) for key in ("H_cycles", "L_cycles"))
        return layers * (2 if high is None else high) * ((3 if low is None else low) + 1) or layers
    return layers


def _kv_heads(text: ConfigNode, heads: int) -> int:
    count = text.first_integer(_KV_HEAD_KEYS)
    return heads if count is None else count


def _num_experts(text: ConfigNode) -> int:
    count = text.first_integer(_EXPERT_KEYS)
    if count:
        return count
    blocks = text.get("block_configs")
    most = 0
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("block_type") == "moe":
            most = max(most, checked_int(block.get("n_routed_experts"), text.at("block_configs")) or 0)
    return most


def _intermediate_size(text: ConfigNode) -> int | None:
    if text.model_type == "gemma3n_text" or isinstance(text.get("intermediate_size"), list):
        return None  # one a layer
    return text.integer("intermediate_size")


def _is_mla(text: ConfigNode) -> bool:
    if text.model_type not in _MLA_MODEL_TYPES:
        return False
    return text.get("head_dim" if _compresses(text) else "kv_lora_rank") is not None


def _compresses(text: ConfigNode) -> bool:
    """DeepSeek V4: the cache is compressed by layer, transformers_utils/deepseek_v4_utils.py."""
    ratios = text.get("compress_ratios")
    return bool(ratios) if ratios is not None else text.get("compress_rates") is not None


def _rope_head_dim(text: ConfigNode) -> int | None:
    """qk_rope_head_dim; where another key overwrote it, the file's own value."""
    size = text.integer("qk_rope_head_dim")
    if size and size == text.integer("qk_nope_head_dim") and "qk_rope_head_dim" in text.raw:
        return checked_int(text.raw["qk_rope_head_dim"], text.at("qk_rope_head_dim"))
    return size


def _mla_head_size(text: ConfigNode, rope_dim: int) -> int:
    if _compresses(text):
        return text.integer("head_dim") or 0
    return (text.integer("kv_lora_rank") or 0) + rope_dim


def _head_size(text: ConfigNode, hidden: int, heads: int) -> int:
    for key in ("head_dim", "hidden_size_per_head"):
        size = text.integer(key, low=-1)
        if size is not None and (size > 0 or key != "head_dim"):
            return max(size, 0)
    return hidden // heads if heads else 0


def _special(root: ConfigNode, text: ConfigNode, sizes: Dimensions) -> Dimensions:
    """What the converter of the model type changes."""
    kind = root.model_type
    if kind in ("mamba", "falcon_mamba", "timm_wrapper"):
        return replace(sizes, head_size=0, num_kv_heads=0)
    if kind == "zamba2":
        size = text.integer("attention_head_dim")
        heads = sizes.num_attention_heads
        return replace(sizes, head_size=size if size else 2 * sizes.hidden_size // heads if heads else 0)
    if kind in ("falcon", "RefinedWeb", "RefinedWebModel"):
        if not text.flag("new_decoder_architecture") and text.flag("multi_query"):
            return replace(sizes, num_kv_heads=1)
    elif kind == "dbrx":
        inner = text.mapping("attn_config") or {}
        count = checked_int(inner.get("kv_n_heads"), text.at("attn_config.kv_n_heads"))
        return replace(sizes, num_kv_heads=1 if count is None else count)
    elif kind == "nemotron-nas":
        return replace(sizes, num_kv_heads=_nas_kv_heads(text, sizes.num_attention_heads))
    if text.defaults.get("@per_layer") == "gemma4":
        return _gemma4(text, sizes)
    return sizes


def _nas_kv_heads(text: ConfigNode, heads: int) -> int:
    blocks = text.get("block_configs")
    for block in blocks if isinstance(blocks, list) else ():
        attention = block.get("attention") if isinstance(block, dict) else None
        if isinstance(attention, dict) and not attention.get("no_op"):
            group = checked_int(attention.get("n_heads_in_group"), text.at("block_configs"), low=1)
            if group:
                return heads // group
    raise bad_value(text.at("block_configs"), "no block with attention and n_heads_in_group")


def _gemma4(text: ConfigNode, sizes: Dimensions) -> Dimensions:
    """Layers of full attention have heads of their own; vLLM takes the largest."""
    global_size = text.integer("global_head_dim")
    size = max(sizes.head_size, 512 if global_size is None else global_size)
    count = text.integer("num_global_key_value_heads") if text.flag("attention_k_eq_v") else None
    return replace(sizes, head_size=size, num_kv_heads=max(sizes.num_kv_heads, count or 0))
