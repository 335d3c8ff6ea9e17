"""Cached layers of models in which every decoder layer keeps a Mamba state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..cache_layers import CacheLayers, CacheShape, StateSizes
from .hf_cache_text import CacheText
from .hf_node import bad_value


def _falcon_h1(given: CacheText, prefix: str) -> CacheShape:
    """models/falcon_h1.py:80-135 and 320-360: attention and Mamba 2 side by side; the latter's names count on."""
    number = given.sizes.num_hidden_layers
    width = given.integer("mamba_d_ssm") or given.needed("mamba_expand") * given.sizes.hidden_size
    heads = given.needed("mamba_n_heads")
    if width % heads:
        raise bad_value(given.text.at("mamba_n_heads"), f"must divide {width}, the width of the state")
    attention = CacheLayers(
        name=f"{prefix}model.layers.{{}}.attn",
        layers=tuple(range(number)),
        num_heads=given.sizes.num_attention_heads,
        num_kv_heads=given.sizes.num_kv_heads,
        head_size=given.sizes.head_size,
    )
    mamba = CacheLayers(
        name="model.{}.mixer",
        name_offset=number,
        layers=tuple(range(number)),
        kind="mamba2",
        state=StateSizes(
            width=width,
            conv_kernel=given.needed("mamba_d_conv"),
            num_heads=heads,
            head_size=width // heads,
            n_groups=given.needed("mamba_n_groups"),
            state_size=given.needed("mamba_d_state"),
        ),
    )
    return CacheShape(layers=(attention, mamba))


def _mamba1(given: CacheText, prefix: str) -> CacheShape:
    """models/mamba.py:50-80 and 235-246."""
    sizes = StateSizes(
        width=given.needed("expand") * given.sizes.hidden_size,
        conv_kernel=given.needed("conv_kernel"),
        state_size=given.needed("state_size"),
    )
    return CacheShape(layers=(_backbone(given, prefix, "mamba1", sizes),))


def _mamba2(given: CacheText, prefix: str) -> CacheShape:
    """models/mamba2.py:50-80 and 184-212."""
    sizes = StateSizes(
        width=given.needed("expand") * given.sizes.hidden_size,
        conv_kernel=given.needed("conv_kernel"),
        num_heads=given.needed("num_heads"),
        head_size=given.needed("head_dim"),
        n_groups=given.needed("n_groups"),
        state_size=given.needed("state_size"),
    )
    return CacheShape(layers=(_backbone(given, prefix, "mamba2", sizes),))


def _backbone(given: CacheText, prefix: str, kind: str, sizes: StateSizes) -> CacheLayers:
    return CacheLayers.model_validate(
        {
            "name": f"{prefix}backbone.layers.{{}}.mixer",
            "layers": tuple(range(given.sizes.num_hidden_layers)),
            "kind": kind,
            "state": sizes,
        }
    )


FAMILIES: Mapping[str, Callable[[CacheText, str], CacheShape]] = {
    "falcon_h1": _falcon_h1,
    "mamba1": _mamba1,
    "mamba2": _mamba2,
}
