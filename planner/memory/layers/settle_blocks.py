"""The cache settings of a stage after its layers are built: vLLM's update_block_size_for_backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from ...cache_layers import CacheLayers
from ...deployment import Deployment
from ...releases import canonical, facts
from ...resolve.backends.layer import Layer
from ..kv_dtypes import dtype_bytes, is_turboquant, torch_dtype
from .backends import LayerBackend, kernel_blocks, smallest
from .block_size import check_aligned, cover_skip_layers, preferred
from .build import LayerBuilder, Stage
from .cache_settings import CacheSettings
from .hybrid_alignment import HybridPages, align, kernel_block_with_configuration
from .mamba_states import is_state
from .specs import BuiltLayer, SpecMaker


class BlockSettler:
    """Settles the block size of each stage of one deployment."""

    def __init__(self, deployment: Deployment, builder: LayerBuilder, maker: SpecMaker) -> None:
        self.deployment = deployment
        self.builder = builder
        self.maker = maker
        self.facts = facts("kv_cache", canonical(deployment.vllm))

    def prepare(self, settings: CacheSettings) -> CacheSettings:
        """The settings with which a hybrid model is loaded: up to 0.19 its block was sized with the configuration."""
        model = self.deployment.model
        if not (model.is_hybrid and self.facts["hybrid"]["with_configuration"]):
            return settings
        asked = self.builder.chooser.request.backend
        pages = HybridPages(
            state_page=self._state_page(settings),
            attention_token=self._hybrid_token_bytes(settings, ""),
            kernel_block=kernel_block_with_configuration(model.use_mla, asked),
            chunk_size=self.builder.shape.chunk_size,
            user_mamba_block_size=self.deployment.mamba_block_size,
            use_mla=model.use_mla,
        )
        return align(settings, pages, self.facts["hybrid"])

    def settle(self, stage: Stage) -> CacheSettings:
        """The settings of `stage` after the fact.

        Raises:
            StartupError: CG550, CG551.
        """
        settings, model = stage.settings, self.deployment.model
        backends = _distinct(stage)
        if not backends:
            return settings
        whole = self.builder.chooser.whole_model(settings.cache_dtype)
        rules = self.facts["block_size"]
        if model.is_hybrid and self.facts["hybrid"]["with_configuration"]:
            # interface.py @ 0.19.1 puts the default back, and leaves the padding of the states.
            return settings if settings.user_block_size else replace(settings, block_size=rules["default"])
        if not settings.user_block_size:
            asked = backends if rules["all_backends"] else backends[:1]
            settings = replace(settings, block_size=preferred(asked, whole, rules["default"]))
        before = settings.block_size
        if model.is_hybrid:
            settings = self._align_hybrid(stage, settings, backends, whole)
        if settings.skip_layers and rules["pads_skip_layers"]:
            first = backends[0]
            settings = cover_skip_layers(
                settings,
                primary_token=self._token_bytes(settings.cache_dtype, first.name),
                skip_token=self._token_bytes("auto", first.name),
                kernel_block=smallest(kernel_blocks(first, whole_model=whole)),
            )
        if rules["checks_aligned"]:
            check_aligned(backends, whole, settings, before)
        return settings

    def _align_hybrid(
        self, stage: Stage, settings: CacheSettings, backends: Sequence[LayerBackend], whole: Layer
    ) -> CacheSettings:
        facts = self.facts["hybrid"]
        blocks = tuple(smallest(kernel_blocks(backend, whole_model=whole)) for backend in backends)
        pages = HybridPages(
            state_page=self._state_page(settings),
            attention_token=self._hybrid_token_bytes(settings, backends[0].name),
            kernel_block=blocks[0],
            kernel_blocks=blocks,
            indexer_block=next(
                (size for size, backend in zip(blocks, backends, strict=True) if "INDEXER" in backend.name), None
            ),
            checkpoint_tokens=facts["checkpoint_tokens"] if self._can_export(stage) else 1,
            chunk_size=self.builder.shape.chunk_size,
            user_mamba_block_size=self.deployment.mamba_block_size,
            use_mla=self.deployment.model.use_mla,
        )
        return align(settings, pages, facts)

    def _can_export(self, stage: Stage) -> bool:
        """Every state of the stage can be exported at steps of FlashInfer's GDN kernel; no state: any step does."""
        kinds = {layer.built.layers.kind for layer in stage.layers if is_state(layer.built.layers)}
        return kinds == {"gdn"} and self.maker.exports_state["gdn"]

    def _state_page(self, settings: CacheSettings) -> int:
        """Bytes of the model's largest state."""
        tp = self.deployment.tensor_parallel_size
        states = [group for group in self.builder.shape.layers if is_state(group)]
        unpadded = replace(settings, mamba_page_size_padded=None, mamba_block_size=1)
        built = (BuiltLayer(group, settings.cache_dtype, None, tp) for group in states)
        return max((self.maker.state(layer, unpadded).page_size_bytes for layer in built), default=0)

    def _hybrid_token_bytes(self, settings: CacheSettings, first: str) -> int:
        """Bytes of one token in one attention layer, as the alignment counts them."""
        dtype, model = settings.cache_dtype, self.deployment.model
        if model.use_mla:
            return model.head_size * dtype_bytes(torch_dtype(dtype, self.maker.dtype))
        if is_turboquant(dtype) and self.facts["hybrid"]["packs_turboquant"]:
            packed = self._token_bytes(dtype, "TURBOQUANT")
            return lcm(packed, self._token_bytes("auto", "")) if settings.skip_layers else packed
        return self._token_bytes(dtype, first)

    def _token_bytes(self, kv_dtype: str, backend: str) -> int:
        """Bytes of one token in a full attention layer of the model's own head size, as `backend` packs it."""
        model = self.deployment.model
        heads = 1 if model.use_mla else max(1, model.num_kv_heads // self.deployment.tensor_parallel_size)
        layers = CacheLayers(name="{}", layers=(0,), num_kv_heads=model.num_kv_heads, head_size=model.head_size)
        slots, content = self.maker.packing(layers, kv_dtype, backend, heads)
        if is_turboquant(kv_dtype) and backend != "TURBOQUANT":
            content = None
        if content is None:
            content = 2 * model.head_size * dtype_bytes(torch_dtype(kv_dtype, self.maker.dtype))
        return (heads if slots is None else slots) * content


def _distinct(stage: Stage) -> list[LayerBackend]:
    """The attention backends of the stage in layer order, each once."""
    found: dict[str, LayerBackend] = {}
    for layer in stage.layers:
        if layer.built.chosen is not None:
            found.setdefault(layer.built.chosen.name, layer.built.chosen)
    return list(found.values())
