"""The attention backend of each group of layers, and the blocks that its kernels take.

The selection is `resolve/backends/`'s; here it is asked once for every kind of layer, with that layer's own heads,
window and KV cache dtype, as every attention layer of vLLM asks when it is built.
Sources: vllm/model_executor/layers/attention/attention.py:330-350; vllm/v1/attention/backend.py:100-165.
"""

from __future__ import annotations

from collections.abc import Collection

from ...cache_layers import CacheLayers
from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, facts
from ...resolve import Resolution
from ...resolve.backends.checks import block_size_fits, fixed_page_tokens
from ...resolve.backends.facts import Backend, Catalogue, catalogue
from ...resolve.backends.layer import Layer, fa_version, trtllm_kernels
from ...resolve.backends.request import Request, backend_name, layer_of, request_of
from ...resolve.backends.selection import select
from ...trace import Trace
from ...vocabulary import Runner
from ..kv_specs import MultipleOf

OWN_BLOCKS: dict[str, tuple[int | MultipleOf, ...]] = {
    "DEEPSEEK_V32_INDEXER": (64,),
    "DEEPSEEK_V4_INDEXER": (256,),
    "DEEPSEEK_SPARSE_SWA": (MultipleOf(32),),
    "CompressorBackend": (MultipleOf(1),),
}
"""Kernel blocks of caches that are no attention layers of their own: mla/indexer.py:285 and 355, mla/sparse_swa.py:161,
models/deepseek_v4/compressor.py:69. Tokens, uncompressed."""

DIFFERENT_VALUES = ("FLASH_ATTN_DIFFKV", "TRITON_ATTN_DIFFKV")
"""Backends for values of another length than the keys; a model that has such layers picks one of them itself."""


@dataclass(frozen=True)
class LayerBackend:
    """The backend of a layer: its get_name(), and what the selection saw.

    `backend` is None for a cache that is no attention layer of its own, `layer` where a class picks its own backend.
    """

    name: str
    backend: Backend | None = None
    layer: Layer | None = None


class BackendChooser:
    """Chooses backends for the layers of one deployment; `unavailable` are those that cannot be imported."""

    def __init__(self, deployment: Deployment, resolution: Resolution, unavailable: Collection[str] = ()) -> None:
        self.deployment = deployment
        self.resolution = resolution
        self.release = canonical(deployment.vllm)
        self.facts: Catalogue = catalogue(self.release)
        self.request: Request = request_of(deployment, self.facts, Trace())
        self.unavailable = frozenset(unavailable)
        self.dtype: str = resolution.config["dtype"]

    def whole_model(self, kv_dtype: str) -> Layer:
        """The layer that stands for the model where vLLM looks at no single one."""
        layer = layer_of(self.deployment, self.deployment.model, self.request, dtype=self.dtype, facts=self.facts)
        return layer._replace(kv_dtype=kv_dtype, run_kv_dtype=kv_dtype)

    def target(self, layers: CacheLayers, kv_dtype: str) -> LayerBackend:
        """The backend of the model's own `layers` with a cache of `kv_dtype`."""
        model = self.deployment.model
        own = self.facts.models.get(model.architecture)
        if layers.kind in _OWN_NAMES:
            return LayerBackend(_OWN_NAMES[layers.kind][layers.compress_ratio > 1])
        if layers.kind == "sparse" and own is not None:
            name = self.resolution.backend.name
            return _backend(self.facts.own.get(name) or self.facts.backends[name], None)
        return self._choose(layers, kv_dtype, model, self.request, self.deployment.tensor_parallel_size, None)

    def draft(self, layers: CacheLayers, kv_dtype: str, model: ModelShape) -> LayerBackend:
        """The backend of a drafter's `layers`; runner V1 does not hand the target's choice on, V2 does."""
        spec = self.deployment.speculative_config
        assert spec is not None
        if layers.kind in _OWN_NAMES or layers.kind == "sparse":
            return self.target(layers, kv_dtype)
        request = self.request
        named = spec.attention_backend
        if named is not None:
            request = request._replace(
                backend=backend_name(named, self.facts, "speculative_config.attention_backend"), per_kind={}
            )
        elif self.resolution.runner is Runner.V1:
            request = request._replace(backend=None)
        tp = spec.draft_tensor_parallel_size or self.deployment.tensor_parallel_size
        return self._choose(layers, kv_dtype, model, request, tp, False)

    def _choose(
        self,
        layers: CacheLayers,
        kv_dtype: str,
        model: ModelShape,
        request: Request,
        tp: int,
        adaptive_verification: bool | None,
    ) -> LayerBackend:
        base = layer_of(self.deployment, model, request, dtype=self.dtype, facts=self.facts, tensor_parallel_size=tp)
        mla = layers.kind == "mla"
        layer = base._replace(
            mm_prefix=base.mm_prefix and not self._forgets_prefix(model),
            head_size=layers.head_size,
            kv_dtype=kv_dtype,
            num_heads=layers.num_heads // tp,
            num_kv_heads=1 if mla else max(1, layers.num_kv_heads // tp),
            mla=mla,
            sparse=mla and layers.index_topk is not None,
            sliding_window=layers.sliding_window is not None,
        )
        if adaptive_verification is not None:
            layer = layer._replace(adaptive_verification=adaptive_verification)
        if layers.head_size_v not in (None, layers.head_size):
            return _backend(self.facts.backends[self._different_values(layers, layer, request)], layer)
        kind = ("sliding_window_mla" if layer.sliding_window else "mla_attention") if mla else "full_attention"
        if not mla and layer.sliding_window:
            kind = "sliding_window"
        return _backend(select(layer, request.for_kind(kind), self.release, self.unavailable).backend, layer)

    def _forgets_prefix(self, model: ModelShape) -> bool:
        found = facts("kv_cache", self.release)["backend"]
        return not found["prefix_is_kept"] and model.architecture in found["prefix_wrappers"]

    def _different_values(self, layers: CacheLayers, layer: Layer, request: Request) -> str:
        """vllm/model_executor/models/mimo_v2.py:318-345."""
        if request.backend in DIFFERENT_VALUES:
            return request.backend
        flash, triton = DIFFERENT_VALUES
        if triton not in self.facts.backends:
            return flash
        version = fa_version(layer, head_size=layers.head_size, head_size_v=layers.head_size_v, sinks=layer.sinks)
        return flash if version in (3, 4) else triton


_OWN_NAMES = {
    "indexer": ("DEEPSEEK_V32_INDEXER", "DEEPSEEK_V4_INDEXER"),
    "sparse_window": ("DEEPSEEK_SPARSE_SWA", "DEEPSEEK_SPARSE_SWA"),
    "compressor": ("CompressorBackend", "CompressorBackend"),
}
"""By kind of layer, without and with compression."""


def _backend(backend: Backend, layer: Layer | None) -> LayerBackend:
    return LayerBackend(backend.name, backend, layer)


def kernel_blocks(chosen: LayerBackend, *, whole_model: Layer | None = None) -> tuple[int | MultipleOf, ...]:
    """The block sizes that the kernels take, tokens.

    Args:
        whole_model: the layer that stands for the model where the configuration is asked and no layer; None: the
            layer itself is asked, outside of any configuration.
    """
    backend, layer = chosen.backend, whole_model or chosen.layer
    if backend is None:
        return OWN_BLOCKS[chosen.name]
    if layer is not None and (whole_model is not None or layer.since(_ASKS_LAYER)):
        page = fixed_page_tokens(backend, layer)
        if page is not None:
            return (page,)
    if whole_model is not None and backend.enum == "FLASHINFER" and _large_pages(whole_model):
        return (*backend.blocks, 128, 256, 512, 1024)
    if backend.block_multiple is not None:
        return (*backend.blocks, MultipleOf(backend.block_multiple))
    return backend.blocks


_ASKS_LAYER = "0.31.0"
"""From then on a backend is asked with a layer's spec; before, it looked at the configuration or at nothing."""


def _large_pages(layer: Layer) -> bool:
    """Pages of 128 tokens or more need TRTLLM's kernel for grouped queries, flashinfer.py:585-604."""
    if not layer.since("0.24.0") or layer.num_kv_heads <= 0 or layer.use_trtllm is False:
        return False
    grouped = layer.num_heads // layer.num_kv_heads > 1 and layer.num_heads % layer.num_kv_heads == 0
    family = layer.capability[0] == 10 or not layer.since("0.25.1")
    return grouped and family and trtllm_kernels(layer)


def smallest(blocks: Collection[int | MultipleOf]) -> int:
    """The smallest kernel block, tokens."""
    return min(size.base if isinstance(size, MultipleOf) else size for size in blocks)


def takes(chosen: LayerBackend, block_size: int, *, whole_model: Layer | None = None) -> bool:
    """Whether blocks of `block_size` tokens can be served, by splitting them where need be."""
    layer = whole_model or chosen.layer
    if chosen.backend is not None and layer is not None:
        return block_size_fits(chosen.backend, layer, block_size)
    bases = (size.base if isinstance(size, MultipleOf) else size for size in kernel_blocks(chosen))
    return any(block_size % base == 0 for base in bases)
