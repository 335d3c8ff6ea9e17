"""The JSON document of a Resolution, written; document_schema.py describes it and reads it back.

Numbers are tokens unless the name says otherwise; `waste` is a share of the padded batch, 0 to below 1.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..vocabulary import CUDAGraphMode
from .backends import BackendChoice
from .coverage import Coverage
from .drafter import Drafter
from .graphs import Captures
from .resolution import Resolution

SCHEMA_VERSION = 1


def as_document(resolution: Resolution) -> dict[str, Any]:
    """The document, as JSON values in a stable order."""
    r = resolution
    most = r.lora.max_loras if r.lora is not None else 0
    return {
        "schema_version": SCHEMA_VERSION,
        "vllm_version": r.vllm_version,
        "runner": r.runner.value,
        "compilation_mode": r.compilation_mode.value,
        "requested_mode": r.requested_mode.value,
        "configured_mode": r.configured_mode.value,
        "cudagraph_mode": r.cudagraph_mode.value,
        "decode_mode": r.decode_mode.value,
        "mixed_mode": r.mixed_mode.value,
        "capture_sizes": list(r.capture_sizes),
        "max_cudagraph_capture_size": r.max_capture_size,
        "max_num_seqs": r.max_num_seqs,
        "max_num_batched_tokens": r.max_num_batched_tokens,
        "max_model_len": r.max_model_len,
        "uniform_decode_query_len": r.uniform_decode_query_len,
        "backend": backend_part(r.backend),
        "graphs": {
            "FULL": r.graph_count(CUDAGraphMode.FULL),
            "PIECEWISE": r.graph_count(CUDAGraphMode.PIECEWISE),
            "total": r.graph_count(),
        },
        "captures": _captures(r.captures),
        "coverage": _coverage(r, 0),
        "lora_coverage": {"num_active_loras": most, **_coverage(r, most)} if r.lora is not None else None,
        "lora": asdict(r.lora) | {"cases": list(r.lora.cases)} if r.lora is not None else None,
        "drafter": _drafter(r.drafter),
        "schedule": None
        if r.schedule is None
        else [{"last_batch_size": last, "num_speculative_tokens": tokens} for last, tokens in r.schedule],
        "num_ubatches": r.num_ubatches,
        "data_parallel_ranks": r.data_parallel_ranks,
        "pads_to": r.pads_to,
        "sizes_are_named": r.sizes_are_named,
        "habits": asdict(r.habits),
        "unreachable": [{"mode": mode.value, **graph._asdict()} for mode, graph in r.unreachable],
        "config": r.config,
        "decisions": [asdict(decision) for decision in r.decisions],
        "findings": [asdict(finding) for finding in r.findings],
        "assumptions": list(r.assumptions),
        "not_modelled": list(r.not_modelled),
    }


def backend_part(choice: BackendChoice) -> dict[str, Any]:
    """The attention backends of `choice`; other documents hold the same part."""
    return {
        "name": choice.name,
        "support": choice.support.name,
        "weakest": choice.weakest,
        "groups": [{**asdict(group), "support": group.support.name} for group in choice.groups],
        "rejected": [{"name": name, "reasons": list(reasons)} for name, reasons in choice.rejected],
    }


def _captures(captures: Captures) -> dict[str, Any]:
    return {
        mode.value: [graph._asdict() for graph in captures.get(mode, ())]
        for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE)
    }


def _coverage(resolution: Resolution, num_active_loras: int) -> dict[str, Any]:
    return {
        "uniform_decode": _ranges(resolution.uniform_decode_coverage(num_active_loras)),
        "mixed": _ranges(resolution.mixed_coverage(num_active_loras)),
    }


def _ranges(coverage: Coverage) -> list[dict[str, Any]]:
    return [
        {
            "from": r.first,
            "to": r.last,
            "query_len": r.query_len,
            "mode": r.mode.value,
            "padded": r.padded,
            "waste": round(r.waste, 6),
            "mean_waste": round(r.mean_waste, 6),
        }
        for r in coverage.ranges
    ]


def _drafter(drafter: Drafter | None) -> dict[str, Any] | None:
    if drafter is None:
        return None
    return {
        "speculator": drafter.speculator,
        "managers": {name: _captures(captures) for name, captures in drafter.managers.items()},
    }
