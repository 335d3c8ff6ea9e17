"""The order of the axes of the KV cache in memory, since 0.29 one for the whole model.

It decides whether pages of different size may lie side by side in one block, and whether a block is padded.

Source: vllm/v1/kv_cache_layout.py and vllm/v1/attention/backends/utils.py:243-386.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from ...errors import StartupError
from ...trace import Rule
from ..kv_specs import AttentionSpec, CircularBufferSpec, KVCacheSpec, MambaSpec
from .merge import Facts

NO_COMMON_LAYOUT = Rule(
    "CG568",
    title="The attention backends of a model must share a KV cache layout.",
    why="All layers draw blocks of one pool, so one order of the axes holds for all; some kernels take only their own.",
    example="Llama 3.3 70B with --kv-cache-dtype turboquant_4bit_nc on SM 10.0: FLASHINFER takes LBHNC or BLHNC for the"
    " skipped layers, TURBOQUANT only LBNHC.",
    instead="Choose another --attention-backend or --kv-cache-dtype.",
    source="vllm/v1/attention/backends/utils.py:243-279",
    since="0.29.0",
)
LAYOUT_REFUSED = Rule(
    "CG569",
    title="VLLM_KV_CACHE_LAYOUT must name a layout that every backend takes.",
    why="The variable is an order, not a wish.",
    example="VLLM_KV_CACHE_LAYOUT=HND with a TurboQuant cache does not start on 0.33.0.",
    instead="Unset VLLM_KV_CACHE_LAYOUT.",
    source="vllm/v1/attention/backends/utils.py:362-368",
    since="0.29.0",
)
PAGES_NOT_EXPRESSIBLE = Rule(
    "CG570",
    title="Groups of different page sizes need a layout with the blocks outermost.",
    why="Pages of different sizes lie side by side within a block then.",
    example="A model with layers of two page sizes in two groups under VLLM_KV_CACHE_LAYOUT=LBNHC.",
    instead="Set VLLM_KV_CACHE_LAYOUT=BLHNC.",
    source="vllm/v1/core/kv_cache_planning.py:608-641",
    since="0.29.0",
)


class KVCacheLayout(Enum):
    """L: layers, B: blocks, H: heads, N: states, C: content; the first is the outermost."""

    LBHNC = "LBHNC"
    LBNHC = "LBNHC"
    LHBNC = "LHBNC"
    BLHNC = "BLHNC"
    BLNHC = "BLNHC"
    BHLNC = "BHLNC"

    @property
    def is_block_outermost(self) -> bool:
        return self.value[0] == "B"

    @property
    def is_layer_outermost(self) -> bool:
        return self.value[0] == "L"

    @property
    def is_block_compact(self) -> bool:
        """Each page lies in one piece."""
        return set(self.value[:2]) == {"L", "B"}


DEFAULT_PREFERENCE = tuple(KVCacheLayout[name] for name in ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC"))
"""The layouts where no backend asks for one, most preferred first."""

_ALIASES = {"NHD": "LBNHC", "HND": "LBHNC"}


def supported_layouts(backends: Iterable[str], capability: tuple[int, int], facts: Facts) -> list[KVCacheLayout]:
    """The layouts that all `backends` of a worker take, most preferred first.

    Args:
        backends: names, in the order of the layers; each counts once.
        capability: of the GPU.
        facts: `kv_planning` of the release.

    Raises:
        StartupError: CG568.
    """
    asked = [wanted for name in dict.fromkeys(backends) if (wanted := _asked(name, capability, facts))]
    if not asked:
        return list(DEFAULT_PREFERENCE)
    if all(wanted == asked[0] for wanted in asked):
        return list(asked[0])
    firsts = [wanted[0] for wanted in asked]
    shared = [layout for layout in KVCacheLayout if all(layout in wanted for wanted in asked)]
    if not shared:
        raise StartupError(
            "no KV cache layout suits every attention backend: "
            + ", ".join("/".join(layout.name for layout in wanted) for wanted in asked),
            code=NO_COMMON_LAYOUT.code,
            stage="get_supported_kv_cache_layouts",
            raised_as="ValueError",
            raised_in="get_supported_kv_cache_layouts",
            where="--attention-backend",
            fix=NO_COMMON_LAYOUT.instead,
        )
    return sorted(shared, key=lambda layout: -firsts.count(layout))


def _asked(backend: str, capability: tuple[int, int], facts: Facts) -> tuple[KVCacheLayout, ...]:
    layout = facts["layout"]
    names: Sequence[str] = layout["backends"].get(backend, ())
    if capability[0] == 10:
        names = layout["blackwell"].get(backend, names)
    return tuple(KVCacheLayout[name] for name in names)


def resolve_layout(
    candidates: Sequence[KVCacheLayout], specs: Iterable[KVCacheSpec], requested: str | None, facts: Facts
) -> KVCacheLayout:
    """The one layout of the model.

    Args:
        candidates: `supported_layouts`.
        specs: of all layers, before grouping.
        requested: VLLM_KV_CACHE_LAYOUT, or None.

    Raises:
        StartupError: CG569, CG570.
    """
    layers = tuple(dict.fromkeys(specs))
    fitting = list(candidates)
    if len({_shape(spec) for spec in layers}) > 1:
        fitting = [layout for layout in fitting if layout.is_block_compact]
    if _shards_differ(layers, facts) and len({spec.page_size_bytes for spec in layers}) > 1:
        fitting = [layout for layout in fitting if layout.is_block_outermost]
    if not fitting:
        raise _refused(PAGES_NOT_EXPRESSIBLE, "no KV cache layout of the backends holds pages of different shapes")
    if requested is None:
        return fitting[0]
    wanted = _ALIASES.get(requested.upper(), requested.upper())
    found = next((layout for layout in fitting if layout.name == wanted), None)
    if found is None:
        names = ", ".join(layout.name for layout in fitting)
        raise _refused(LAYOUT_REFUSED, f"VLLM_KV_CACHE_LAYOUT={requested[:20]} does not suit every backend; {names} do")
    return found


def _refused(rule: Rule, message: str) -> StartupError:
    return StartupError(
        message,
        code=rule.code,
        stage="initialize_kv_caches",
        raised_as="ValueError",
        raised_in="resolve_kv_cache_layout",
        where="VLLM_KV_CACHE_LAYOUT",
        fix=rule.instead,
    )


def _shape(spec: KVCacheSpec) -> tuple[int, int, int]:
    """Heads, states and bytes of a page."""
    if isinstance(spec, AttentionSpec):
        return spec.num_heads, spec.num_states, spec.page_size_bytes
    if isinstance(spec, MambaSpec):
        return spec.num_heads, 1, spec.page_size_bytes
    return 1, 1, spec.page_size_bytes


def _shards_differ(specs: Iterable[KVCacheSpec], facts: Facts) -> bool:
    if not facts["layout"]["checks_dcp_sharding"]:
        return False
    without = CircularBufferSpec if facts["layout"]["rings_have_no_sharding"] else ()
    return len({s.dcp_sharded for s in specs if isinstance(s, AttentionSpec) and not isinstance(s, without)}) > 1


def check_expressible(layout: KVCacheLayout, page_sizes: set[int], groups: int) -> None:
    """Whether `groups` groups with pages of these bytes fit the layout.

    Raises:
        StartupError: CG570.
    """
    if len(page_sizes) == 1:
        return
    if not layout.is_block_compact or (groups > 1 and layout.is_layer_outermost):
        error = _refused(
            PAGES_NOT_EXPRESSIBLE, f"KV cache layout {layout.name} cannot hold pages of {len(page_sizes)} sizes"
        )
        error.raised_in = "validate_kv_cache_layout"
        raise error
