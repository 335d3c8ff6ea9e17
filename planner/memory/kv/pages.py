"""Pages of one size for all layers, so that any layer may take any block.

Source: vllm/v1/core/kv_cache_planning.py:346-408.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import StartupError
from ...trace import Rule
from ..kv_specs import AttentionSpec, KVCacheSpec, MambaSpec, MLAAttentionSpec
from .merge import Facts

NOT_ONE_SIZE = Rule(
    "CG566",
    title="A layer whose page does not divide the largest one must be one that can be padded.",
    why="All layers draw blocks of one pool. A smaller page grows by whole multiples, or is padded where the layer's"
    " kernel reads pages by their stride; MLA reads rows without gaps.",
    example="An MLA model with a draft model of a larger page that does not divide it.",
    instead="Choose another --kv-cache-dtype or --block-size, or leave the draft model out.",
    source="vllm/v1/core/kv_cache_planning.py:392-406",
)
PADDING_OUTGROWN = Rule(
    "CG567",
    title="A padded page is not made larger.",
    why="vLLM grows the block of a layer with a small page and keeps the old padding, which is then too small.",
    example="Laguna-S-2.1-FP8 with --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 stops with an AssertionError.",
    instead="Leave --kv-cache-dtype-skip-layers out, or list all layers of the kind.",
    source="vllm/v1/core/kv_cache_planning.py:392-406, vllm/v1/kv_cache_interface.py:596-600",
)

_UNIFY = "unify_kv_cache_spec_page_size"


def one_page_size(specs: dict[str, KVCacheSpec], facts: Facts) -> dict[str, KVCacheSpec]:
    """The specs with the largest page of them all.

    Raises:
        StartupError: CG566, CG567.
    """
    largest = max((spec.page_size_bytes for spec in specs.values()), default=0)
    return {name: _grown(name, spec, largest, facts) for name, spec in specs.items()}


def _grown(name: str, spec: KVCacheSpec, largest: int, facts: Facts) -> KVCacheSpec:
    page = spec.page_size_bytes
    if page == largest:
        return spec
    if isinstance(spec, MambaSpec) and facts["pages"]["pads_mamba"]:
        return replace(spec, page_size_padded=largest)
    if page == 0:
        raise _refused(
            PADDING_OUTGROWN,
            f"layer {name} has a page of 0 bytes",
            "ZeroDivisionError",
            _UNIFY,
        )
    if largest % page == 0:
        grown = spec.copy_with_new_block_size(spec.block_size * (largest // page))
        if isinstance(grown, AttentionSpec) and grown.page_size_bytes < grown.unpadded_page_size_bytes:
            raise _refused(
                PADDING_OUTGROWN, f"layer {name} outgrows its padded page", "AssertionError", "page_size_bytes"
            )
        if grown.page_size_bytes != largest:
            raise _refused(
                PADDING_OUTGROWN,
                f"layer {name} keeps its padded page",
                "AssertionError",
                _UNIFY,
            )
        return grown
    if isinstance(spec, AttentionSpec) and _may_be_padded(spec, facts):
        return replace(spec, page_size_padded=largest)
    raise _refused(
        NOT_ONE_SIZE,
        f"layer {name}: its page of {page} bytes does not divide the largest of {largest}, and cannot be padded",
        "NotImplementedError",
        _UNIFY,
    )


def _may_be_padded(spec: AttentionSpec, facts: Facts) -> bool:
    which = facts["pages"]["pads_attention"]
    if which == "all but MLA":
        return not isinstance(spec, MLAAttentionSpec)
    return which == "by stride" and spec.indexes_kv_by_block_stride


def _refused(rule: Rule, message: str, raised_as: str, raised_in: str) -> StartupError:
    return StartupError(
        message,
        code=rule.code,
        stage="initialize_kv_caches",
        raised_as=raised_as,
        raised_in=raised_in,
        where="--model",
        fix=rule.instead,
    )
