"""Which layers of a model keep something between steps: the part of a ModelShape that the KV cache is sized by.

The model classes of vLLM decide it; releases/kv_layers.toml says which class builds which layers. A class that is
not there has no CacheShape, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from ..cache_layers import CacheLayers, CacheShape
from ..errors import InputError
from ..releases import table
from .hf_architecture import Resolved
from .hf_cache_mamba import FAMILIES as MAMBA_FAMILIES
from .hf_cache_mla import deepseek_v4, mla_layers
from .hf_cache_state import FAMILIES as STATE_FAMILIES
from .hf_cache_text import CacheText, attention
from .hf_dimensions import Dimensions
from .hf_layers import has_full_attention
from .hf_node import ConfigNode, bad_value, checked_int
from .hf_quantization import built_kv_dtype


class Row(NamedTuple):
    """How an architecture names its layers: `kind` is dense, mla or a family."""

    kind: str
    name: str


class Cache(NamedTuple):
    """What the layers keep, or why that is not known, in one line."""

    shape: CacheShape | None
    unknown: str | None = None


def read_cache(
    root: ConfigNode,
    text: ConfigNode,
    resolved: Resolved,
    sizes: Dimensions,
    *,
    window: int | None,
    num_predict_layers: int | None,
) -> Cache:
    """What the layers keep. A configuration that does not say is no error here: only sizing the cache needs it.

    Args:
        window: of the sliding layers, tokens, or None.
        num_predict_layers: of the model's multi-token-prediction module.
    """
    row = _rows().get(resolved.model_class)
    if row is None or resolved.convert_type != "none":
        return Cache(None)
    given = CacheText(root, text, sizes, window, num_predict_layers)
    try:
        shape = _with_draft(given, resolved.model_class, _layers(given, resolved.model_class, row))
        chunk = given.integer("mamba_chunk_size") or given.integer("chunk_size") or None
        dtype = built_kv_dtype(root, text)
    except InputError as error:
        return Cache(None, error.message)
    return Cache(shape.model_copy(update={"chunk_size": chunk, "built_kv_dtype": dtype}))


def _layers(given: CacheText, model_class: str, row: Row) -> CacheShape:
    if row.kind == "dense":
        return _dense(given, model_class, row.name)
    if row.kind == "mla":
        return CacheShape(layers=mla_layers(given, row.name))
    return _FAMILIES[row.kind](given, row.name)


@cache
def _rows() -> dict[str, Row]:
    data = table("kv_layers")
    rows = {
        name: Row(kind, template)
        for kind in ("dense", "mla")
        for template, n in data[kind].items()
        for name in n.split()
    }
    for family, prefixes in data["families"].items():
        rows.update({name: Row(family, prefix) for name, prefix in prefixes.items()})
    return rows


@cache
def _listed(section: str, key: str) -> frozenset[str]:
    return frozenset(table("kv_layers")[section][key].split())


def _dense(given: CacheText, model_class: str, name: str) -> CacheShape:
    window = given.window
    every = range(given.sizes.num_hidden_layers)
    if model_class in _listed("windows", "alternating"):
        sliding = [i for i in every if i % 2 == 0]
    elif not has_full_attention(given.text, window) and model_class not in _listed("windows", "own_windows_only"):
        sliding = list(every)
    elif window is not None and model_class in _listed("windows", "layer_types"):
        kinds = given.layer_kinds()
        sliding = [i for i in every if kinds[i] == "sliding_attention"]
    else:
        sliding = []
    if window is None:
        sliding = []
    without_self = model_class in _listed("windows", "without_self")

    def make(layers: tuple[int, ...], slides: int | None) -> CacheLayers:
        made = attention(given, name, layers, window=slides)
        return made.model_copy(update={"window_without_self": without_self and slides is not None})

    return CacheShape(layers=given.by_window(make, sliding))


def _with_draft(given: CacheText, model_class: str, shape: CacheShape) -> CacheShape:
    """With the layers of a draft module that is one more layer of the model."""
    if not given.num_predict_layers or model_class not in _listed("draft", "next"):
        return shape
    first = given.sizes.num_hidden_layers
    layers = tuple(range(first, first + given.num_predict_layers))
    sparse = any(found.leads_index_group for found in shape.layers)
    own = [found for found in shape.layers if not sparse or found.kind == "indexer" or found.leads_index_group]
    drafts = tuple(found.model_copy(update={"layers": layers}) for found in own)
    return shape.model_copy(update={"draft_layers": drafts})


def _gemma4(given: CacheText, prefix: str) -> CacheShape:
    """models/gemma4.py:365-520 and 575-600: heads by kind of layer, and layers that share another's cache."""
    text, sizes = given.text, given.sizes
    kinds = given.layer_kinds()
    kept = sizes.num_hidden_layers - given.integer("num_kv_shared_layers")
    full_heads = text.integer("num_global_key_value_heads") if text.flag("attention_k_eq_v") else None
    heads = text.integer("num_key_value_heads") or sizes.num_attention_heads
    head_size = text.integer("head_dim") or sizes.head_size
    found = []
    for kind, size, count, window in (
        ("sliding_attention", head_size, heads, given.window),
        ("full_attention", given.integer("global_head_dim") or head_size, full_heads or heads, None),
    ):
        layers = tuple(i for i in range(max(kept, 0)) if kinds[i] == kind)
        if layers:
            base = attention(given, f"{prefix}model.layers.{{}}.self_attn.attn", layers, window=window)
            found.append(base.model_copy(update={"head_size": size, "num_kv_heads": count}))
    return CacheShape(layers=tuple(found))


def _llama4(given: CacheText, prefix: str) -> CacheShape:
    """models/llama4.py:160-275: layers without RoPE attend to everything, the others within a chunk."""
    text = given.text
    number = given.sizes.num_hidden_layers
    no_rope = text.get("no_rope_layers")
    interval = text.integer("no_rope_layer_interval") or 4
    if isinstance(no_rope, list) and no_rope:
        full = [i for i in range(number) if i < len(no_rope) and no_rope[i] == 0]
    else:
        full = [i for i in range(number) if (i + 1) % interval == 0]
    chunk = text.integer("attention_chunk_size")
    name = f"{prefix}model.layers.{{}}.self_attn.attn"
    if not chunk:
        return CacheShape(layers=(attention(given, name, range(number)),))
    local = [i for i in range(number) if i not in set(full)]
    kinds = [attention(given, name, local, chunk=chunk), attention(given, name, full)]
    return CacheShape(layers=tuple(kind for kind in kinds if kind.layers))


def _mimo_v2(given: CacheText, prefix: str) -> CacheShape:
    """models/mimo_v2.py:395-450; models/mimo_v2_mtp.py:75-107."""
    text = given.text
    pattern = text.get("hybrid_layer_pattern")
    number = given.sizes.num_hidden_layers
    if not isinstance(pattern, list) or len(pattern) < number:
        raise bad_value(text.at("hybrid_layer_pattern"), "a list with one entry a layer expected")
    size = text.integer("sliding_window_size")
    full = attention(given, f"{prefix}model.layers.{{}}.self_attn.attn", [i for i in range(number) if pattern[i] != 1])
    full = full.model_copy(update={"head_size_v": text.integer("v_head_dim"), "name": full.name})
    sliding = full.model_copy(
        update={
            "layers": tuple(i for i in range(number) if pattern[i] == 1),
            "num_heads": given.needed("swa_num_attention_heads"),
            "num_kv_heads": given.needed("swa_num_key_value_heads"),
            "head_size": given.needed("swa_head_dim"),
            "head_size_v": text.integer("swa_v_head_dim"),
            "sliding_window": size,
        }
    )
    draft = sliding.model_copy(update={"name": f"{prefix}model.mtp.layers.{{}}.self_attn.attn", "layers": (0,)})
    return CacheShape(layers=(full, sliding), draft_layers=(draft,))


def _nemotron_nas(given: CacheText, prefix: str) -> CacheShape:
    """models/nemotron_nas.py:130-165: each layer has its own number of heads, or no attention."""
    blocks = given.text.get("block_configs")
    number = given.sizes.num_hidden_layers
    if not isinstance(blocks, list) or len(blocks) < number:
        raise bad_value(given.text.at("block_configs"), "a list with one entry a layer expected")
    by_heads: dict[int, list[int]] = {}
    for i, block in enumerate(blocks[:number]):
        inner = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(inner, dict):
            raise bad_value(given.text.at("block_configs"), f"entry {i} has no attention")
        if not inner.get("no_op"):
            group = checked_int(inner.get("n_heads_in_group"), given.text.at("block_configs"), low=1)
            if group is None:
                raise bad_value(given.text.at("block_configs"), f"entry {i} has no n_heads_in_group")
            by_heads.setdefault(given.sizes.num_attention_heads // group, []).append(i)
    name = f"{prefix}model.layers.{{}}.self_attn.attn"
    found = [attention(given, name, kept).model_copy(update={"num_kv_heads": n}) for n, kept in by_heads.items()]
    return CacheShape(layers=tuple(found))


_FAMILIES: Mapping[str, Callable[[CacheText, str], CacheShape]] = {
    "gemma4": _gemma4,
    "llama4": _llama4,
    "mimo_v2": _mimo_v2,
    "nemotron_nas": _nemotron_nas,
    "deepseek_v4": deepseek_v4,
    **STATE_FAMILIES,
    **MAMBA_FAMILIES,
}
