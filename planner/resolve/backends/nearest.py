"""The backend that comes nearest to a layer which none fits: the one that the user's own settings keep out, if any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .checks import reasons
from .combinations import Reason
from .facts import Backend
from .layer import Layer

Rejected = tuple[Backend, tuple[Reason, ...]]

WITHOUT: dict[str, tuple[dict[str, Any], str]] = {
    "dcp": ({"dcp_size": 1}, "leave --decode-context-parallel-size out"),
    "non_causal_dcp": ({"dcp_size": 1}, "leave --decode-context-parallel-size out"),
    "pcp": ({"pcp_size": 1}, "leave --prefill-context-parallel-size out"),
    "kv_connector": ({"kv_connector": False}, "leave --kv-transfer-config out"),
    "batch_invariance": ({"batch_invariant": False}, "leave VLLM_BATCH_INVARIANT out"),
    "block_size": ({"block_size": None}, "leave --block-size out"),
}
"""By kind of reason: the layer without the setting that gives it, and what to do."""
MINE = (*WITHOUT, "kv_cache_dtype", "combination")
"""Reasons that a setting may be behind; the others are the model's or the GPU's. A combination may be either."""


def nearest(layer: Layer, rejected: Sequence[Rejected]) -> tuple[Rejected, str | None]:
    """The nearest of the backends, and what of the settings to change for it; None: settings do not help.

    Those that settings alone keep out come first, then those with the fewest reasons of the model or the GPU.
    """
    ways = [(one, way) for one in rejected if (way := _way(layer, *one)) is not None]
    if ways:
        return min(ways, key=lambda entry: len(entry[0][1]))
    return min(rejected, key=lambda one: (sum(reason.kind not in MINE for reason in one[1]), len(one[1]))), None


def _way(layer: Layer, backend: Backend, against: Sequence[Reason]) -> str | None:
    """What to change so that the backend fits, or None."""
    if any(reason.kind not in MINE for reason in against):
        return None
    changes: dict[str, Any] = {}
    said: dict[str, None] = {}
    for reason in against:
        if reason.kind in WITHOUT:
            change, text = WITHOUT[reason.kind]
            changes |= change
            said[text] = None
    plain = layer._replace(**changes)
    if said and not reasons(backend, plain):
        return _and(list(said))
    for kv in backend.kv:
        if not reasons(backend, plain._replace(kv_dtype=kv, run_kv_dtype=kv)):
            return _and([*said, "leave --kv-cache-dtype out" if kv == "auto" else f"give --kv-cache-dtype {kv}"])
    return None


def _and(texts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
