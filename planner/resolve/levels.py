"""Optimisation levels -O0 to -O3: what they fill in where the user said nothing.

Source: vllm/config/vllm.py:132-347, 1023-1067, 1827-1855 @ 0.33.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode
from . import sequence_parallel

if TYPE_CHECKING:
    from .engine import Engine

LEVEL_MODE = Rule(
    "CG201",
    title="The optimisation level sets the compilation mode: NONE at -O0, VLLM_COMPILE above.",
    why="-O0 starts fastest; everything above pays for torch.compile.",
    example="-O0: compilation mode NONE.",
    instead="Set -cc.mode.",
    source="vllm/config/vllm.py:1827-1831",
)
LEVEL_CUDAGRAPHS = Rule(
    "CG202",
    title="The optimisation level sets the CUDA graph mode: NONE, PIECEWISE, or FULL_AND_PIECEWISE from -O2 on.",
    why="More graphs take longer to capture and save more at run time.",
    example="-O1: PIECEWISE. The default, -O2: FULL_AND_PIECEWISE.",
    instead="Set -cc.cudagraph_mode.",
    source="vllm/config/vllm.py:257-347",
)
PARTITION_TORCH = Rule(
    "CG238",
    title="Inductor partition needs torch 2.9.",
    why="Older compilers cannot cut the graph after fusion.",
    example="use_inductor_graph_partition with torch 2.8.0 does not start.",
    instead="Leave use_inductor_graph_partition off, or update torch.",
    source="vllm/config/compilation.py:1004-1012",
)
FUSIONS = Rule(
    "CG219",
    title="The optimisation level switches fusion passes on where their condition holds.",
    why="A fusion helps only where the fused kernels exist.",
    example="--tensor-parallel-size 2 on an H100 with FlashInfer: all-reduce and RMSNorm are fused.",
    instead="Set the flag in -cc.pass_config.",
    source="vllm/config/vllm.py:156-255",
)
CUSTOM_OPS = Rule(
    "CG220",
    title="custom_ops gets the base mode none under Inductor and all elsewhere.",
    why="Inductor generates better code than single custom kernels; eager code has only them.",
    example="-O0: custom_ops = [all].",
    instead="Name all or none in -cc.custom_ops.",
    source="vllm/config/vllm.py:1840-1848",
)
CUSTOM_OPS_INVALID = Rule(
    "CG226",
    title="custom_ops holds all, none, +op and -op, one base mode, and no op both ways.",
    why="Anything else has no meaning.",
    example='-cc.custom_ops=\'["all", "none"]\' does not start.',
    instead="Keep one base mode and one sign for each op.",
    source="vllm/config/compilation.py:1014-1034",
)
COMPILE_BACKEND = Rule(
    "CG223",
    title="VLLM_COMPILE works with the backends eager and inductor.",
    why="Piecewise compilation hooks into these two.",
    example="-cc.backend=cudagraphs does not start.",
    instead="Leave -cc.backend unset.",
    source="vllm/config/compilation.py:1036-1046",
)

ROCM_FUSIONS = Rule(
    "CG232",
    title="Fusions that only AITER has are switched off elsewhere.",
    why="Their fused kernels exist on ROCm alone.",
    example="-cc.pass_config.fuse_rope_kvcache=true on CUDA: off, with a warning.",
    instead="Leave them unset.",
    source="vllm/config/compilation.py, PassConfig.__post_init__",
)

MIB = 1 << 20
ROCM_ONLY = ("fuse_act_padding", "fuse_mla_dual_rms_norm", "fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache")


def _is_at_least(version: str, least: str) -> bool:
    """Whether `version` is `least` or later; one that cannot be read is taken for a build of now."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) >= Version(least)
    except InvalidVersion:
        return True


def check_compilation(engine: Engine) -> None:
    """CompilationConfig's own checks; they come before anything else (compilation.py:1004-1046)."""
    sequence_parallel.check_fields(engine)
    torch = engine.deployment.software.torch_version
    if engine.use_inductor_graph_partition and not _is_at_least(torch, "2.9.0.dev0"):
        raise StartupError(
            f"use_inductor_graph_partition needs torch 2.9.0, and torch is {torch[:40]}",
            code=PARTITION_TORCH.code,
            raised_in="CompilationConfig",
            where="compilation_config.use_inductor_graph_partition",
            fix=PARTITION_TORCH.instead,
        )
    given = engine.deployment.compilation_config.pass_config
    for name in ("fuse_attn_quant", *sequence_parallel.FIELDS[:2], *ROCM_ONLY):
        asked = getattr(given, name)
        if asked is not None:
            engine.passes[name] = asked
    _drop_rocm_fusions(engine)
    passes = engine.passes
    rotary = (
        given.enable_qk_norm_rope_fusion,
        passes.get("fuse_rope_kvcache"),
        passes.get("fuse_qk_norm_rope_kvcache"),
    )
    if any(rotary) and "+rotary_embedding" not in engine.custom_ops:
        engine.custom_ops.append("+rotary_embedding")
    ops = engine.custom_ops
    bad = next((op for op in ops if op not in ("all", "none") and not re.fullmatch(r"[+-].+", op)), None)
    both = {op[1:] for op in ops if op[0] == "+"} & {op[1:] for op in ops if op[0] == "-"} if bad is None else set()
    problem = None
    if bad is not None:
        problem = f"custom op {bad[:40]!r} is none of all, none, +op, -op"
    elif sum(op in ("all", "none") for op in ops) > 1:
        problem = "custom_ops has more than one base mode"
    elif both:
        problem = f"custom_ops switches {', '.join(sorted(both))} both on and off"
    if problem is not None:
        _refuse(CUSTOM_OPS_INVALID, problem, "compilation_config.custom_ops")
    if engine.mode is CompilationMode.VLLM_COMPILE and engine.backend not in ("", "eager", "inductor"):
        what = f"VLLM_COMPILE does not work with backend {engine.backend[:40]}"
        _refuse(COMPILE_BACKEND, what, "compilation_config.backend")


def _drop_rocm_fusions(engine: Engine) -> None:
    if engine.deployment.gpu.platform == "rocm":
        return
    for name in ROCM_ONLY:
        if engine.passes.get(name):
            engine.passes[name] = False
            engine.trace.decide(ROCM_FUSIONS, f"pass_config.{name}", True, False)


def apply_mode(engine: Engine) -> None:
    """Step 3.6, and the base mode of custom_ops that follows from it."""
    _enable_quant_fp8(engine)
    if engine.mode is None:
        compiles = engine.facts["levels"]["compiles"][engine.optimization_level]
        engine.set(LEVEL_MODE, "mode", CompilationMode.VLLM_COMPILE if compiles else CompilationMode.NONE)
    if "all" not in engine.custom_ops and "none" not in engine.custom_ops:
        inductor = engine.backend == "inductor" and engine.mode is not CompilationMode.NONE
        engine.set(CUSTOM_OPS, "custom_ops", [*engine.custom_ops, "none" if inductor else "all"])


def apply_level(engine: Engine) -> None:
    """Step 3.7: pass_config and cudagraph_mode where unset."""
    level = engine.optimization_level
    given = engine.deployment.compilation_config.pass_config
    for name, condition in FUSION_CONDITIONS.items():
        asked = engine.passes.get(name, getattr(given, name))
        if asked is not None:
            engine.passes[name] = asked
            continue
        value = level > 0 and (level > 1 or name in FUSIONS_AT_O1) and condition(engine)
        engine.passes[name] = value
        if value:
            engine.trace.decide(FUSIONS, f"pass_config.{name}", None, True)
    if engine.facts["levels"]["sequence_parallel_passes"]:
        for name in sequence_parallel.FIELDS[:2]:
            engine.passes.setdefault(name, False)
    if engine.cudagraph_mode is None:
        mode = CUDAGraphMode(engine.facts["levels"]["cudagraph_mode"][level])
        engine.set(LEVEL_CUDAGRAPHS, "cudagraph_mode", mode)


def enable_quant_fp8_again(engine: Engine) -> None:
    """vLLM appends the op a second time at the end of its start (vllm.py:2318-2326)."""
    _enable_quant_fp8(engine)


def _enable_quant_fp8(engine: Engine) -> None:
    if engine.deployment.model.weight_block_quantized and "-quant_fp8" not in engine.custom_ops:
        engine.custom_ops.append("+quant_fp8")


def _on(engine: Engine, op: str) -> bool:
    """CompilationConfig.is_custom_op_enabled."""
    if "all" in engine.custom_ops:
        return f"-{op}" not in engine.custom_ops
    return f"+{op}" in engine.custom_ops


def _norm_quant(engine: Engine) -> bool:
    inductor = engine.backend == "inductor" and engine.mode is not CompilationMode.NONE
    if not engine.facts["levels"]["norm_priority"]:
        return _on(engine, "rms_norm") or _on(engine, "quant_fp8")
    oink = engine.deployment.env.get("VLLM_USE_OINK_OPS", "").lower() in ("true", "1")
    return _on(engine, "rms_norm") or _on(engine, "quant_fp8") or oink or not inductor


def _act_quant(engine: Engine) -> bool:
    nvfp4 = engine.deployment.model.is_nvfp4_quantized
    return _on(engine, "silu_and_mul") or _on(engine, "quant_fp8") or nvfp4


def _allreduce_rms(engine: Engine) -> bool:
    d, facts = engine.deployment, engine.facts["allreduce_fusion"]
    return (
        not (facts["not_batch_invariant"] and engine.batch_invariant)
        and not (facts["one_pipeline_stage"] and d.pipeline_parallel_size > 1)
        and not (facts["one_data_parallel_rank"] and d.data_parallel_size > 1)
        and d.tensor_parallel_size > 1
        and d.gpu.platform == "cuda"
        and d.software.flashinfer
        and (d.gpu.major == 10 or d.gpu.capability == (9, 0))
    )


def _rope_cat_mla(engine: Engine) -> bool:
    if engine.use_inductor_graph_partition:
        return True
    if engine.splitting_ops is None:
        return bool(engine.passes.get("fuse_attn_quant"))
    return not all(op in engine.splitting_ops for op in engine.facts["splitting"]["kv_cache_update_ops"])


def _never(_: Engine) -> bool:
    """Off at every level, or only on ROCm with AITER, which is not modelled."""
    return False


# In vLLM's order: a condition may look at the passes before it.
FUSION_CONDITIONS: dict[str, Callable[[Engine], bool]] = {
    "fuse_norm_quant": _norm_quant,
    "fuse_act_quant": _act_quant,
    "fuse_allreduce_rms": _allreduce_rms,
    "fuse_attn_quant": _never,
    "fuse_act_padding": _never,
    "fuse_mla_dual_rms_norm": _never,
    "fuse_rope_kvcache": _never,
    "fuse_qk_norm_rope_kvcache": _never,
    "enable_qk_norm_rope_fusion": _never,
    "fuse_rope_kvcache_cat_mla": _rope_cat_mla,
}
FUSIONS_AT_O1 = ("fuse_norm_quant", "fuse_act_quant", "fuse_act_padding", "fuse_mla_dual_rms_norm")


def _refuse(rule: Rule, what: str, where: str) -> None:
    raise StartupError(what, code=rule.code, raised_in="CompilationConfig", where=where, fix=rule.instead)
