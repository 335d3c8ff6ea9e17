"""splitting_ops: where the compiler cuts the model, and what that does to the mode.

Source: vllm/config/compilation.py:1162-1317 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode
from . import sequence_parallel
from .parallel import apply_deepep

if TYPE_CHECKING:
    from .engine import Engine

DEFAULT_OPS = Rule(
    "CG212",
    title="The compiler cuts the model at every attention op; without Inductor partition also at KV cache updates.",
    why="PIECEWISE graphs hold what lies between attention calls.",
    example="Default: all attention ops, unified_kv_cache_update and unified_mla_kv_cache_update.",
    instead="Name the ops in -cc.splitting_ops.",
    source="vllm/config/compilation.py:1204-1232",
)
ATTENTION_QUANT = Rule(
    "CG213",
    title="fuse_attn_quant without Inductor partition leaves the model uncut, so the mode becomes FULL.",
    why="Attention and quantisation can fuse only inside one compiled graph.",
    example="-cc.pass_config.fuse_attn_quant=true with the default mode: splitting_ops [] and FULL.",
    instead="Set use_inductor_graph_partition, or leave fuse_attn_quant off.",
    source="vllm/config/compilation.py:1291-1316",
)
ATTENTION_QUANT_SPLIT = Rule(
    "CG230",
    title="fuse_attn_quant excludes attention ops in splitting_ops.",
    why="A cut at attention would undo the fusion.",
    example="fuse_attn_quant with the default ops named in splitting_ops does not start.",
    instead="Leave splitting_ops unset, or set use_inductor_graph_partition.",
    source="vllm/config/compilation.py:1312-1316",
)
NOT_SPLIT = Rule(
    "CG214",
    title="Empty splitting_ops leave no pieces: PIECEWISE becomes NONE, FULL_AND_PIECEWISE becomes FULL.",
    why="Without a cut the whole model is one graph.",
    example="-cc.splitting_ops='[]' with the default mode: FULL.",
    instead="Leave splitting_ops unset.",
    source="vllm/config/compilation.py:1233-1264",
)
PARTLY_SPLIT = Rule(
    "CG231",
    title="A splitting_ops list counts as cutting attention only if it names every attention op of the release.",
    why="vLLM checks the whole list, whatever ops the model uses.",
    example="splitting_ops with unified_attention_with_output alone: runner V1 refuses PIECEWISE modes.",
    instead="Leave splitting_ops unset, or name all ops.",
    source="vllm/config/compilation.py:1273-1276",
)


def apply(engine: Engine) -> None:
    """Step 3.25: fill in splitting_ops and adjust the mode."""
    if engine.mode is not CompilationMode.VLLM_COMPILE:
        if engine.splitting_ops is None:
            engine.splitting_ops = []
        return
    if engine.passes.get("fuse_attn_quant") and not engine.use_inductor_graph_partition:
        _fuse_attention(engine)
    elif engine.splitting_ops is None:
        _default_ops(engine)
    elif not engine.splitting_ops:
        mode = engine.graph_mode
        if mode is CUDAGraphMode.PIECEWISE:
            engine.set(NOT_SPLIT, "cudagraph_mode", CUDAGraphMode.NONE)
        elif mode is CUDAGraphMode.FULL_AND_PIECEWISE:
            engine.set(NOT_SPLIT, "cudagraph_mode", CUDAGraphMode.FULL)
    sequence_parallel.unsplit(engine)
    apply_deepep(engine)


def contains_attention(engine: Engine) -> bool:
    """Every attention op of the release is a splitting op."""
    ops = engine.splitting_ops
    return ops is not None and bool(ops) and set(engine.attention_ops).issubset(ops)


def is_attention_compiled_piecewise(engine: Engine) -> bool:
    """CompilationConfig.is_attention_compiled_piecewise."""
    if not contains_attention(engine):
        return False
    if not engine.use_inductor_graph_partition:
        return engine.mode is CompilationMode.VLLM_COMPILE
    return engine.backend == "inductor" and engine.mode is not CompilationMode.NONE


def _default_ops(engine: Engine) -> None:
    ops = list(engine.attention_ops)
    if not engine.use_inductor_graph_partition:
        # These two fusions need the cache update inside the compiled graph.
        for name in ("fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache"):
            if engine.passes.get(name):
                engine.passes[name] = False
                engine.trace.decide(DEFAULT_OPS, f"pass_config.{name}", True, False)
        ops += engine.facts["splitting"]["kv_cache_update_ops"]
    engine.splitting_ops = ops
    engine.trace.decide(DEFAULT_OPS, "splitting_ops", None, f"{len(ops)} ops")


def _fuse_attention(engine: Engine) -> None:
    if engine.splitting_ops is None:
        engine.set(ATTENTION_QUANT, "splitting_ops", [])
        if engine.graph_mode.has_piecewise:
            engine.set(ATTENTION_QUANT, "cudagraph_mode", CUDAGraphMode.FULL)
    if contains_attention(engine):
        raise StartupError(
            "fuse_attn_quant does not work with attention ops in splitting_ops",
            code=ATTENTION_QUANT_SPLIT.code,
            where="compilation_config.splitting_ops",
            fix=ATTENTION_QUANT_SPLIT.instead,
        )
