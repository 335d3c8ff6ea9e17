"""What others measured of CUDA graphs, nearest in kind to a deployment: a quotation, never a prediction for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..deployment import Deployment
from ..releases import table
from ..vocabulary import CUDAGraphMode
from .resolution import Resolution

FULL, ALL, DRAFTS = "full", "all", "drafts"
"""What is lost: FULL graphs for decode, or every graph; or FULL graphs for drafts that a run without them kept."""
SMALL = 4_000_000_000
"""Parameters below which a dense model is small."""
MANY_RANKS = 4
"""Tensor-parallel ranks from which the figures of several GPUs are the nearer ones."""

_INTRODUCED = "measured elsewhere, no prediction for this server: "


def lost(now: Resolution) -> str | None:
    """What the mode that runs lacks beside the mode that was asked for; None: decode has its graphs."""
    asked = now.requested_mode
    if asked is CUDAGraphMode.NONE or now.config.get("runner_type") == "pooling":
        return None
    if now.cudagraph_mode is CUDAGraphMode.NONE:
        return ALL
    is_lower = asked.decode_mode is CUDAGraphMode.FULL and now.decode_mode is CUDAGraphMode.PIECEWISE
    return FULL if is_lower else None


def quotation(deployment: Deployment, what: str) -> str:
    """The nearest measurement with its source, one clause; with the other end where the two are far apart.

    Args:
        what: FULL, ALL or DRAFTS.
    """
    kinds = _kinds(deployment)
    if what == DRAFTS:
        return _INTRODUCED + _words(_of(what, kinds))
    nearest = _of(what, kinds)
    told = [nearest]
    if nearest["kind"] == "drafts":
        told.append(_of(DRAFTS, kinds))
    elif what == ALL and nearest["kind"] != "experts":
        told.append(_of(*((FULL, ("small",)) if nearest["kind"] == "busy" else (ALL, ("busy",)))))
    elif nearest["kind"] == "small" and kinds[0] != "small":
        told.append(_of(ALL, kinds))
    return _INTRODUCED + "; ".join(map(_words, told))


def measured(source: str, kind: str | None = None) -> str:
    """What a report measured, in words.

    Args:
        source: as graph_gains.toml names it.
        kind: of the row, where the report has several; None: its first.

    Raises:
        KeyError: there is no such row.
    """
    rows = [row for row in table("graph_gains")["measured"] if row["source"] == source and kind in (None, row["kind"])]
    if not rows:
        raise KeyError(f"{source} {kind or ''}".strip())
    return _words(rows[0])


def _kinds(deployment: Deployment) -> tuple[str, ...]:
    """How the deployment is near to what was measured, the nearest first."""
    model = deployment.model
    kinds = []
    if deployment.speculative_config is not None:
        kinds.append("drafts")
    if model.is_moe:
        kinds.append("experts")
    elif model.weights is not None and model.weights.parameters < SMALL:
        kinds.append("small")
    if deployment.tensor_parallel_size >= MANY_RANKS:
        kinds.append("parallel")
    return (*kinds, "busy", "small")


def _of(what: str, kinds: tuple[str, ...]) -> Mapping[str, Any]:
    """The measurement of that loss and the first of these kinds that has one."""
    rows = [row for row in table("graph_gains")["measured"] if row["lost"] == what]
    return next((row for kind in kinds for row in rows if row["kind"] == kind), rows[-1])


def _words(row: Mapping[str, Any]) -> str:
    return f"{row['model']} on {row['gpu']}, {row['load']}, {row['release']}: {row['gain']} ({row['source']})"
