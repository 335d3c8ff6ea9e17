"""Sequence parallelism, a compiler pass of the releases up to 0.31: sizes are multiples of the tensor parallel size.

Source: vllm/config/vllm.py and vllm/compilation/passes/fusion/sequence_parallelism.py @ 0.31.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CUDAGraphMode

if TYPE_CHECKING:
    from .engine import Engine

PASS = Rule(
    "CG640",
    title="Sequence parallelism runs with tensor parallelism, on models wide enough for the GPU.",
    why="Its collectives pay off only for large activations.",
    example="enable_sp with --tensor-parallel-size 1, or a hidden size of 4096 on an H100: switched off.",
    instead="Leave enable_sp off, or set sp_min_token_num yourself.",
    source="vllm/config/vllm.py:1866-1895",
    until="0.31.0",
    release="0.31.0",
)
PASS_REMOVED = Rule(
    "CG641",
    title="Sequence parallelism was removed: enable_sp, fuse_gemm_comms and sp_min_token_num are no settings any more.",
    why="The pass was given up for others.",
    example="-cc.pass_config.enable_sp=true on 0.32.0 does not start.",
    instead="Drop the setting.",
    source="vllm/config/compilation.py",
    since="0.32.0",
    release="0.32.0",
)
NOT_BATCH_INVARIANT = Rule(
    "CG642",
    title="VLLM_BATCH_INVARIANT switches sequence parallelism off.",
    why="Its reductions add in another order.",
    example="VLLM_BATCH_INVARIANT=1 with enable_sp on 0.31.0: off, with a warning.",
    instead="Drop one of the two.",
    source="vllm/config/vllm.py:1728-1739",
    since="0.31.0",
    until="0.31.0",
    release="0.31.0",
)
SIZES = Rule(
    "CG643",
    title="With sequence parallelism only sizes that divide by the tensor parallel size are captured.",
    why="Each rank holds an equal share of the tokens.",
    example="enable_sp with --tensor-parallel-size 8: 1, 2 and 4 leave the grid.",
    instead="Name sizes that are multiples of the tensor parallel size.",
    source="vllm/config/vllm.py:2595-2608",
    until="0.31.0",
    release="0.31.0",
)
NOT_SPLIT = Rule(
    "CG644",
    title="Sequence parallelism without Inductor partition leaves the model uncut, so the mode becomes FULL.",
    why="Its pattern spans attention, so the pieces have to be one graph.",
    example="enable_sp with the default mode: splitting_ops [] and FULL.",
    instead="Set use_inductor_graph_partition, or leave enable_sp off.",
    source="vllm/config/compilation.py:1217-1240",
    since="0.20.2",
    until="0.31.0",
    release="0.31.0",
)
MULTIPLES = Rule(
    "CG645",
    title="With sequence parallelism and drafts, sizes must be multiples of both numbers.",
    why="One list serves decode batches and the pass.",
    example="2 draft tokens and --tensor-parallel-size 4 do not start on runner V1: 4 is no multiple of 3.",
    instead="Choose 1 + num_speculative_tokens that divides the tensor parallel size, or the other way round.",
    source="vllm/config/compilation.py:1533-1552",
    until="0.31.0",
    release="0.31.0",
)
RMS_NORM = Rule(
    "CG646",
    title="Sequence parallelism over pipeline stages needs the custom RMSNorm op.",
    why="The pass matches that op.",
    example="enable_sp with --pipeline-parallel-size 2: +rms_norm joins custom_ops.",
    instead="Nothing to do.",
    source="vllm/config/vllm.py:2124-2140",
    until="0.31.0",
    release="0.31.0",
)

FIELDS = ("enable_sp", "fuse_gemm_comms", "sp_min_token_num")
MIB = 1 << 20
ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def check_fields(engine: Engine) -> None:
    """Refuse the pass's settings where it is gone."""
    given = engine.deployment.compilation_config.pass_config
    named = [name for name in FIELDS if getattr(given, name) is not None]
    if named and engine.has(PASS_REMOVED):
        raise StartupError(
            f"{' and '.join(named)}: this release has no sequence parallelism",
            code=PASS_REMOVED.code,
            raised_in="CompilationConfig",
            where=f"compilation_config.pass_config.{named[0]}",
            fix=PASS_REMOVED.instead,
        )


def drop_for_batch_invariance(engine: Engine) -> None:
    """Before breakable graphs are looked at."""
    if engine.has(NOT_BATCH_INVARIANT) and engine.batch_invariant and is_asked(engine):
        _switch_off(engine, NOT_BATCH_INVARIANT)


def is_asked(engine: Engine) -> bool:
    return bool(engine.passes.get("enable_sp") or engine.passes.get("fuse_gemm_comms"))


def is_on(engine: Engine) -> bool:
    """The pass runs and pads batches."""
    return bool(engine.passes.get("enable_sp")) and engine.deployment.tensor_parallel_size > 1


def settle(engine: Engine) -> None:
    """Whether the pass runs, and from how many tokens on."""
    if not engine.has(PASS):
        return
    if engine.passes.get("fuse_gemm_comms"):
        engine.passes["enable_sp"] = True
    if not engine.passes.get("enable_sp"):
        return
    if engine.deployment.tensor_parallel_size == 1:
        _switch_off(engine, PASS)
        return
    if engine.sp_min_token_num is None:
        engine.sp_min_token_num = threshold(engine)
    if engine.sp_min_token_num is None:
        _switch_off(engine, PASS)


def threshold(engine: Engine) -> int | None:
    """Fewest tokens of a step that the pass takes; None: it does not run for this model or GPU."""
    d, facts = engine.deployment, engine.facts["sequence_parallel"]
    if d.gpu.platform == "xpu":
        narrowest, mib = facts["xpu"]
    else:
        major, minor = d.gpu.capability
        policy = facts["policy"].get("100" if major == 10 else f"{major}{minor}")
        if policy is None or d.gpu.platform != "cuda":
            return None
        narrowest, mib = policy
    hidden = d.model.hidden_size
    if hidden < narrowest:
        return None
    return int(mib * MIB * d.tensor_parallel_size // (hidden * ELEMENT_BYTES[engine.dtype]))


def range_end(engine: Engine) -> int | None:
    """Where a compile range ends because the pass begins, or None."""
    if not engine.passes.get("enable_sp"):
        return None
    if engine.sp_min_token_num is None:
        engine.sp_min_token_num = threshold(engine)
    fewest = engine.sp_min_token_num
    return fewest - 1 if fewest is not None and 1 < fewest < engine.max_num_batched_tokens else None


def unsplit(engine: Engine) -> None:
    """The pass spans attention: without Inductor partition nothing is cut."""
    if not engine.has(NOT_SPLIT) or engine.use_inductor_graph_partition or not is_asked(engine):
        return
    if engine.splitting_ops:
        engine.set(NOT_SPLIT, "splitting_ops", [])
        if engine.graph_mode.has_piecewise:
            engine.set(NOT_SPLIT, "cudagraph_mode", CUDAGraphMode.FULL)


def add_rms_norm(engine: Engine) -> None:
    """The op that the pass matches, where the model is cut between stages."""
    if not engine.passes.get("enable_sp"):
        return
    cut = engine.deployment.pipeline_parallel_size > 1
    if engine.facts["sequence_parallel"]["norm_when_split"]:
        cut = cut or not (engine.use_inductor_graph_partition or not engine.splitting_ops)
    if cut and "-rms_norm" not in engine.custom_ops:
        engine.set(RMS_NORM, "custom_ops", [*engine.custom_ops, "+rms_norm"])


def common_multiple(engine: Engine, query_len: int, stage: str) -> int:
    """What capture sizes are rounded to where they are: whole requests, and whole shares of each rank.

    Raises:
        StartupError: CG645.
    """
    tp = engine.deployment.tensor_parallel_size
    if not is_on(engine):
        return query_len
    multiple = max(query_len, tp)
    if multiple % query_len or multiple % tp:
        raise StartupError(
            f"no size is a multiple of both the decode query length {query_len} and tensor parallel size {tp}",
            code=MULTIPLES.code,
            stage=stage,
            raised_as="ValueError",
            raised_in="CompilationConfig",
            where="compilation_config.pass_config.enable_sp",
            fix=MULTIPLES.instead,
        )
    return multiple


def _switch_off(engine: Engine, rule: Rule) -> None:
    engine.passes["enable_sp"] = engine.passes["fuse_gemm_comms"] = False
    engine.trace.decide(rule, "pass_config.enable_sp", True, False)
