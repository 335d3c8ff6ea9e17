"""Cached layers of models with multi-head latent attention, with and without an indexer."""

from __future__ import annotations

from ..cache_layers import CacheLayers, CacheShape
from .hf_cache_text import CacheText
from .hf_node import bad_value

# One float32 scale for every 128 elements of an indexer's key, as bytes.
_SCALED_BLOCK, _SCALE_BYTES = 128, 4


def mla_layers(given: CacheText, name: str) -> tuple[CacheLayers, ...]:
    """The latent vectors, and of a sparse model the indexer's keys: models/deepseek_v2.py, models/deepseek_v32/."""
    text, sizes = given.text, given.sizes
    every = tuple(range(sizes.num_hidden_layers))
    topk = text.integer("index_topk")
    attention = CacheLayers(
        name=name,
        layers=every,
        kind="mla",
        num_heads=sizes.num_attention_heads,
        num_kv_heads=1,
        head_size=sizes.head_size,
        index_topk=topk,
    )
    if topk is None:
        return (attention,)
    leaders = tuple(i for i in every if not _shares_index(given, i))
    sharers = tuple(i for i in every if i not in set(leaders))
    found = [
        _indexer(given, name.removesuffix(".attn") + ".indexer.k_cache", leaders),
        attention.model_copy(update={"layers": leaders, "leads_index_group": True}),
        attention.model_copy(update={"layers": sharers}),
    ]
    return tuple(layers for layers in found if layers.layers)


def _shares_index(given: CacheText, layer: int) -> bool:
    """Whether a layer takes the top-k of an earlier one, models/deepseek_v32/attention.py:166-177."""
    pattern = given.text.get("index_topk_pattern")
    if isinstance(pattern, (list, str)):
        return layer < len(pattern) and pattern[layer] == "S"
    step = given.text.integer("index_topk_freq", low=1) or 1
    offset = given.text.integer("index_skip_topk_offset")
    return bool(max(layer - (2 if offset is None else offset) + 1, 0) % step)


def _indexer(given: CacheText, name: str, layers: tuple[int, ...], compress_ratio: int = 1) -> CacheLayers:
    size = given.needed("index_head_dim")
    scales = size // _SCALED_BLOCK * _SCALE_BYTES
    return CacheLayers(
        name=name,
        layers=layers,
        kind="indexer",
        num_kv_heads=1,
        head_size=size + scales,
        compress_ratio=compress_ratio,
    )


def deepseek_v4(given: CacheText, prefix: str) -> CacheShape:
    """A window of latent vectors in every layer, and compressed ones beside it: models/deepseek_v4/attention.py."""
    ratios = _compress_ratios(given)
    name = f"{prefix}model.layers.{{}}.attn"
    size = given.sizes.head_size
    every = tuple(range(len(ratios)))
    indexed = tuple(i for i in every if ratios[i] == 4)
    window = CacheLayers(
        name=f"{name}.swa_cache",
        layers=every,
        kind="sparse_window",
        num_heads=given.sizes.num_attention_heads,
        num_kv_heads=1,
        head_size=size,
        sliding_window=given.needed("sliding_window"),
    )
    found = []
    if indexed:
        found = [
            _indexer(given, f"{name}.indexer.k_cache", indexed, compress_ratio=4),
            _compressor(f"{name}.indexer.compressor.state_cache", indexed, given.needed("index_head_dim"), 4),
        ]
    found.append(window)
    for ratio in sorted({r for r in ratios if r > 1}):
        layers = tuple(i for i in every if ratios[i] == ratio)
        found.append(
            CacheLayers(name=name, layers=layers, kind="sparse", num_kv_heads=1, head_size=size, compress_ratio=ratio)
        )
        found.append(_compressor(f"{name}.compressor.state_cache", layers, size, ratio))
    drafts = tuple(range(len(ratios), len(ratios) + (given.num_predict_layers or 0)))
    draft = (window.model_copy(update={"layers": drafts}),) if drafts else ()
    return CacheShape(layers=tuple(found), draft_layers=draft)


def _compress_ratios(given: CacheText) -> list[int]:
    """Tokens of one compressed entry, by layer; 1 where a layer keeps its window only."""
    number = given.sizes.num_hidden_layers
    ratios = given.text.get("compress_ratios")
    if ratios is None:
        rates = given.text.mapping("compress_rates") or {}
        ratios = [rates.get(kind, 0) for kind in given.layer_kinds()]
    if not isinstance(ratios, list) or len(ratios) < number or not all(r in (0, 1, 4, 128) for r in ratios):
        raise bad_value(given.text.at("compress_ratios"), "a list of 0, 4 or 128 for every layer expected")
    return [max(1, r) for r in ratios[:number]]


def _compressor(name: str, layers: tuple[int, ...], head_size: int, ratio: int) -> CacheLayers:
    """Keys and scores of the group that is still open, models/deepseek_v4/compressor.py:139-177 and 238-290."""
    overlap = 2 if ratio == 4 else 1
    return CacheLayers(
        name=name,
        layers=layers,
        kind="compressor",
        num_kv_heads=1,
        head_size=2 * overlap * head_size,
        sliding_window=overlap * ratio,
        compress_ratio=ratio,
    )
