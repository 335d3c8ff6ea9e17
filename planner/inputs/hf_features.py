"""Yes-or-no facts of a model that vLLM reads out of a few odd keys."""

from __future__ import annotations

from collections.abc import Sequence

from ..releases import table
from .hf_architecture import Resolved
from .hf_node import ConfigNode

_MM_PREFIX_MODEL_TYPES = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma")


def is_hybrid(root: ConfigNode, resolved: Resolved) -> bool:
    """ModelConfig.is_hybrid, config/model.py:2041-2050: not when every layer turns out to be attention."""
    if not resolved.has("is_hybrid"):
        return False
    given = root.layer_types()
    if given is not None:
        return not all(kind == "full_attention" for kind in given)
    # Without a list LFM2 is all attention.
    return root.model_type != "lfm2" or root.get("full_attn_idxs") is not None


def is_mm_prefix_lm(root: ConfigNode, text: ConfigNode) -> bool:
    """Image tokens see each other both ways, model_arch_config_convertor.py:328-348 and 572-580, 742-750."""
    kind = root.model_type
    if kind in ("cohere_asr",):
        return False
    if kind.removesuffix("_text") in ("gemma4", "gemma4_unified", "diffusion_gemma"):
        return bool(text.get("use_bidirectional_attention") == "vision")
    if kind == "deepseek_v4":
        return bool(root.integer("vision_n_layers"))
    declared = root.flag("is_mm_prefix_lm")
    if declared is not None or root.has("is_mm_prefix_lm"):
        return bool(declared)
    return kind in _MM_PREFIX_MODEL_TYPES


def largest_mm_item(root: ConfigNode) -> int | None:
    """Tokens of the largest multimodal item. Gemma 4: a video of 32 frames, model_executor/models/gemma4_mm.py:290."""
    return 32 * (70 + 2 + 6) if root.model_type == "gemma4" else None


def mamba_backends(
    root: ConfigNode, text: ConfigNode, architectures: Sequence[str], resolved: Resolved, *, hybrid: bool
) -> tuple[str, ...]:
    """Kinds of the state-space or linear attention layers, sorted; empty when all layers turn out to be attention."""
    if resolved.has("is_hybrid") and not hybrid:
        return ()
    names = {resolved.model_class, resolved.architecture, *architectures}
    kinds = {kind for kind, listed in table("architectures")["mamba"].items() if names.intersection(listed.split())}
    if any(name.startswith("Qwen4Exp") for name in names) and not text.get("ple_layer_ids"):
        kinds.discard("SHORT_CONV")  # of the n-gram embedding layers, models/qwen4_exp/nvidia/ple_layer.py:180
    return tuple(sorted(kinds))


def has_sinks(text: ConfigNode, resolved: Resolved) -> bool:
    """Whether the model gives its attention layers sinks."""
    for key, listed in table("architectures")["sinks"].items():
        if resolved.model_class in listed.split():
            if key == "always":
                return True
            declared = text.flag(key)
            if key == "attention_sinks" and declared is None:
                return text.layer_types() is not None or "@layers" in text.defaults
            return bool(declared)
    return False


# Keys of the multi-token-prediction layers where they are not num_nextn_predict_layers, by model_type, and the count
# when the key is absent; config/speculative.py:711-1160.
_PREDICT_KEYS = {
    "qwen3_5": ("mtp_num_hidden_layers", None),
    "qwen3_5_moe": ("mtp_num_hidden_layers", None),
    "qwen3_5_text": ("mtp_num_hidden_layers", None),
    "qwen3_5_moe_text": ("mtp_num_hidden_layers", None),
    "intern_s2_preview": ("mtp_num_hidden_layers", None),
    "interns2_mobius": ("mtp_num_hidden_layers", None),
    "qwen4_exp": ("mtp_num_hidden_layers", None),
    "qwen4_exp_text": ("mtp_num_hidden_layers", None),
    "minimax_m3_vl": ("num_mtp_modules", 1),
    "minimax_m3_mtp": ("num_mtp_modules", 1),
    "longcat_flash": ("num_nextn_predict_layers", 1),
    "dots3_note": ("num_nextn_predict_layers", 1),
    "step3p5": ("num_nextn_predict_layers", 1),
    "step3p7": ("num_nextn_predict_layers", 1),
    "step5": ("num_nextn_predict_layers", 1),
    "step5_vl": ("num_nextn_predict_layers", 1),
}
# vLLM runs one of them only (models/mimo_v2_mtp.py).
_ONE_PREDICT_LAYER = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM")


def num_predict_layers(root: ConfigNode, text: ConfigNode, architectures: Sequence[str]) -> int | None:
    """`n_predict` that SpeculativeConfig gives the model's own draft layers, or None."""
    if architectures and architectures[0] in _ONE_PREDICT_LAYER:
        return 1
    if root.model_type in ("gemma4_assistant", "gemma4_unified_assistant"):
        return 1
    if root.model_type.startswith("inkling"):
        inner = root.mapping("mtp_config") or {}
        return ConfigNode(inner, {}, "", root.at("mtp_config.")).integer("num_nextn_predict_layers")
    if root.model_type not in _PREDICT_KEYS:
        return text.integer("num_nextn_predict_layers")
    key, absent = _PREDICT_KEYS[root.model_type]
    counts = [node.integer(key) for node in (root, text)]
    return next((count for count in (*counts, absent) if count is not None), None)
