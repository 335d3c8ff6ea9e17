"""The cached layers of a model whose ModelShape was filled in by hand: a decoder of layers that are all alike."""

from __future__ import annotations

from functools import cache

from ...cache_layers import CacheLayers, CacheShape
from ...model_shape import ModelShape
from ...releases import table


def plain_layers(model: ModelShape) -> CacheShape | None:
    """What the layers of `model` keep, by its own sizes; None where they may differ from layer to layer."""
    kind_and_name = _names().get(model.architecture)
    if kind_and_name is None or model.attention_chunk_size is not None or model.index_topk is not None:
        return None
    kind, name = kind_and_name
    if model.use_mla != (kind == "mla") or (model.sliding_window is not None and model.has_full_attention_layers):
        return None
    layers = CacheLayers(
        name=name,
        layers=tuple(range(model.num_hidden_layers)),
        kind="mla" if kind == "mla" else "attention",
        num_heads=model.num_attention_heads,
        num_kv_heads=1 if kind == "mla" else model.num_kv_heads,
        head_size=model.head_size,
        sliding_window=model.sliding_window,
    )
    return CacheShape(layers=(layers,))


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Kind and name of the layers of each architecture with layers that are all alike."""
    data = table("kv_layers")
    return {
        architecture: (kind, name)
        for kind in ("dense", "mla")
        for name, listed in data[kind].items()
        for architecture in listed.split()
    }
