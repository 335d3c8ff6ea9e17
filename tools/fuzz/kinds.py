"""All kinds of input, by name."""

from __future__ import annotations

from . import (
    commands,
    deployments,
    grids,
    lines,
    logs,
    manifests,
    models,
    records,
    settings,
    tensors,
    values,
    workloads,
)
from .kind import Kind

PROCESSES = "processes"
"""Cases that are processes of their own."""

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        lines.KIND,
        commands.KIND,
        manifests.KIND,
        deployments.KIND,
        models.KIND,
        tensors.KIND,
        logs.KIND,
        workloads.METRICS_KIND,
        workloads.WORKLOADS_KIND,
        workloads.STEPS_KIND,
        records.KIND,
        grids.GRIDS_KIND,
        grids.RESUMED_KIND,
        settings.KIND,
        values.KIND,
    )
}
