"""A Tuning as JSON; `tune_schema` has the form."""

from __future__ import annotations

from typing import Any

from .effect import Point
from .robust import Interval
from .tune import Tuning

SCHEMA_VERSION = 1


def as_document(tuning: Tuning) -> dict[str, Any]:
    """`tuning` as JSON values. Shares are 0 to 1; costs are of a step on average, in `cost_unit`."""
    limits = tuning.limits
    return {
        "schema_version": SCHEMA_VERSION,
        "vllm_version": tuning.resolution.vllm_version,
        "model": tuning.deployment.model.name,
        "gpu": tuning.deployment.gpu.name,
        "cudagraph_mode": tuning.resolution.cudagraph_mode.value,
        "verdict": tuning.verdict,
        "flag": tuning.flag,
        "cost_unit": tuning.prices.unit,
        "cost_source": tuning.prices.source or None,
        "gain": tuning.gain,
        "gain_held_out": tuning.held_out,
        "gain_by_chance": _interval(tuning.chance),
        "gain_by_buckets": _interval(tuning.buckets),
        "beats_from": tuning.beats_from,
        "today": _point(tuning.today),
        "chosen": _point(tuning.chosen),
        "knee": None if tuning.knee is None else len(tuning.knee.sizes),
        "curve": [_point(point) for point in tuning.points],
        "fixed": list(tuning.fixed),
        "multiple": tuning.multiple,
        "spread": tuning.spread,
        "limits": {
            "graphs": limits.graphs,
            "graph_bytes": limits.graph_bytes,
            "capture_seconds": limits.capture_seconds,
        },
        "traffic": [
            {
                "name": part.name,
                "steps": part.workload.steps if part.is_measured else None,
                "weight": part.weight,
                "exact": part.workload.exact,
            }
            for part in tuning.traffic
        ],
        "eager_anyway": tuning.eager_anyway,
        "parts": [one.__dict__ for one in tuning.parts],
        "shifts": [one.__dict__ for one in tuning.shifts],
        "findings": [one.__dict__ for one in tuning.findings],
        "notes": list(tuning.notes),
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "sizes": list(point.sizes),
        "graphs": point.graphs,
        "cost": point.cost,
        "tokens": point.tokens,
        "waste": point.waste,
        "eager": point.eager,
        "graph_bytes": point.graph_bytes,
        "kv_tokens": point.kv_tokens,
        "capture_seconds": point.capture._asdict(),
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()
