"""Which layers of a model slide, and how far.

Follows vllm/engine/arg_utils.py:2288-2294 and vllm/config/model.py:815-822 at 0.33.0.
"""

from __future__ import annotations

from .hf_node import ConfigNode


def sliding_window(text: ConfigNode) -> int | None:
    """The window of the sliding layers, tokens, after the configuration class has had its say; 0 means none."""
    window = text.integer("sliding_window")
    if text.model_type == "mimo_v2_flash" and text.get("sliding_window_size") is not None:
        window = (text.integer("sliding_window_size") or 0) + 1  # its size leaves out the query itself
    gate = text.defaults.get("@window")
    asked = text.flag("use_sliding_window") if gate else True
    if gate and not (gate == "on" if asked is None else asked):
        return None
    if window and _is_bidirectional(text):
        # FlashAttention's bounds are exclusive: the class halves the window.
        window = window // 2 + 1
    return window or None


def _is_bidirectional(text: ConfigNode) -> bool:
    if "@layers" not in text.defaults:
        return False
    value = text.get("use_bidirectional_attention")
    return value == "all" if "gemma4" in text.model_type else value is True


def has_full_attention(text: ConfigNode, window: int | None) -> bool:
    """False when vLLM gives the window to every layer."""
    given = text.layer_types()
    if window is None:
        return True
    if given is not None:
        return not all(kind == "sliding_attention" for kind in given)
    rule = text.defaults.get("@layers")
    if rule is None:
        return False
    layers = text.integer("num_hidden_layers") or 0
    if text.defaults.get("@window") and rule == "full":
        # Sliding from max_window_layers on.
        return min(text.integer("max_window_layers") or 0, layers) > 0
    if rule == "full":
        return True
    if rule == "sliding":
        return False
    if isinstance(rule, int):
        pattern = text.get("sliding_window_pattern")
        first = pattern if isinstance(pattern, int) and not isinstance(pattern, bool) else rule
        return layers >= first
    return True


def attention_chunk_size(root: ConfigNode, text: ConfigNode) -> int | None:
    """Chunk of local attention, tokens. MiMo V2 declares one and does not use it."""
    if root.model_type.startswith("mimo_v2"):
        return None
    return text.integer("attention_chunk_size")
