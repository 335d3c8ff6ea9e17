"""The layers of each pipeline stage with what they keep, as vLLM's runner collects them after the model is loaded."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...resolve import Resolution
from ..kv_specs import KVCacheSpec
from .build import LayerBuilder, Stage
from .cache_settings import CacheSettings, cache_settings
from .settle_blocks import BlockSettler
from .specs import SpecMaker


class NamedSpec(NamedTuple):
    """One layer: vLLM's name, what it keeps, and its backend's name."""

    name: str
    spec: KVCacheSpec
    backend: str


@dataclass(frozen=True)
class KVLayers:
    """What the layers keep.

    Attributes:
        stages: of each pipeline stage, in the order in which vLLM builds the layers.
        before: the cache settings when the model is loaded.
        settings: the cache settings of each stage after the block size was settled.
    """

    stages: tuple[tuple[NamedSpec, ...], ...]
    before: CacheSettings
    settings: tuple[CacheSettings, ...]


def kv_layers(deployment: Deployment, resolution: Resolution, *, unavailable: Collection[str] = ()) -> KVLayers:
    """The cached layers of every pipeline stage of `deployment`.

    Args:
        resolution: of the same deployment.
        unavailable: attention backends (enum names) whose modules cannot be imported.

    Raises:
        InputError: CG543 cgplan does not know what the model's layers keep.
        StartupError: the model would not load, or its layers share no block size.
    """
    builder = LayerBuilder(deployment, resolution, unavailable)
    settings = cache_settings(deployment, resolution)
    maker = SpecMaker.of(deployment, resolution, settings)
    settler = BlockSettler(deployment, builder, maker)
    stages = builder.stages(settler.prepare(settings))
    settled = tuple(settler.settle(stage) for stage in stages)
    named = tuple(_named(stage, after, maker) for stage, after in zip(stages, settled, strict=True))
    return KVLayers(stages=named, before=stages[0].settings, settings=settled)


def _named(stage: Stage, settings: CacheSettings, maker: SpecMaker) -> tuple[NamedSpec, ...]:
    """The layers with their specs, which those built alike share."""
    made: dict[int, KVCacheSpec] = {}
    named = []
    for layer in stage.layers:
        spec = made.get(id(layer.built))
        if spec is None:
            spec = made[id(layer.built)] = maker.spec(layer.built, settings)
        named.append(NamedSpec(layer.name, spec, layer.built.backend_name))
    return tuple(named)
