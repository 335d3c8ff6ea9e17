"""The KV cache of a deployment: its layers, and the plan for the memory that is left for them.

`kv_layers` says what each layer keeps, `kv_capacity` how vLLM shares the memory out. This module puts them together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...releases import canonical
from ...releases import facts as facts_of
from ...resolve import Resolution
from ...resolve.hybrid_manager import uses_manager
from ...trace import Rule
from ..kv_specs import AttentionSpec, ChunkedLocalAttentionSpec, KVCacheSpec, RequestLimits, SlidingWindowSpec
from ..layers.align_limit import check_aligned_step
from ..layers.kv_layers import KVLayers, NamedSpec, kv_layers
from .cache_plan import KVCachePlan, PlanningSettings
from .capacity import plan_groups
from .grouped import GROUPING, GroupedLayers, grouped
from .layout import KVCacheLayout, supported_layouts
from .merge import Facts

IN_FLIGHT = Rule(
    "CG585",
    title="A window keeps the tokens of all batches under way, since 0.26.",
    why="Blocks are freed when a step is done. With asynchronous scheduling the next one has begun by then.",
    example="A window of 128 with --max-num-batched-tokens 8192 on runner V2: 128 - 1 + 2 x 8192 tokens, 1033 blocks"
    " of 16.",
    instead="Lower --max-num-batched-tokens where windows take most of the cache.",
    source="vllm/config/vllm.py:588-609",
    since="0.26.0",
)


@dataclass(frozen=True)
class KVCache:
    """What is kept, and where.

    Attributes:
        layers: each layer's spec, by pipeline stage.
        plan: groups, blocks and capacity.
    """

    layers: KVLayers
    plan: KVCachePlan


def kv_cache(
    deployment: Deployment,
    resolution: Resolution,
    available_bytes: Sequence[int],
    *,
    auto_fit: bool = False,
    unavailable: Collection[str] = (),
) -> KVCache:
    """The KV cache of `deployment` in `available_bytes` bytes of each rank, by pipeline stage.

    Args:
        resolution: of the same deployment.
        available_bytes: one number a pipeline stage, or one for all.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
        unavailable: attention backends (enum names) whose modules cannot be imported.

    Raises:
        StartupError: vLLM would refuse to start.
        InputError: cgplan does not know what the model's layers keep.
    """
    uses_manager(deployment)
    kept = _kept(deployment, resolution, tuple(unavailable))
    layers = kept.layers
    stages = len(layers.stages)
    memories = list(available_bytes) * (stages if len(available_bytes) == 1 else 1)
    settings = planning_settings(deployment, resolution, layers, auto_fit=auto_fit)
    plan = plan_groups(_groups(kept, settings), memories, settings)
    check_aligned_step(deployment.vllm, resolution, layers, plan.block_size)
    return KVCache(layers, plan)


_Key = tuple[tuple[Any, ...], tuple[Any, ...]]
_WITHOUT_LAYERS = frozenset(
    {
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "num_gpu_blocks",
        "num_gpu_blocks_override",
    }
)
"""Fields of a Deployment that say nothing of its layers; the resolved length is looked at beside them."""
_of_groups = attrgetter(*GROUPING)
_of_layers = attrgetter(*(name for name in Deployment.model_fields if name not in _WITHOUT_LAYERS))


class _Kept(NamedTuple):
    """Layers by what they depend on, and their groups by the settings of the grouping."""

    key: _Key
    layers: KVLayers
    groups: dict[tuple[Any, ...], GroupedLayers]


_lately: list[_Kept] = []
_MOST_KEPT = 4


def _kept(deployment: Deployment, resolution: Resolution, unavailable: tuple[str, ...]) -> _Kept:
    """The layers; those asked for lately are kept, as one deployment is planned with many limits."""
    key = (_of_layers(deployment), _resolved(deployment, resolution, unavailable))
    for before in _lately:
        if before.key == key:
            return before
    made = _Kept(key, kv_layers(deployment, resolution, unavailable=unavailable), {})
    _lately[:] = [made, *_lately[: _MOST_KEPT - 1]]
    return made


def _groups(kept: _Kept, settings: PlanningSettings) -> GroupedLayers:
    key = _of_groups(settings)
    if key not in kept.groups:
        by_stride = facts_of("kv_planning", settings.release)["pages"]["read_by_stride"]
        specs = [{layer.name: _reading(layer, by_stride) for layer in stage} for stage in kept.layers.stages]
        kept.groups[key] = grouped(specs, settings)
    return kept.groups[key]


def _resolved(deployment: Deployment, resolution: Resolution, unavailable: tuple[str, ...]) -> tuple[Any, ...]:
    """What the layers depend on beside the deployment. Only blocks of states are as long as the longest request."""
    config, model = resolution.config, deployment.model
    has_states = model.is_hybrid or model.mamba_backends
    return (
        config["dtype"],
        config["spec_method"],
        config["num_speculative_tokens"],
        resolution.runner,
        resolution.backend.name,
        resolution.max_model_len if has_states else None,
        unavailable,
    )


def _reading(layer: NamedSpec, by_stride: Collection[str]) -> KVCacheSpec:
    """The spec with how the layer's backend reads pages, which vLLM's runner adds."""
    if layer.backend in by_stride and isinstance(layer.spec, AttentionSpec):
        return replace(layer.spec, indexes_kv_by_block_stride=True)
    return layer.spec


def keeps_windows(deployment: Deployment, resolution: Resolution) -> bool | None:
    """Whether layers with a window keep that alone, since the hybrid KV cache manager is on; False: it is off, and
    they keep all tokens. None: the model has no such layers beside others.

    Raises:
        InputError: what the model's layers keep is not known.
        StartupError: CG580, or the layers cannot be laid out.
    """
    model = deployment.model
    if model.sliding_window is None and model.attention_chunk_size is None:
        return None
    layers = _kept(deployment, resolution, ()).layers.stages
    kinds = {isinstance(layer.spec, _WINDOWS) for stage in layers for layer in stage}
    return uses_manager(deployment) if len(kinds) > 1 else None


_WINDOWS = (SlidingWindowSpec, ChunkedLocalAttentionSpec)


def planning_settings(
    deployment: Deployment, resolution: Resolution, layers: KVLayers, *, auto_fit: bool = False
) -> PlanningSettings:
    """What the plan needs to know of the deployment.

    Raises:
        StartupError: CG580, or the attention backends share no layout.
    """
    release = canonical(deployment.vllm)
    facts = facts_of("kv_planning", release)
    cache = layers.settings[0]
    layouts: tuple[KVCacheLayout, ...] = ()
    if facts["layout"]["resolved"]:
        for stage in layers.stages:
            layouts = tuple(supported_layouts([layer.backend for layer in stage], _capability(deployment), facts))
    dcp = deployment.decode_context_parallel_size
    prefill = deployment.prefill_context_parallel_size if facts["in_flight"]["prefill_ranks_share_tokens"] else 1
    return PlanningSettings(
        release=release,
        limits=RequestLimits(
            max_model_len=resolution.max_model_len,
            max_in_flight_tokens=_in_flight(deployment, resolution, facts),
            context_shards=dcp * prefill,
            max_encoder_tokens=resolution.max_num_batched_tokens,
            mamba_cache_mode=cache.mamba_cache_mode,
        ),
        auto_fit=auto_fit,
        num_gpu_blocks_override=deployment.num_gpu_blocks_override,
        hybrid_manager=uses_manager(deployment),
        block_size=cache.block_size,
        tensor_parallel_size=deployment.tensor_parallel_size,
        decode_context_parallel_size=dcp,
        extra_retained_tokens=_retained(deployment, resolution.config, facts),
        layouts=layouts,
        requested_layout=deployment.env.get("VLLM_KV_CACHE_LAYOUT"),
        prefix_caching=cache.enable_prefix_caching,
        has_connector=deployment.kv_transfer_config is not None,
    )


def _capability(deployment: Deployment) -> tuple[int, int]:
    major, minor = deployment.gpu.capability
    return major, minor


def _in_flight(deployment: Deployment, resolution: Resolution, facts: Facts) -> int:
    """Tokens scheduled and not yet settled: a full batch for each that may be under way."""
    tokens = resolution.max_num_batched_tokens
    if not facts["in_flight"]["counts_batches"]:
        return tokens
    stages = deployment.pipeline_parallel_size
    if not resolution.config["async_scheduling"]:
        return tokens * stages
    if resolution.config["use_v2_model_runner"]:
        return tokens * (stages + 1)
    return tokens * (2 if stages <= 1 else stages)


def _retained(deployment: Deployment, config: dict[str, Any], facts: Facts) -> int:
    """Tokens kept behind each window: all that chained MTP modules read ahead but one."""
    options = deployment.speculative_config
    if options is None or config["spec_method"] != "mtp" or not facts["in_flight"]["retains_for_modules"]:
        return 0
    draft = options.model if options.model is not None else deployment.model
    modules = getattr(draft, "num_nextn_predict_layers", None) or 1
    tokens: int = config["num_speculative_tokens"]
    return tokens - 1 if min(modules, tokens) > 1 else 0
