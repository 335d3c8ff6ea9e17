"""A Ceiling as JSON; `concurrency_schema` has the form."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..choices.concurrency import Ceiling
from .tune_document import heading

SCHEMA_VERSION = 1


def as_document(found: Ceiling) -> dict[str, Any]:
    """`found` as JSON values. Shares are 0 to 1."""
    return {
        "schema_version": SCHEMA_VERSION,
        **heading(found.deployment, found.resolution),
        "max_concurrency": found.asked,
        "max_num_seqs": found.resolution.max_num_seqs,
        "graphs": [
            {
                "mode": one.mode.value,
                "by_decode": list(one.by_decode),
                "by_prefill": list(one.by_prefill),
                "by_none": list(one.by_none),
            }
            for one in found.used
        ],
        "without_graph": list(found.without_graph),
        "launches": [
            {
                "name": one.name,
                "flags": one.flags or None,
                "capture_sizes": list(one.point.sizes),
                "graphs": one.point.graphs,
                "waste": one.point.waste,
                "eager": one.point.eager,
                "largest_mixed": one.without_graph,
                "graph_bytes": one.point.graph_bytes,
                "kv_tokens": one.point.kv_tokens,
                "capture_seconds": one.point.capture._asdict(),
            }
            for one in found.launches
        ],
        "starts": None if found.why_no_memory else not found.stops,
        "stops": [asdict(one) for one in found.stops],
        "notes": [f"the memory is not planned: {found.why_no_memory}"] if found.why_no_memory else [],
    }
