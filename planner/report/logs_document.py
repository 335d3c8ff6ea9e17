"""The JSON document of `cgplan logs`; logs_schema.py describes it. Bytes are of one rank; null: not in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..errors import as_fix
from ..startup.against_plan import Comparison, Row
from ..startup.analysis import StartReport
from ..startup.arguments import model_of
from ..startup.corrected import Correction
from ..startup.diagnosis import Diagnosis
from ..startup.known import transient
from ..startup.record import Rank, Start, StartupLog
from ..startup.requests import requests_of
from ..trace import Finding
from .logs_secrets import LogSecrets
from .words import as_option

SCHEMA_VERSION = 1


def as_document(log: StartupLog, reports: Sequence[StartReport], secrets: LogSecrets) -> dict[str, Any]:
    """The document, as JSON values in a stable order, without secrets."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "lines": log.lines,
        "not_recognised": log.not_recognised,
        "not_recognised_examples": [{"line": place.line, "text": place.text} for place in log.examples],
        "remarks": list(log.remarks),
        "starts": [_start(log, report, secrets) for report in reports],
        "workload": None,
    }
    found: dict[str, Any] = secrets.document(document)
    return found


def _requests(report: StartReport) -> dict[str, Any] | None:
    """How many run at most, where the log or the plan says it, and where that is from."""
    found = requests_of(report.start, report.comparison)
    return None if found is None else {"max_num_seqs": found.number, "source": found.source or "the log"}


def _start(log: StartupLog, report: StartReport, secrets: LogSecrets) -> dict[str, Any]:
    start = report.start
    graphs = start.graphs
    return {
        "number": report.number,
        "first_line": start.first_line,
        "last_line": start.last_line,
        "source": start.where or None,
        "came_up": report.came_up,
        "vllm_version": start.vllm_version,
        "rules_of": report.release,
        "model": model_of(start),
        "architecture": start.architecture,
        "runner": start.runner,
        "platform_plugin": start.platform_plugin,
        "arguments": secrets.settings(_plain(start.arguments)),
        "environment": secrets.settings(_plain(start.environment)),
        "cudagraph_mode": start.cudagraph_mode,
        "capture_sizes": None if start.capture_sizes is None else list(start.capture_sizes),
        "graphs": {kind: graphs.get(kind) for kind in dict.fromkeys(("FULL", "PIECEWISE", *graphs))},
        "attention_backends": list(dict.fromkeys(name for rank in start.ranks for name in rank.attention_backends)),
        "max_model_len": start.max_model_len,
        "derived_max_model_len": start.derived_max_model_len,
        "max_num_seqs": start.max_num_seqs,
        "requests": _requests(report),
        "max_num_batched_tokens": start.max_num_batched_tokens,
        "block_size": start.block_size,
        "num_gpu_blocks": start.num_gpu_blocks,
        "kv_tokens": start.kv_tokens,
        "max_concurrency": start.max_concurrency,
        "concurrency_length": start.concurrency_length,
        "kv_by_engine": [
            {"engine": name, "kv_tokens": tokens, "max_concurrency": times} for name, tokens, times in start.kv_printed
        ],
        "capture_seconds": _capture_seconds(start),
        "start_seconds": start.seconds,
        "phases": [{"name": one.name, "seconds": one.seconds, "rank": one.rank or None} for one in start.phases],
        "ranks": [_rank(rank) for rank in start.ranks],
        "crash": None if report.diagnosis is None else _crash(report.diagnosis),
        "corrections": [_correction(one) for one in report.corrections],
        "plan": None if report.comparison is None else _plan(report.comparison),
        "findings": [_finding(one) for one in report.findings],
        "not_recognised": _not_recognised(log, start),
    }


def _plain(value: Any) -> Any:
    """As JSON has it: keys are texts, other objects their text."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _capture_seconds(start: Start) -> float | None:
    return max((rank.capture_seconds for rank in start.ranks if rank.capture_seconds is not None), default=None)


def _not_recognised(log: StartupLog, start: Start) -> int | None:
    """Of the lines of this start; null where several starts share more than are kept as examples."""
    if len(log.starts) == 1:
        return log.not_recognised
    if log.not_recognised > len(log.examples) or (start.file and log.not_recognised):
        return None
    return sum(start.first_line <= place.line <= start.last_line for place in log.examples)


def _rank(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "name": rank.name,
        "total_bytes": rank.total_bytes,
        "free_bytes": rank.free_bytes,
        "requested_bytes": rank.requested_bytes,
        "gpu_memory_utilization": rank.utilization,
        "weights_bytes": rank.weights_bytes,
        "consumed_bytes": rank.consumed_bytes,
        "activation_bytes": rank.activation_bytes,
        "activation_includes_estimate": rank.activation_includes_estimate,
        "activation_without_estimate_bytes": transient(rank),
        "non_torch_bytes": rank.non_torch_bytes,
        "graph_estimate_bytes": rank.graph_estimate_bytes,
        "graph_bytes": rank.graph_actual_bytes,
        "capture_seconds": rank.capture_seconds,
        "kv_bytes": rank.kv_bytes,
        "kv_is_given": rank.kv_is_given,
        "kv_after_reserve_bytes": rank.kv_after_reserve_bytes,
        "suggested_kv_bytes": rank.suggested_kv_bytes,
        "suggested_full_kv_bytes": rank.suggested_kv_bytes_full,
        "graphs": [{"kind": one.kind, "graphs": one.graphs, "largest": one.largest} for one in rank.profiled],
        "samples": [
            {
                "kind": one.mode,
                "first_bytes": one.first_bytes,
                "graphs": one.graphs,
                "per_graph_bytes": one.per_graph_bytes,
            }
            for one in rank.samples
        ],
        "captured": [
            {"kind": one.kind, "graphs": one.graphs, "of": one.total, "name": one.name} for one in rank.captured
        ],
        "attention_backends": list(rank.attention_backends),
    }


def _crash(found: Diagnosis) -> dict[str, Any]:
    return {
        "code": found.code,
        "kind": found.kind,
        "step": found.step or None,
        "what": found.what,
        "message": found.message,
        "fix": as_option(as_fix(found.fix)),
        "works": dict(found.largest),
        "line": found.place.line,
        "rank": found.rank or None,
        "values": _plain(found.values),
        "also": [_finding(one) for one in found.also],
        "chain": list(found.chain),
    }


def _correction(found: Correction) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "printed_bytes": found.printed,
        "right_bytes": found.right,
        "printed_full_bytes": found.printed_full,
        "right_full_bytes": found.right_full,
        "counts_twice": found.counts_twice,
        "in_use_bytes": found.in_use,
        "gpu_memory_utilization": found.utilization,
        "steps": [{"sign": step.sign, "what": step.what, "size_bytes": step.size} for step in found.steps],
    }


def _plan(found: Comparison) -> dict[str, Any]:
    deployment = found.served.deployment
    return {
        "gpu": None if deployment is None else deployment.gpu.name,
        "model": None if deployment is None else deployment.model.name,
        "vllm_version": None if deployment is None else deployment.vllm,
        "rows": [_row(row) for row in found.rows],
        "why_not": found.why_not,
        "fix": found.fix,
        "assumptions": list(found.served.assumptions),
        "not_modelled": list(found.served.ignored),
    }


def _row(row: Row) -> dict[str, Any]:
    part = {"times": 100, "seconds": 10}.get(row.unit, 1)
    planned = row.planned
    return {
        "name": row.key,
        "unit": row.unit or None,
        "ranks": list(row.ranks),
        "low": None if planned is None else planned.low / part if part > 1 else planned.low,
        "best": None if planned is None else planned.best / part if part > 1 else planned.best,
        "high": None if planned is None else planned.high / part if part > 1 else planned.high,
        "measured": None if row.measured is None else round(row.measured / part, 2) if part > 1 else row.measured,
        "planned_text": row.said or None,
        "measured_text": row.found or None,
        "percent": None if row.percent is None else round(row.percent, 2),
        "difference": None if row.off is None else row.off / part if part > 1 else row.off,
        "verdict": row.verdict,
        "given": row.given or None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    found = asdict(finding)
    if found["fix"] is not None:
        found["fix"] = as_option(as_fix(found["fix"]))
    return found
