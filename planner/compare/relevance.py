"""Whether a fact that changed can touch a deployment at all.

A fact is told from the outside, by its path: most hold for one GPU, one platform, one architecture or one feature. A
fact that this module knows nothing of counts as relevant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..deployment import Deployment
from .changes import FactChange

NAME_LISTS = (
    "architecture_releases",
    "names",
    "architectures",
    "pipeline.async_scheduling.methods",
    "pipeline.breakable.architectures",
    "pipeline.hooks",
    "pipeline.mamba.supports_all",
    "pipeline.parallel",
    "pipeline.runner.rocm_v1_architectures",
    "pipeline.runner.v2_architectures",
    "pipeline.runner.v2_methods",
    "pipeline.speculative.methods",
    "pipeline.speculative.mtp_aliases",
    "pipeline.speculative.target_hidden_states",
    "backends.settings",
    "backends.model",
)
"""Facts that are lists of names: one matters where a name that came or went is the deployment's."""


def is_relevant(change: FactChange, deployment: Deployment, backends: frozenset[str]) -> bool:
    """Whether `change` can touch `deployment`, whose attention runs in `backends`."""
    path, d = change.path, deployment
    if "rocm" in path and d.gpu.platform != "rocm":
        return False
    if path.startswith("backends.backend."):
        return path.split(".")[2] in backends
    if path == "backends.order":
        return any(_is_tried(row, d) for row in _changed_rows(change))
    if path.startswith("backends.mamba"):
        return bool(d.model.mamba_backends)
    if path.startswith(NAME_LISTS):
        return bool(_words(change) & _names(d))
    return all(holds(d, path) for prefix, holds in CONDITIONS.items() if path.startswith(prefix))


def _is_sm10(d: Deployment) -> bool:
    return d.gpu.major == 10 and d.gpu.platform == "cuda"


def _drafts(d: Deployment, path: str) -> bool:
    return d.speculative_config is not None


CONDITIONS: dict[str, Callable[[Deployment, str], bool]] = {
    "backends.unchecked": lambda d, _: max(d.decode_context_parallel_size, d.prefill_context_parallel_size) > 1,
    "pipeline.grid.platform_cap.sm10": lambda d, _: _is_sm10(d),
    "pipeline.grid.platform_cap.default": lambda d, _: not _is_sm10(d),
    "pipeline.grid.append_uniform_decode": _drafts,
    "pipeline.speculative": _drafts,
    "pipeline.downgrade.cuts_to_mamba_blocks": lambda d, _: bool(d.model.mamba_backends),
    "pipeline.downgrade.on_v2": lambda d, _: d.env.get("VLLM_USE_V2_MODEL_RUNNER") == "1",
    "pipeline.downgrade.rounds_shared_graphs": _drafts,
    "pipeline.drafter": _drafts,
    "pipeline.settings.SpeculativeConfig": _drafts,
    "pipeline.runner.v2_query_lens_as_given": _drafts,
    "pipeline.runner.v2_varlen_decode": _drafts,
    "pipeline.runner.varlen_bounded": _drafts,
    "pipeline.runner.v2_keeps_sizes": _drafts,
    "pipeline.runner.v2_manager_rounds_sizes": _drafts,
    "pipeline.runner.v2_lora_graphs": lambda d, _: d.enable_lora,
    "pipeline.runner.v2_pieces_hold_requests": lambda d, _: d.env.get("VLLM_USE_BREAKABLE_CUDAGRAPH") != "0",
    "pipeline.runner.v2_dense": lambda d, _: not d.model.is_moe,
    "pipeline.runner.v2_listed_hybrids": lambda d, _: d.model.is_hybrid,
    "pipeline.runner.v2_plain_only": lambda d, _: (
        d.model.is_moe or (d.quantization or d.model.quantization) is not None
    ),
    "pipeline.runner.forces_diffusion": lambda d, _: d.model.is_diffusion,
    "pipeline.runner.forces_prefill": lambda d, _: d.prefill_context_parallel_size > 1,
    "pipeline.mamba": lambda d, _: bool(d.model.mamba_backends),
    "pipeline.batch_invariant": lambda d, _: "VLLM_BATCH_INVARIANT" in d.env,
    "pipeline.breakable.for_batch_invariance": lambda d, _: "VLLM_BATCH_INVARIANT" in d.env,
    "pipeline.breakable.exists": lambda d, _: "VLLM_USE_BREAKABLE_CUDAGRAPH" in d.env,
    "pipeline.allreduce_fusion": lambda d, _: d.tensor_parallel_size > 1,
    "pipeline.allreduce_fusion.max_mib": lambda d, path: path.split(".")[3] == "{}{}".format(*d.gpu.capability),
    "pipeline.allreduce_fusion.world_sizes": lambda d, _: d.tensor_parallel_size > 8,
    "pipeline.allreduce_fusion.one_pipeline": lambda d, _: d.pipeline_parallel_size > 1,
    "pipeline.allreduce_fusion.one_data": lambda d, _: d.data_parallel_size > 1,
    "pipeline.allreduce_fusion.not_batch": lambda d, _: "VLLM_BATCH_INVARIANT" in d.env,
    "pipeline.async_scheduling.pipeline_on_v1": lambda d, _: d.pipeline_parallel_size > 1,
    "pipeline.splitting": lambda d, _: d.compilation_config.splitting_ops is not None,
    "pipeline.sequence_parallel": lambda d, _: d.tensor_parallel_size > 1,
    "memory.graph_estimate.platforms": lambda d, _: d.gpu.platform != "cuda",
    "memory.graph_estimate.v2_encoder_only": lambda d, _: d.compilation_config.cudagraph_mm_encoder,
}
"""Facts that matter under a condition: the beginning of the path, and the condition on the deployment and the path."""


def _changed_rows(change: FactChange) -> list[dict[str, Any]]:
    """Rows that only one side of a list of tables has."""
    before, after = change.before or [], change.after or []
    return [row for row in before if row not in after] + [row for row in after if row not in before]


def _is_tried(order: dict[str, Any], d: Deployment) -> bool:
    """Whether the automatic selection may go by this order of candidates; heads and dtypes are not looked at."""
    return (
        order.get("mla", d.model.use_mla) == d.model.use_mla
        and d.gpu.major in order.get("majors", [d.gpu.major])
        and (d.model.is_multimodal_model or not order.get("mm_prefix"))
        and (d.speculative_config is not None or d.model.is_diffusion or not order.get("non_causal"))
    )


def _words(change: FactChange) -> set[str]:
    """Names that only one side of the change has."""
    return _flat(change.before) ^ _flat(change.after)


def _flat(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_flat(item) for item in value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*(_flat(item) for item in value))
    return set(value.split()) if isinstance(value, str) else set()


def _names(d: Deployment) -> set[str]:
    """Names that a list may hold: of the model, the speculative method, dtypes and backends."""
    found = {*d.model.architectures, d.model.model_type or "", d.all2all_backend or "", d.kv_cache_dtype}
    found |= {d.quantization or "", d.model.quantization or ""}
    if d.speculative_config is not None:
        found |= {d.speculative_config.method or ""}
        if d.speculative_config.model is not None:
            found |= set(d.speculative_config.model.architectures)
    return found - {""}
