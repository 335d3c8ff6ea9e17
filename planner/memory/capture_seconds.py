"""How long the capture of CUDA graphs takes, as it took elsewhere."""

from __future__ import annotations

from typing import NamedTuple

from ..deployment import Deployment
from ..releases import table

MEASURED = "H100"
"""The GPU of the logs that the figures were fitted to."""


class Seconds(NamedTuple):
    """How long the capture takes, as it took elsewhere."""

    low: float
    best: float
    high: float


def capture_seconds(deployment: Deployment, graphs: int, *, is_older: bool = False) -> Seconds:
    """How long so many graphs take: each runs every layer of a pipeline stage, and experts cost more than that.

    On other GPUs than that of the logs the bounds are wider.

    Args:
        is_older: the release that is meant is older than all that are known, whose captures took longer.
    """
    known = table("capture_time")
    model = deployment.model
    layers = model.num_hidden_layers / deployment.pipeline_parallel_size
    each = known["seconds_a_graph"] + known["seconds_a_graph_and_layer"] * layers
    each += known["seconds_a_graph_of_experts"] if model.is_moe else 0.0
    is_measured = MEASURED in deployment.gpu.name
    least, most = known["bounds" if is_measured else "bounds_of_other_gpus"]
    if is_measured and model.is_moe:
        least, most = known["bounds_of_experts"]
    if is_older:
        adapters = deployment.enable_lora
        least, most = known["bounds_before_0_19_with_adapters" if adapters else "bounds_before_0_19"]
    best = graphs * each
    first = known["first_seconds_of_states"] if graphs and model.is_hybrid and not is_measured else 0.0
    return Seconds(round(best * least, 1), round(best, 1), round(best * most + first, 1))
