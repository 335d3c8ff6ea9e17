"""Short ways to ask for the cached layers of a deployment."""

from __future__ import annotations

from typing import Any

from cgplan import Deployment, Gpu, SpeculativeOptions, resolve
from cgplan.inputs.catalogue import load
from cgplan.memory.layers.kv_layers import KVLayers, NamedSpec, kv_layers

A100 = Gpu(name="NVIDIA A100-SXM4-80GB", capability=(8, 0), memory_bytes=84974239744, sm_count=108)
B200 = Gpu(name="NVIDIA B200", capability=(10, 0), memory_bytes=191510806528, sm_count=148)
H200 = Gpu(name="NVIDIA H200", capability=(9, 0), memory_bytes=150109945856, sm_count=132)


def deployment(model: str | None = None, *, draft: dict[str, Any] | None = None, **fields: Any) -> Deployment:
    """A deployment of a model of the catalogue; `draft` is its speculative_config."""
    if model is not None:
        fields["model"] = load(model)
    if draft is not None:
        fields["speculative_config"] = SpeculativeOptions(**draft)
    return Deployment(**fields)


def layers_of(model: str | None = None, **fields: Any) -> KVLayers:
    asked = deployment(model, **fields)
    return kv_layers(asked, resolve(asked))


def by_name(layers: KVLayers) -> dict[str, NamedSpec]:
    return {layer.name: layer for stage in layers.stages for layer in stage}
