"""A Tuning as JSON; `tune_schema` has the form."""

from __future__ import annotations

from typing import Any

from ...deployment import Deployment
from ...resolve.resolution import Resolution
from ..choices.candidate import Candidate
from ..choices.other_choices import OtherChoices
from ..sizes.effect import Point
from ..sizes.flags import Flags
from ..sizes.robust import Interval
from .tune import Tuning

SCHEMA_VERSION = 1


def as_document(tuning: Tuning) -> dict[str, Any]:
    """`tuning` as JSON values. Shares are 0 to 1; costs are of a step on average, in `cost_unit`."""
    limits = tuning.limits
    return {
        "schema_version": SCHEMA_VERSION,
        **heading(tuning.deployment, tuning.resolution),
        "verdict": tuning.verdict,
        "flags": tuning.flag,
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
        "near": list(tuning.near.sizes),
        "near_reason": tuning.near.why or None,
        "spread": tuning.spread,
        "densities": [{"name": one.name, "is_beaten": one.is_beaten, **_point(one.point)} for one in tuning.densities],
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
        "replaces": list(tuning.replaces),
        "other_choices": _others(tuning.others),
        "findings": [one.__dict__ for one in tuning.findings],
        "notes": list(tuning.notes),
    }


def heading(deployment: Deployment, resolution: Resolution) -> dict[str, Any]:
    """What both documents of `tune` are of."""
    return {
        "vllm_version": resolution.vllm_version,
        "model": deployment.model.name,
        "gpu": deployment.gpu.name,
        "cudagraph_mode": resolution.cudagraph_mode.value,
    }


def _others(found: OtherChoices) -> dict[str, Any]:
    modes, requests, largest = found.modes, found.requests, found.largest
    return {
        "cudagraph_mode": {
            "today": modes.today.value,
            "first": _candidate(modes.first),
            "values": [
                {
                    "asked": one.asked.value,
                    "runs": None if one.mode is None else one.mode.value,
                    "found": None if one.found is None else _candidate(one.found),
                    "why_not": one.why_not or None,
                }
                for one in modes.rows
            ],
            "recommended": None if modes.recommended is None else modes.recommended.asked.value,
            "gain_interval": _interval(modes.chance),
            **_answer(modes.reason, modes.flags),
        },
        "max_num_seqs": {
            "today": requests.today,
            "first": _candidate(requests.first),
            "running": requests.running.__dict__,
            "needed": requests.needed,
            "values": [
                {
                    "max_num_seqs": one.max_num_seqs,
                    "found": None if one.found is None else _candidate(one.found),
                    "why_not": one.why_not or None,
                }
                for one in requests.rows
            ],
            "recommended": None if requests.recommended is None else requests.recommended.max_num_seqs,
            **_answer(requests.reason, requests.flags),
        },
        "max_cudagraph_capture_size": {
            "today": largest.today,
            "first": _candidate(largest.first),
            "decode_above": largest.decode_above,
            "mixed_above": largest.mixed_above,
            "widest": largest.widest,
            "values": [
                {
                    "max_cudagraph_capture_size": one.largest,
                    "above": one.above,
                    "found": None if one.found is None else _candidate(one.found),
                    "why_not": one.why_not or None,
                }
                for one in largest.rows
            ],
            "recommended": None if largest.recommended is None else largest.recommended.largest,
            "gain_interval": _interval(largest.chance),
            **_answer(largest.reason, largest.flags),
        },
    }


def _answer(reason: str, flags: Flags | None) -> dict[str, Any]:
    return {
        "reason": reason,
        "flags": None if flags is None else flags.line,
        "replaces": [] if flags is None else list(flags.replaces),
    }


def _candidate(one: Candidate) -> dict[str, Any]:
    point = one.point
    return {
        "capture_sizes": list(point.sizes),
        "graphs": point.graphs,
        "graph_bytes": point.graph_bytes,
        "kv_tokens": point.kv_tokens,
        "capture_seconds": point.capture._asdict(),
        "full": one.shares.full,
        "piecewise": one.shares.piecewise,
        "eager": one.shares.eager,
        "cost": one.cost,
        "gain": one.gain,
        "unpriced": one.unpriced or None,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "capture_sizes": list(point.sizes),
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
