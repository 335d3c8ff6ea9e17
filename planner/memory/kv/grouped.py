"""The layers of a server in groups, on every rank: the part of the plan that depends on no length and no memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...light_dataclass import dataclass
from ...releases import facts as facts_of
from ...trace import Finding
from ..kv_specs import KVCacheSpec, SlidingWindowSpec
from .blocks import PoolRules, bytes_per_block, project
from .cache_plan import PlanningSettings
from .groups import KVCacheGroup, group_layers
from .layout import DEFAULT_PREFERENCE, resolve_layout


@dataclass(frozen=True, eq=False)
class GroupedLayers:
    """The groups of a server.

    Attributes:
        groups: of the whole model; () where no layer keeps anything.
        ranks: by pipeline stage, the groups as a rank of it has them.
        rules: what the size of a block depends on besides.
        bytes_per_block: by pipeline stage.
        warnings: of the grouping.
    """

    groups: tuple[KVCacheGroup, ...]
    ranks: tuple[tuple[KVCacheGroup, ...], ...]
    rules: PoolRules
    bytes_per_block: tuple[int, ...]
    warnings: tuple[Finding, ...] = ()


def grouped(stages: Sequence[Mapping[str, KVCacheSpec]], settings: PlanningSettings) -> GroupedLayers:
    """The layers in groups. Of `settings` it looks at what `GROUPING` names.

    Args:
        stages: by pipeline stage, layer name to spec, as the workers report them.

    Raises:
        StartupError: vLLM would refuse to start.
        InputError: cgplan does not model these layers.
    """
    facts = facts_of("kv_planning", settings.release)
    layers = {
        name: _retaining(spec, settings.extra_retained_tokens) for stage in stages for name, spec in stage.items()
    }
    found: list[Finding] = []
    layout = None
    if facts["layout"]["resolved"] and layers:
        layout = resolve_layout(
            settings.layouts or DEFAULT_PREFERENCE, layers.values(), settings.requested_layout, facts
        )
    groups = group_layers(layers, facts, layout, settings.hybrid_manager, found)
    rules = PoolRules(facts, layout, settings.decode_context_parallel_size)
    if not groups:
        return GroupedLayers((), tuple(() for _ in stages), rules, (0,) * len(stages))
    ranks = tuple(tuple(project(groups, stage)) for stage in stages)
    sizes = tuple(bytes_per_block(rank, rules) for rank in ranks)
    return GroupedLayers(tuple(groups), ranks, rules, sizes, tuple(found))


GROUPING = (
    "release",
    "extra_retained_tokens",
    "layouts",
    "requested_layout",
    "hybrid_manager",
    "decode_context_parallel_size",
)
"""Fields of PlanningSettings that the groups depend on."""


def _retaining(spec: KVCacheSpec, tokens: int) -> KVCacheSpec:
    if isinstance(spec, SlidingWindowSpec) and spec.extra_retained_tokens != tokens:
        return replace(spec, extra_retained_tokens=tokens)
    return spec
