"""The layers that each pipeline stage builds, in vLLM's order, each with its KV cache dtype and its backend.

Building changes the cache settings too: a checkpoint's own scheme for the cache, and sparse MLA kernels that read a
layout of their own, are written back to them (attention.py:250-262, mla_attention.py:360-378).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ...cache_layers import CacheLayers, CacheShape
from ...deployment import Deployment
from ...errors import InputError
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, facts, holds
from ...resolve import Resolution
from ..kv_dtypes import is_quantized
from .backends import BackendChooser, LayerBackend
from .cache_settings import CacheSettings
from .draft import Draft, draft_of
from .load_checks import check_block_weights, check_kv_dtype, check_v4_dtype
from .load_rules import DUPLICATE_NAME, UNKNOWN_LAYERS, load_error
from .mamba_states import is_state
from .pipeline_stages import stage_ranges
from .plain_decoder import plain_layers
from .specs import BuiltLayer

_SPARSE_SINCE_SM120 = "0.24.0"


@dataclass(frozen=True)
class StageLayer:
    """One layer of a stage."""

    name: str
    index: int
    built: BuiltLayer


@dataclass(frozen=True)
class Stage:
    """The layers of one pipeline stage, and its cache settings once they are built."""

    layers: tuple[StageLayer, ...]
    settings: CacheSettings


class LayerBuilder:
    """Builds the layers of one deployment.

    Raises:
        InputError: CG543 it is not known what the layers of the model or of the draft keep.
    """

    def __init__(self, deployment: Deployment, resolution: Resolution, unavailable: Collection[str] = ()) -> None:
        self.deployment = deployment
        self.resolution = resolution
        self.release = canonical(deployment.vllm)
        self.chooser = BackendChooser(deployment, resolution, unavailable)
        specs = facts("kv_cache", self.release)["specs"]
        self.ignore_kv_dtype = frozenset(specs["ignore_kv_dtype"])
        self.skips_mla: bool = specs["skips_mla"]
        self.shape = known_layers(deployment.model)
        if not specs["shares_indexers"]:
            self.shape = _each_with_indexer(self.shape)
        self.draft: Draft | None = draft_of(deployment, resolution)

    def stages(self, settings: CacheSettings) -> tuple[Stage, ...]:
        """The stages, first to last. `settings` are those before the model is loaded.

        Raises:
            StartupError: a layer does not load.
        """
        d = self.deployment
        check_block_weights(d)
        number = self.shape.num_layers or d.model.num_hidden_layers
        ranges = stage_ranges(number, d.pipeline_parallel_size, d.env.get("VLLM_PP_LAYER_PARTITION"))
        last = len(ranges) - 1
        return tuple(self._stage(layers, i == last, settings) for i, layers in enumerate(ranges))

    def _stage(self, layers: range, is_last: bool, settings: CacheSettings) -> Stage:
        run = _Run(self, settings)
        found = [run.build(group, index, None) for group, index in _in_order(self.shape.layers, layers)]
        if is_last and self.draft is not None:
            own = {layer.name for layer in found}
            found += [run.build(group, index, self.draft) for group, index in _in_order(self.draft.layers, None)]
            _refuse_duplicates(own, found[len(own) :])
        return Stage(tuple(found), run.settings)


def _refuse_duplicates(own: Collection[str], drafts: Collection[StageLayer]) -> None:
    for layer in drafts:
        if layer.name in own:
            raise load_error(
                DUPLICATE_NAME,
                f"duplicate layer name {layer.name}: the draft's layer has the name of one of the model's",
                where="--pipeline-parallel-size",
                raised_in="Attention",
            )


def known_layers(model: ModelShape) -> CacheShape:
    """What the layers of `model` keep.

    Raises:
        InputError: CG543.
    """
    shape = model.cache or (None if model.cache_unknown else plain_layers(model))
    if shape is not None:
        return shape
    why = f": {model.cache_unknown}" if model.cache_unknown else ""
    raise InputError(
        f"what the layers of {model.architecture or 'the model'} keep in the KV cache is not known to cgplan{why}",
        code=UNKNOWN_LAYERS.code,
        where="model",
        fix="ask for a model of an architecture that is; `cgplan models` lists some",
    )


def _each_with_indexer(shape: CacheShape) -> CacheShape:
    """`shape` with an indexer in every layer of a sparse MLA model."""
    every = tuple(sorted(i for group in shape.layers if group.kind == "mla" for i in group.layers))
    if not every:
        return shape
    groups = tuple(
        group.model_copy(update={"layers": every}) if group.kind == "indexer" else group for group in shape.layers
    )
    return shape.model_copy(update={"layers": groups})


def _in_order(groups: Collection[CacheLayers], layers: range | None) -> Iterator[tuple[CacheLayers, int]]:
    """Each layer within `layers` with its group: by index, and within one index as the groups are listed."""
    found = [
        (index, position, group)
        for position, group in enumerate(groups)
        for index in group.layers
        if layers is None or index in layers
    ]
    return ((group, index) for index, _, group in sorted(found, key=lambda item: item[:2]))


class _Run:
    """The construction of one stage: the settings change on the way."""

    def __init__(self, builder: LayerBuilder, settings: CacheSettings) -> None:
        self.builder = builder
        self.settings = settings
        self._built: dict[tuple[CacheLayers, str, str, bool], BuiltLayer] = {}

    def build(self, group: CacheLayers, index: int, draft: Draft | None) -> StageLayer:
        name = group.name.format(index + group.name_offset)
        model = self.builder.deployment.model if draft is None else draft.model
        if model.architecture in self.builder.ignore_kv_dtype:
            kv_dtype = "auto"
        else:
            if group.kind == "attention" and self.settings.cache_dtype == "auto":
                self._apply_scheme(draft)
            kv_dtype = self._layer_dtype(group, index)
        key = (group, kv_dtype, self.settings.cache_dtype, draft is not None)
        if key not in self._built:
            self._built[key] = self._construct(group, kv_dtype, draft)
        return StageLayer(name, index, self._built[key])

    def _apply_scheme(self, draft: Draft | None) -> None:
        shape = self.builder.shape if draft is None else draft.shape
        if shape.built_kv_dtype is not None:
            self.settings = replace(self.settings, cache_dtype=shape.built_kv_dtype)

    def _layer_dtype(self, group: CacheLayers, index: int) -> str:
        skip = self.settings.skip_layers
        by_window = group.kind == "attention" and group.sliding_window is not None and "sliding_window" in skip
        skips = str(index) in skip or by_window
        reached = group.kind == "attention" or (group.kind == "mla" and self.builder.skips_mla)
        return "auto" if skips and reached else self.settings.cache_dtype

    def _construct(self, group: CacheLayers, kv_dtype: str, draft: Draft | None) -> BuiltLayer:
        deployment = self.builder.deployment
        tp = deployment.tensor_parallel_size if draft is None else draft.tensor_parallel_size
        if is_state(group):
            return BuiltLayer(group, kv_dtype, None, tp, draft is not None)
        model = deployment.model if draft is None else draft.model
        # A chunked layer picks its backend before it looks at the layers that skip the dtype.
        selected = self.settings.cache_dtype if group.attention_chunk_size is not None else kv_dtype
        if draft is None:
            chosen = self.builder.chooser.target(group, selected)
        else:
            chosen = self.builder.chooser.draft(group, selected, model)
        if group.kind in ("sparse", "sparse_window", "compressor", "indexer"):
            kv_dtype = self._settle_v4(group)
        elif group.kind == "mla":
            kv_dtype = self._canonical(chosen, kv_dtype)
        check_kv_dtype(deployment, model, kv_dtype, chosen)
        return BuiltLayer(group, kv_dtype, chosen, tp, draft is not None)

    def _canonical(self, chosen: LayerBackend, kv_dtype: str) -> str:
        """The layout that a sparse kernel reads, written back to the settings."""
        layout = kv_dtype
        name = chosen.backend.enum if chosen.backend is not None else chosen.name
        if name == "FLASHMLA_SPARSE" and is_quantized(kv_dtype) and kv_dtype != "nvfp4_ds_mla":
            layout = "fp8_ds_mla"
        elif name == "FLASHINFER_MLA_SPARSE_SM120" and kv_dtype in ("auto", "fp8", "fp8_e4m3"):
            layout = "fp8_ds_mla" if holds(self.builder.release, _SPARSE_SINCE_SM120) else kv_dtype
        if layout != kv_dtype:
            self.settings = replace(self.settings, cache_dtype=layout)
        return layout

    def _settle_v4(self, group: CacheLayers) -> str:
        """models/deepseek_v4/attention.py:94-129: FlashMLA reads packed rows, FlashInfer plain ones."""
        if self.builder.deployment.model.use_mla and group.kind == "indexer" and group.compress_ratio == 1:
            return self.settings.cache_dtype
        name = self.builder.resolution.backend.name
        if "FLASHMLA" in name:
            check_v4_dtype(self.builder.release, self.settings.cache_dtype)
            self.settings = replace(self.settings, cache_dtype="fp8_ds_mla")
        return self.settings.cache_dtype
