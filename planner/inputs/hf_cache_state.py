"""Cached layers of models that mix attention with layers of a fixed-size state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..cache_layers import CacheLayers, CacheShape, StateSizes
from .hf_cache_text import CacheText, attention
from .hf_node import bad_value


def _shape(*layers: CacheLayers, draft: tuple[CacheLayers, ...] = (), ssm_dtype: str | None = None) -> CacheShape:
    """In order of the first layer; what has no layers is left out."""
    found = sorted((kind for kind in layers if kind.layers), key=lambda kind: kind.layers[0])
    return CacheShape(layers=tuple(found), draft_layers=draft, ssm_dtype=ssm_dtype)


def _nemotron_h(given: CacheText, prefix: str) -> CacheShape:
    """models/nemotron_h.py:426-620, models/nemotron_h_mtp.py; M is Mamba 2, * attention, - and E keep nothing."""
    text = given.text
    pattern = text.text("hybrid_override_pattern") or _pattern_of(given)
    if not set(pattern) <= set("M*-E"):
        raise bad_value(text.at("hybrid_override_pattern"), "letters M, *, - and E expected")
    name = f"{prefix}model.layers.{{}}.mixer"
    heads, head_size = given.needed("mamba_num_heads"), given.needed("mamba_head_dim")
    mamba = CacheLayers(
        name=name,
        layers=tuple(i for i, kind in enumerate(pattern) if kind == "M"),
        kind="mamba2",
        state=StateSizes(
            width=heads * head_size,
            conv_kernel=given.needed("conv_kernel"),
            num_heads=heads,
            head_size=head_size,
            n_groups=given.needed("n_groups"),
            state_size=given.needed("ssm_state_size"),
        ),
    )
    window = text.integer("sliding_window") or None
    of_heads = attention(given, f"{name}.attn", [i for i, kind in enumerate(pattern) if kind == "*"])
    of_heads = of_heads.model_copy(update={"sliding_window": window})
    draft_pattern = str(given.get("mtp_hybrid_override_pattern") or "*E")
    drafts = tuple(i for i, kind in enumerate(draft_pattern) if kind == "*")
    draft = of_heads.model_copy(update={"name": "mtp.layers.{}.mixer.attn", "layers": drafts})
    return _shape(
        mamba,
        of_heads,
        draft=(draft,) if given.num_predict_layers else (),
        ssm_dtype=text.text("mamba_ssm_cache_dtype") or "model",
    )


def _pattern_of(given: CacheText) -> str:
    letters = {"linear_attention": "M", "mamba": "M", "full_attention": "*", "attention": "*", "moe": "E", "mlp": "-"}
    kinds = given.text.names("layers_block_type") or given.text.names("layer_types")
    if kinds is None or any(kind not in letters for kind in kinds):
        raise bad_value(given.text.at("hybrid_override_pattern"), "the key is missing")
    return "".join(letters[kind] for kind in kinds)


def _gated_delta_net(given: CacheText, prefix: str) -> CacheShape:
    """models/qwen3_next.py:490-520, models/qwen3_5.py:140-170, and their MTP modules."""
    text = given.text
    kinds = _attention_interval(given)
    name = f"{prefix}model.layers.{{}}"
    linear = CacheLayers(
        name=f"{name}.linear_attn",
        layers=tuple(i for i, kind in enumerate(kinds) if kind == "linear_attention"),
        kind="gdn",
        state=StateSizes(
            conv_kernel=given.needed("linear_conv_kernel_dim"),
            num_heads=given.needed("linear_num_value_heads"),
            head_size=given.needed("linear_value_head_dim"),
            num_key_heads=given.needed("linear_num_key_heads"),
            key_head_size=given.needed("linear_key_head_dim"),
        ),
    )
    full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    of_heads = attention(given, f"{name}.self_attn.attn", full)
    number = given.num_predict_layers or int(text.model_type == "qwen3_next")
    draft = of_heads.model_copy(update={"name": "mtp.layers.{}.self_attn.attn", "layers": tuple(range(number))})
    return _shape(linear, of_heads, draft=(draft,) if number else (), ssm_dtype=text.text("mamba_ssm_dtype"))


def _attention_interval(given: CacheText) -> list[str]:
    if given.text.layer_types() is not None:
        return given.layer_kinds()
    step = given.text.integer("full_attention_interval", low=1) or 4
    number = given.sizes.num_hidden_layers
    return ["linear_attention" if (i + 1) % step else "full_attention" for i in range(number)]


def _granite_hybrid(given: CacheText, prefix: str) -> CacheShape:
    """models/granitemoehybrid.py:80-160 and 617-645."""
    kinds = given.text.layer_types() or ["linear_attention"] * given.sizes.num_hidden_layers
    name = f"{prefix}model.layers.{{}}"
    width = given.needed("mamba_expand") * given.sizes.hidden_size
    heads = given.needed("mamba_n_heads")
    size = given.get("mamba_d_head")
    mamba = CacheLayers(
        name=f"{name}.mixer",
        layers=tuple(i for i, kind in enumerate(kinds) if kind == "linear_attention"),
        kind="mamba2",
        state=StateSizes(
            width=width,
            conv_kernel=given.needed("mamba_d_conv"),
            num_heads=heads,
            head_size=width // heads if size in (None, "auto") else given.needed("mamba_d_head"),
            n_groups=given.needed("mamba_n_groups"),
            state_size=given.needed("mamba_d_state"),
        ),
    )
    full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    return _shape(mamba, attention(given, f"{name}.self_attn.attn", full))


def _jamba(given: CacheText, prefix: str) -> CacheShape:
    """models/jamba.py:190-240 and 466-485."""
    period, offset = given.needed("attn_layer_period"), given.integer("attn_layer_offset")
    every = range(given.sizes.num_hidden_layers)
    name = f"{prefix}model.layers.{{}}"
    mamba = CacheLayers(
        name=f"{name}.mamba",
        layers=tuple(i for i in every if i % period != offset),
        kind="mamba1",
        state=StateSizes(
            width=given.needed("mamba_expand") * given.sizes.hidden_size,
            conv_kernel=given.needed("mamba_d_conv"),
            state_size=given.needed("mamba_d_state"),
        ),
    )
    mamba = mamba.model_copy(update={"name": f"{name}.mixer"})
    return _shape(mamba, attention(given, f"{name}.attn", [i for i in every if i % period == offset]))


def _kimi_linear(given: CacheText, prefix: str) -> CacheShape:
    """vllm/models/kimi_k3/nvidia/model.py:710-765, kda.py:555-620; layers are counted from 1 there."""
    inner = given.text.mapping("linear_attn_config")
    if inner is None:
        raise bad_value(given.text.at("linear_attn_config"), "the key is missing")
    node = type(given.text)(inner, {}, "", given.text.at("linear_attn_config."))
    full = inner.get("full_attn_layers")
    if not isinstance(full, list):
        raise bad_value(node.at("full_attn_layers"), "a list of layer numbers expected")
    every = range(given.sizes.num_hidden_layers)
    name = f"{prefix}model.layers.{{}}.self_attn"
    linear = CacheLayers(
        name=name,
        layers=tuple(i for i in every if i + 1 not in full),
        kind="kda",
        state=StateSizes(
            conv_kernel=node.integer("short_conv_kernel_size", low=1) or 4,
            num_heads=node.integer("num_heads", low=1) or given.sizes.num_attention_heads,
            head_size=node.integer("head_dim", low=1) or 128,
            has_gate_bound=inner.get("gate_lower_bound") is not None,
        ),
    )
    of_heads = CacheLayers(
        name=name,
        layers=tuple(i for i in every if i + 1 in full),
        kind="mla",
        num_heads=given.sizes.num_attention_heads,
        num_kv_heads=1,
        head_size=given.needed("kv_lora_rank") + (given.sizes.qk_rope_head_dim or 0),
    )
    return _shape(linear, of_heads)


FAMILIES: Mapping[str, Callable[[CacheText, str], CacheShape]] = {
    "nemotron_h": _nemotron_h,
    "gated_delta_net": _gated_delta_net,
    "granite_hybrid": _granite_hybrid,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
}
