"""What was measured of one deployment, for a variant of it.

A measured value speaks for the deployment that it was measured of. Of a variant whose prediction is the same it holds,
too; of another the prediction is taken, as many times larger or smaller as the measured value was than its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, resolve
from .budget.activation import estimate_activation
from .budget.measured import Measured
from .budget.non_torch import estimate_non_torch
from .budget.weights import estimate_weights
from .estimates import Interval, between
from .graphs.memory import GraphMemory

LIKELY = 4.0
"""A measured value so many times larger or smaller than its prediction says nothing of that of a variant."""

_Estimate = Callable[[Deployment, Resolution], Interval]
_ESTIMATES: Mapping[str, _Estimate] = {
    "weights": lambda deployment, resolution: estimate_weights(deployment, resolution).heaviest,
    "activation": lambda deployment, resolution: estimate_activation(deployment, resolution).highest,
    "non_torch": lambda deployment, resolution: estimate_non_torch(deployment),
}


class Known(NamedTuple):
    """What is known of a variant.

    Attributes:
        measured: values that hold for it.
        graphs: what capture takes, where that of `measured` is None; None: there are no graphs.
        graph_estimate: what vLLM estimates for it, likewise.
    """

    measured: Measured
    graphs: Interval | None
    graph_estimate: Interval | None


def known_of_variant(
    known: Measured,
    base: Deployment,
    graphs_of_base: Callable[[Deployment, Resolution], GraphMemory | None],
    variant: Deployment,
    resolution: Resolution,
    graphs: GraphMemory | None,
) -> Known:
    """What of `known`, measured of `base`, is known of `variant`.

    Args:
        graphs_of_base: predicts those of a deployment.
        resolution, graphs: of the variant, predicted.
    """
    taken = graphs.total if graphs is not None else None
    estimate = graphs.estimate if graphs is not None else None
    if base is variant or known.is_empty:
        return Known(known, taken, estimate)
    first, before = _base(base, graphs_of_base)
    values: dict[str, Any] = {
        name: _scaled(getattr(known, name), name, (base, first), (variant, resolution)) for name in _ESTIMATES
    }
    if variant.gpu != base.gpu:
        values |= {"total": None, "free": None}
    was, estimated = (before.total, before.estimate) if before is not None else (None, None)
    values["graphs"], taken = _graphs(known.graphs, was, taken, known.source_of("graphs"))
    values["graph_estimate"], estimate = _graphs(
        known.graph_estimate, estimated, estimate, known.source_of("graph_estimate")
    )
    return Known(replace(known, **values), taken, estimate)


def _scaled(
    value: int | None, name: str, base: tuple[Deployment, Resolution], variant: tuple[Deployment, Resolution]
) -> int | None:
    """The measured value, times what the prediction grows by; where nothing can be predicted, as it is."""
    if value is None:
        return None
    try:
        before, after = _ESTIMATES[name](*base).best, _ESTIMATES[name](*variant).best
    except CgplanError:
        return value
    return value if before in (0, after) else round(value * after / before)


def _graphs(
    value: int | None, before: Interval | None, after: Interval | None, source: str
) -> tuple[int | None, Interval | None]:
    """The measured value where it holds, and else a prediction for the variant."""
    if value is None:
        return None, after
    if (before.best if before is not None else 0) == (after.best if after is not None else 0):
        return value, after
    if after is None or before is None or not before.best / LIKELY <= value <= before.best * LIKELY:
        return None, after
    factor = value / before.best
    said = f"predicted, times {factor:.2f} as measured in: {source}"
    return None, between(factor * after.low, factor * after.best, factor * after.high, said)


_KEPT = 4
_bases: list[tuple[Deployment, Resolution, GraphMemory | None]] = []
"""Those asked for last: every variant asks for the same."""


def _base(
    deployment: Deployment, graphs_of: Callable[[Deployment, Resolution], GraphMemory | None]
) -> tuple[Resolution, GraphMemory | None]:
    for known, resolution, graphs in _bases:
        if known is deployment:
            return resolution, graphs
    resolution = resolve(deployment)
    graphs = graphs_of(deployment, resolution)
    _bases.append((deployment, resolution, graphs))
    del _bases[:-_KEPT]
    return resolution, graphs
