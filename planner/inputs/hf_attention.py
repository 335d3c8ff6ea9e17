"""The attention kind of a model and what it lets vLLM turn on by default.

Follows vllm/config/model.py:1954-1957 and 2174-2292 at 0.33.0.
"""

from __future__ import annotations

from typing import NamedTuple

from ..releases import table
from .hf_architecture import Resolved
from .hf_node import ConfigNode


class Attention(NamedTuple):
    """`kind` is ModelConfig.attn_type: decoder, encoder_only, encoder_decoder, attention_free or hybrid."""

    kind: str
    encoder_decoder: bool


def attention_kind(root: ConfigNode, text: ConfigNode, resolved: Resolved, *, hybrid: bool) -> Attention:
    encoder_decoder = bool(root.flag("is_encoder_decoder")) or bool(text.flag("is_encoder_decoder"))
    if resolved.runner_type == "pooling":
        if resolved.has("pools_cls") or not _is_causal(root, text, resolved):
            kind = "encoder_only"
        else:
            kind = _class_kind(resolved)
    elif hybrid:
        kind = "hybrid"
    elif resolved.has("is_attention_free"):
        kind = "attention_free"
    else:
        kind = "encoder_decoder" if encoder_decoder else "decoder"
    return Attention(kind, encoder_decoder)


def _class_kind(resolved: Resolved) -> str:
    if resolved.has("encoder_only"):
        return "encoder_only"
    return "attention_free" if resolved.has("attention_free_type") else "decoder"


def _is_causal(root: ConfigNode, text: ConfigNode, resolved: Resolved) -> bool:
    """is_causal of the configuration after the model's hook (model_executor/models/config.py)."""
    name = resolved.architecture
    if name in table("architectures")["flags"]["bidirectional"].split():
        return False
    if name == "Gemma3TextModel":
        return not root.flag("use_bidirectional_attention")
    if name == "JinaEmbeddingsV5Model" and root.flag("is_decoder") is False:
        return False
    if name == "ColQwen3_5":
        contract = root.text("retrieval_attention_contract") or text.text("retrieval_attention_contract")
        return contract != "bidirectional"
    if root.model_type.startswith(("gemma4", "embedding_gemma2")) and root.get("use_bidirectional_attention") == "all":
        return False
    return root.flag("is_causal") is not False


def pooling_defaults(attention: Attention, resolved: Resolved, pooling_type: str | None) -> tuple[bool, bool]:
    """Whether chunked prefill and prefix caching are on when the user says nothing."""
    kind = attention.kind
    if resolved.runner_type != "pooling":
        return kind != "encoder_decoder", kind not in ("attention_free", "encoder_decoder")
    if kind == "encoder_only":
        return False, False
    if kind == "decoder":
        whole = _sequence_pooling(resolved, pooling_type) in ("MEAN", "CLS") or resolved.has("pools_step")
        return not whole, not whole
    return kind != "encoder_decoder", False


def _sequence_pooling(resolved: Resolved, pooling_type: str | None) -> str:
    if pooling_type in ("CLS", "LAST", "MEAN"):
        return pooling_type
    if resolved.has("pools_cls"):
        return "CLS"
    return "MEAN" if resolved.has("pools_mean") else "LAST"
