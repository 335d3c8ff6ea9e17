"""The JSON document of a check; check_schema.py describes it. Columns are characters, from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..check.diagnostic import Diagnostic
from ..errors import CgplanError
from ..inputs.launches.launch import Remark
from .check_places import region, region_of
from .check_results import LINE, FileResult, LaunchResult, Origin, summary

SCHEMA_VERSION = 1

Mask = Callable[[str], str]


def as_document(files: Sequence[FileResult]) -> dict[str, Any]:
    """The document, as JSON values in a stable order."""
    return {
        "schema_version": SCHEMA_VERSION,
        "files": [_file(file) for file in files],
        "summary": summary(files)._asdict(),
    }


def _file(file: FileResult) -> dict[str, Any]:
    mask = file.secrets.mask
    return {
        "path": _name(file.name),
        "launches": [_launch(file, launch) for launch in file.launches],
        "diagnostics": [_diagnostic(one, mask) for one in file.diagnostics],
        "remarks": [_remark(file, remark) for remark in file.remarks],
        "error": _error(file.error, mask) if file.error is not None else None,
        "passed_over": file.passed_over,
    }


def _name(name: str) -> str | None:
    """A path, "-" for standard input, None for a line."""
    return None if name == LINE else name


def _launch(file: FileResult, launch: LaunchResult) -> dict[str, Any]:
    mask, outcome, most = file.secrets.mask, launch.outcome, launch.most_requests
    return {
        "label": mask(launch.launch.label),
        "kind": launch.launch.kind,
        "line": launch.line,
        "vllm_version": outcome.vllm.value,
        "vllm_version_from": outcome.vllm.said_by,
        **_origin("gpu", outcome.gpu),
        **_origin("model", outcome.model),
        "model_stand_in": outcome.stand_in,
        "starts": outcome.starts,
        "resolution": outcome.resolution,
        "max_num_seqs_max": most.value if most is not None else None,
        "max_num_seqs_max_reason": most.reason if most is not None else None,
        "assumptions": [mask(text) for text in launch.assumptions],
        "not_modelled": [mask(text) for text in launch.ignored],
        "remarks": [_remark(file, remark) for remark in launch.launch.remarks],
        "diagnostics": [_diagnostic(one, mask) for one in launch.diagnostics],
    }


def _origin(name: str, origin: Origin) -> dict[str, str | None]:
    return {name: origin.value, f"{name}_from": origin.said_by if origin.value is not None else None}


def _diagnostic(one: Diagnostic, mask: Mask) -> dict[str, Any]:
    place = region_of(one.at) if one.at is not None else None
    return {
        "code": one.code,
        "severity": one.severity,
        "message": mask(one.message),
        "why": mask(one.why),
        "fix": mask(one.fix) if one.fix is not None else None,
        "flag": mask(one.flag) if one.flag is not None else None,
        "file": _name(one.at.source.name) if one.at is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "end_line": place.end_line if place is not None else None,
        "end_column": place.end_column if place is not None else None,
        "fixable": ("safe" if one.safe else "unsafe") if one.edits else None,
        "related": [
            {
                "message": mask(related.message),
                "file": _name(related.at.source.name),
                **region_of(related.at)._asdict(),
            }
            for related in one.related
        ],
    }


def _remark(file: FileResult, remark: Remark) -> dict[str, Any]:
    place = None
    if remark.span is not None and file.source is not None:
        place = region(file.source, remark.span.start, remark.span.end)
    return {
        "kind": remark.kind,
        "message": file.secrets.mask(remark.message),
        "fix": file.secrets.mask(remark.fix) if remark.fix is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
    }


def _error(error: CgplanError, mask: Mask) -> dict[str, str | None]:
    return {
        "code": error.code,
        "message": mask(error.message),
        "where": mask(error.where) if error.where is not None else None,
        "fix": mask(error.fix) if error.fix is not None else None,
    }
