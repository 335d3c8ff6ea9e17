"""The JSON document of a CapacityPlan, written; document_schema.py describes it.

Bytes are of one rank. At the top stand those of the pipeline stage with the least KV cache; `stages` has all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..vocabulary import CUDAGraphMode
from .budget.budget import StageBudget
from .budget.suggestion import suggestion
from .capacity_plan import Capacity, CapacityPlan, capture_time, vllm_estimate
from .estimates import Interval
from .kv.token_bytes import token_bytes
from .other_runner import other_runner
from .what_if import BuyBack, Outcome

SCHEMA_VERSION = 1
OUTCOME_KEYS = {"num_blocks": "num_gpu_blocks", "tokens": "kv_tokens"}


def as_document(
    made: CapacityPlan, *, assumptions: Sequence[str] = (), bought: Sequence[BuyBack] = ()
) -> dict[str, Any]:
    """The document, as JSON values in a stable order."""
    deployment, resolution, budget = made.deployment, made.resolution, made.budget
    plan = made.best.plan
    stage = budget.tightest if budget is not None else None
    estimate = vllm_estimate(made)
    kv_low, kv_best, kv_high = (min(end.kv_bytes) for end in (made.low, made.best, made.high))
    return {
        "schema_version": SCHEMA_VERSION,
        "vllm_version": resolution.vllm_version,
        "gpu": deployment.gpu.name,
        "model": deployment.model.name,
        "runner": resolution.runner.value,
        "other_runner": _other_runner(made),
        "fits": made.fits,
        "starts": made.starts,
        "gpu_memory_utilization": budget.utilization if budget is not None else None,
        "total_bytes": budget.total.best if budget is not None else None,
        "free_bytes": bounds(budget.free) if budget is not None else None,
        "requested_bytes": budget.requested.best if budget is not None else None,
        "weights_bytes": stage.weights.best if stage is not None else None,
        "activation_bytes": bounds(stage.activation) if stage is not None else None,
        "non_torch_bytes": bounds(stage.non_torch) if stage is not None else None,
        "buffer_bytes": bounds(stage.buffers) if stage is not None else None,
        "graph_bytes": bounds(stage.graphs) if stage is not None else None,
        "graph_parts_bytes": _graph_parts(made),
        "graph_estimate_bytes": bounds(estimate) if estimate is not None else None,
        "deducted_bytes": stage.deducted.best if stage is not None else None,
        "deduction": budget.deduction.reason if budget is not None else None,
        "unused_bytes": bounds(stage.unused) if stage is not None else None,
        "suggested_kv_bytes": _suggested(made),
        "kv_bytes": {"low": kv_low, "best": kv_best, "high": kv_high},
        "block_size": plan.block_size if plan is not None else None,
        "num_gpu_blocks": plan.num_blocks if plan is not None else None,
        "kv_tokens": plan.tokens if plan is not None else None,
        "token_bytes": token_bytes(plan) if plan is not None else None,
        "max_concurrency": plan.max_concurrency if plan is not None else None,
        "max_model_len": plan.max_model_len if plan is not None else resolution.max_model_len,
        "max_model_len_that_fits": made.max_model_len_that_fits or None,
        "max_model_len_that_surely_starts": made.max_model_len_that_surely_starts or None,
        "max_num_seqs": resolution.max_num_seqs,
        "max_num_seqs_that_fits": made.max_num_seqs_that_fits or None,
        "max_num_seqs_that_surely_starts": made.max_num_seqs_that_surely_starts or None,
        "least_gpu_memory_utilization": made.least_utilization,
        "requests_by_length": [asdict(held) for held in made.requests_by_length],
        "capacity": {"low": _capacity(made.low), "best": _capacity(made.best), "high": _capacity(made.high)},
        "kv_groups": _groups(made.best),
        "hybrid_kv_cache_manager": made.hybrid_manager,
        "cudagraph_mode": resolution.cudagraph_mode.value,
        "graphs": {
            "FULL": resolution.graph_count(CUDAGraphMode.FULL),
            "PIECEWISE": resolution.graph_count(CUDAGraphMode.PIECEWISE),
            "total": resolution.graph_count(),
        },
        "capture_seconds": _seconds(made),
        "stages": [_stage(own) for own in budget.stages] if budget is not None else [],
        "alternatives": [_alternative(one) for one in bought],
        "findings": [asdict(finding) for finding in made.findings],
        "assumptions": list(assumptions),
        "not_modelled": [*made.not_modelled, *_doubts(made)],
        "sources": _sources(made, stage),
        "what_if": None,
        "compared_with": None,
    }


def bounds(value: Interval) -> dict[str, int]:
    return {"low": value.low, "best": value.best, "high": value.high}


def _seconds(made: CapacityPlan) -> dict[str, float] | None:
    found = capture_time(made)
    return None if found is None else {"low": found.low, "best": found.best, "high": found.high}


def _suggested(made: CapacityPlan) -> dict[str, int] | None:
    if made.budget is None:
        return None
    found = suggestion(made.budget, made.budget.tightest, made.deployment.vllm)
    return None if found is None else {f"{name}_bytes": value for name, value in found._asdict().items()}


def _other_runner(made: CapacityPlan) -> dict[str, Any] | None:
    found = other_runner(made)
    if found is None:
        return None
    parts = [{"part": name, "kv_bytes": size} for name, size in found.parts]
    return {**found._asdict(), "runner": found.runner.value, "parts": parts}


def _graph_parts(made: CapacityPlan) -> dict[str, dict[str, int]]:
    if made.graphs is None or made.request.known.graphs is not None:
        return {}
    return {name: bounds(part) for name, part in made.graphs.parts.items()}


def _doubts(made: CapacityPlan) -> tuple[str, ...]:
    return made.graphs.doubts if made.graphs is not None else ()


def _capacity(capacity: Capacity) -> dict[str, Any]:
    plan = capacity.plan
    return {
        "kv_bytes": list(capacity.kv_bytes),
        "num_gpu_blocks": plan.num_blocks if plan is not None else None,
        "kv_tokens": plan.tokens if plan is not None else None,
        "max_concurrency": plan.max_concurrency if plan is not None else None,
        "refusal": capacity.refusal.as_dict() if capacity.refusal is not None else None,
    }


def _groups(capacity: Capacity) -> list[dict[str, Any]]:
    if capacity.plan is None:
        return []
    return [
        {
            "spec": type(group.spec).__name__,
            "layers": len(group.layer_names),
            "block_size": group.spec.block_size,
            "blocks_per_request": group.blocks_per_request,
        }
        for group in capacity.plan.groups
    ]


def _stage(stage: StageBudget) -> dict[str, Any]:
    return {
        "weights_bytes": bounds(stage.weights),
        "activation_bytes": bounds(stage.activation),
        "non_torch_bytes": bounds(stage.non_torch),
        "buffer_bytes": bounds(stage.buffers),
        "buffers_are_counted": stage.counts_buffers,
        "deducted_bytes": bounds(stage.deducted),
        "graph_bytes": bounds(stage.graphs),
        "kv_bytes": bounds(stage.held),
        "unused_bytes": bounds(stage.unused),
    }


def outcome_document(found: Outcome) -> dict[str, Any]:
    """What becomes of a variant; a row of `what_if`."""
    return {OUTCOME_KEYS.get(key, key): value for key, value in found.as_dict().items()}


def _alternative(one: BuyBack) -> dict[str, Any]:
    return {
        "change": one.change,
        "cost": one.cost,
        "more_kv_bytes": one.kv_bytes,
        "more_kv_tokens": one.tokens,
        "freed_bytes": one.freed_bytes,
        **{key: value for key, value in outcome_document(one.outcome).items() if key != "name"},
    }


def _sources(made: CapacityPlan, stage: StageBudget | None) -> dict[str, str]:
    if made.budget is None or stage is None:
        return {"kv_bytes": "--kv-bytes"}
    estimate = vllm_estimate(made)
    found = {
        "total_bytes": made.budget.total.source,
        "free_bytes": made.budget.free.source,
        "requested_bytes": made.budget.requested.source,
        "weights_bytes": stage.weights.source,
        "activation_bytes": stage.activation.source,
        "non_torch_bytes": stage.non_torch.source,
        "buffer_bytes": stage.buffers.source,
        "graph_bytes": stage.graphs.source,
        "kv_bytes": stage.held.source,
    }
    time = capture_time(made)
    if time is not None:
        found["capture_seconds"] = time.basis
    if estimate is not None:
        found["graph_estimate_bytes"] = estimate.source
    return found
