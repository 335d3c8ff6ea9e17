"""Which rule goes by which fact: the path of a fact in planner/releases/*.toml, or its beginning, and a code."""

from __future__ import annotations

CODES = {
    "architecture_releases": "CG137",
    "architectures": "CG913",
    "backends": "CG301",
    "backends.kv_dtypes": "CG301",
    "backends.model": "CG327",
    "backends.order": "CG301",
    "backends.own": "CG327",
    "backends.settings": "CG307",
    "backends.settings.sm10_kv_fp8_e4m3": "CG306",
    "backends.settings.sm10_sparse_kv_fp8": "CG306",
    "backends.settings.rswa": "CG344",
    "backends.unchecked": "CG301",
    "budget.requested": "CG505",
    "config_fields": "CG901",
    "memory.graph_estimate": "CG502",
    "memory.graph_estimate.v2": "CG503",
    "names.kv_cache_dtype": "CG138",
    "names.quantization": "CG139",
    "pipeline.allreduce_fusion": "CG219",
    "pipeline.allreduce_fusion.max_mib": "CG127",
    "pipeline.async_scheduling": "CG802",
    "pipeline.batch_invariant": "CG205",
    "pipeline.batch_limits": "CG101",
    "pipeline.batch_limits.batched_dp_moe_tokens": "CG102",
    "pipeline.breakable": "CG205",
    "pipeline.downgrade.cuts_to_mamba_blocks": "CG501",
    "pipeline.downgrade.on_v2": "CG330",
    "pipeline.downgrade.rounds_shared_graphs": "CG401",
    "pipeline.drafter": "CG415",
    "pipeline.drafter.later_passes_follow_tiers": "CG426",
    "pipeline.grid.append_batched_tokens": "CG113",
    "pipeline.grid.append_off_grid": "CG111",
    "pipeline.grid.append_uniform_decode": "CG110",
    "pipeline.grid.platform_cap": "CG108",
    "pipeline.hooks": "CG307",
    "pipeline.hooks.block_diffusion": "CG217",
    "pipeline.hooks.extra_splitting_op": "CG225",
    "pipeline.hooks.max_capture_size": "CG215",
    "pipeline.hooks.rejects_mixed_full": "CG221",
    "pipeline.hooks.uncompiled_full": "CG216",
    "pipeline.hooks.v2_only": "CG637",
    "pipeline.kv_connectors": "CG209",
    "pipeline.levels": "CG219",
    "pipeline.levels.cudagraph_mode": "CG202",
    "pipeline.levels.compiles": "CG201",
    "pipeline.levels.sequence_parallel_passes": "CG641",
    "pipeline.mamba": "CG134",
    "pipeline.parallel": "CG603",
    "pipeline.parallel.batched_dp_moe": "CG102",
    "pipeline.parallel.sequence_parallel_moe": "CG613",
    "pipeline.runner": "CG609",
    "pipeline.runner.checks": "CG610",
    "pipeline.runner.v2_keeps_sizes": "CG401",
    "pipeline.runner.v2_lora_graphs": "CG413",
    "pipeline.runner.v2_manager_rounds_sizes": "CG401",
    "pipeline.runner.v2_measures_prefills": "CG702",
    "pipeline.runner.v2_methods": "CG627",
    "pipeline.runner.v2_pieces_hold_requests": "CG702",
    "pipeline.runner.v2_prefills_may_be_uniform": "CG702",
    "pipeline.runner.v2_query_lens_as_given": "CG421",
    "pipeline.runner.v2_shared_candidates": "CG702",
    "pipeline.runner.v2_varlen_decode": "CG411",
    "pipeline.runner.varlen_bounded": "CG411",
    "pipeline.sequence_parallel": "CG640",
    "pipeline.sequence_parallel.norm_when_split": "CG646",
    "pipeline.settings.SpeculativeConfig": "CG425",
    "pipeline.speculative": "CG416",
    "pipeline.speculative.adaptive_needs_full": "CG410",
    "pipeline.speculative.aux_hidden_states": "CG424",
    "pipeline.speculative.counts_canvas": "CG217",
    "pipeline.speculative.multi_module_mtp": "CG417",
    "pipeline.speculative.scheduled_positive": "CG407",
    "pipeline.speculative.v1_dynamic": "CG404",
    "pipeline.splitting": "CG212",
}


LEVEL = "CG320"
"""Goes by the `level` of every backend."""


def code_of(path: str) -> str | None:
    """The rule that goes by the fact at `path`: the longest beginning counts.

    None where no beginning of it is listed. Such a fact is passed over; a test of this room lets none slip in.
    """
    if path.startswith("backends.") and path.endswith(".level"):
        return LEVEL
    best = max((known for known in CODES if path.startswith(known)), key=len, default=None)
    return None if best is None else CODES[best]
