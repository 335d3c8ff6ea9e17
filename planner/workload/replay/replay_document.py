"""Steps as JSON: what the sources saw, and what a resolution says of them. The form is in document_schema."""

from __future__ import annotations

from typing import Any

from ...resolve.resolution import Resolution
from ...trace import Finding
from ...vocabulary import CUDAGraphMode
from .. import document
from ..gathered import Gathered, Part, Settings
from ..histogram import Workload
from .replay import Difference, Missed, Replay, replay, seen_tally
from .replay_findings import findings_of_parts
from .tally import Bounds, Tally

SCHEMA_VERSION = 1


def as_document(gathered: Gathered, resolution: Resolution | None = None) -> dict[str, Any]:
    """The steps of all engines together, and of each; `resolved` is null without a resolution.

    Of several kinds of sources, the one that says most comes first, and has the others under it.
    """
    first, *others = gathered.split()
    return {**_document(first, resolution), "other_sources": [_document(one, resolution) for one in others]}


def _document(gathered: Gathered, resolution: Resolution | None) -> dict[str, Any]:
    workload = gathered.together()
    made = replay(workload, resolution) if workload is not None and resolution is not None else None
    findings = (*findings_of_parts(gathered, resolution), *(made.findings if made is not None else ()))
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": None if workload is None else document.as_document(workload),
        "seen": _seen(workload),
        "resolved": None if made is None else _replay(made),
        "engines": [_part(part, resolution) for part in gathered.parts],
        "findings": [_finding(finding) for finding in findings],
        "remarks": list(gathered.remarks),
        "not_recognised": gathered.not_recognised,
        "other_sources": [],
    }


def _part(part: Part, resolution: Resolution | None) -> dict[str, Any]:
    settings = part.settings
    return {
        "name": part.name,
        "kind": part.kind,
        "source": part.workload.source,
        "tables": part.tables,
        "settings": None if settings is None else _settings(settings),
        "facts": dict(part.facts),
        "steps": part.workload.steps,
        "exact": part.workload.exact,
        "seen": _seen(part.workload),
        "resolved": None if resolution is None else _tally(replay(part.workload, resolution).total),
    }


def _settings(found: Settings) -> dict[str, Any]:
    return {"cudagraph_mode": found.mode, "capture_sizes": list(found.sizes)}


def _seen(workload: Workload | None) -> dict[str, Any] | None:
    found = seen_tally(workload) if workload is not None else None
    return None if found is None else _tally(found)


def _replay(made: Replay) -> dict[str, Any]:
    return {
        **_tally(made.total),
        "by_kind": {kind: _tally(found) for kind, found in made.by_kind.items()},
        "missed": [_missed(one) for one in made.missed],
        "differences": [_difference(one) for one in made.differences],
        "beyond_limits": made.beyond,
    }


def _tally(found: Tally) -> dict[str, Any]:
    return {
        "steps": found.steps,
        "exact": found.is_exact,
        "modes": {_name(mode): _bounds(bounds) for mode, bounds in found.modes.items()},
        "shares": {_name(mode): _bounds(found.share(mode)) for mode in found.modes},
        "tokens": _bounds(found.tokens),
        "padding_tokens": _bounds(found.padding),
        "waste": _bounds(found.waste),
    }


def _missed(one: Missed) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "mode": _name(one.mode),
        "code": one.reason.code,
        "reason": one.reason.message,
        "fix": one.reason.fix,
        "steps": _bounds(one.steps),
        "batches": [{"tokens": list(item.tokens), "steps": item.steps} for item in one.batches],
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "tokens": list(one.tokens),
        "count": one.count,
        "seen": {"mode": _name(one.seen.mode), "padded": one.seen.padded},
        "resolved": {"mode": _name(one.resolved.mode), "padded": one.resolved.computed},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "fix": finding.fix,
        "where": finding.where,
    }


def _bounds(bounds: Bounds) -> dict[str, float]:
    return {"low": bounds.low, "high": bounds.high}


def _name(mode: CUDAGraphMode) -> str:
    return str(mode)
