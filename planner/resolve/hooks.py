"""What a model's architecture changes: hooks, and breakable CUDA graphs.

Source: vllm/model_executor/models/config.py, vllm/config/vllm.py:77-129, 806-870 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode
from . import mamba

if TYPE_CHECKING:
    from .engine import Engine

LARGER_MAXIMUM = Rule(
    "CG215",
    title="gpt-oss raises the largest capture size to 1024 where the user named no size.",
    why="Its decode batches are large, and graphs pay off there.",
    example="gpt-oss on an H100: 83 sizes. max_num_seqs off the grid is not appended, since the maximum is named.",
    instead="Set --max-cudagraph-capture-size.",
    source="vllm/model_executor/models/config.py:525-562",
)
UNCOMPILED_FULL = Rule(
    "CG216",
    title="LongCat Flash N-gram defaults to no compilation and FULL graphs.",
    why="Its n-gram embeddings are wired for FULL capture only.",
    example="LongcatFlashNgramForCausalLM: compilation NONE, FULL.",
    instead="Set -cc.mode and -cc.cudagraph_mode.",
    source="vllm/model_executor/models/config.py:1194-1208",
    since="0.27.1",
)
BLOCK_DIFFUSION = Rule(
    "CG217",
    title="Block-diffusion Gemma lowers max_num_seqs to 8 when it is 128 or more.",
    why="Its sampler holds a whole vocabulary row for each canvas token of each sequence.",
    example="DiffusionGemmaForBlockDiffusion with the default 1024 sequences: 8.",
    instead="Set --max-num-seqs below 128.",
    source="vllm/model_executor/models/config.py:396-464",
)
BREAKABLE = Rule(
    "CG205",
    title="Breakable CUDA graphs capture PIECEWISE without torch.compile, so compilation is switched off.",
    why="Some models cannot be compiled as a whole; their graphs are cut by hand at attention.",
    example="DeepseekV32ForCausalLM: compilation NONE, and PIECEWISE stays possible.",
    instead="Nothing, for a model that cannot be compiled as a whole: the graphs stay, and what the compiler would have"
    " fused is the cost. Where it compiles, VLLM_USE_BREAKABLE_CUDAGRAPH=0 chooses the compiler and a longer start.",
    source="vllm/config/vllm.py:842-870",
)
REJECTS_MIXED_FULL = Rule(
    "CG221",
    title="Voxtral realtime refuses FULL graphs for mixed batches.",
    why="Its encoder attention can be captured for uniform single-token decode only.",
    example="VoxtralRealtimeGeneration with cudagraph_mode FULL does not load.",
    instead="Use FULL_DECODE_ONLY or FULL_AND_PIECEWISE.",
    source="vllm/model_executor/models/voxtral_realtime.py:253-257",
)
EXTRA_SPLITTING_OP = Rule(
    "CG225",
    title="Bailing MoE V3 adds its KDA attention op to splitting_ops.",
    why="Its linear attention must stay outside the piecewise graphs as well.",
    example="BailingMoeV3ForCausalLM: one more splitting op.",
    instead="Nothing to do.",
    source="vllm/model_executor/models/bailing_moe_v3.py:785-790",
)


def apply_architecture(engine: Engine) -> None:
    """Step 3.1: the hooks that touch graphs, or refuse to start."""
    hooks = engine.facts["hooks"]
    model = engine.deployment.model
    architecture = model.architecture
    mamba.check_prefix_caching(engine)
    unsized = engine.cudagraph_capture_sizes is None and engine.max_cudagraph_capture_size is None
    if architecture in hooks["max_capture_size"] and unsized:
        engine.set(LARGER_MAXIMUM, "max_cudagraph_capture_size", hooks["max_capture_size"][architecture])
    if architecture in hooks["uncompiled_full"] and engine.has(UNCOMPILED_FULL):
        if engine.mode is None:
            engine.set(UNCOMPILED_FULL, "mode", CompilationMode.NONE)
        if engine.cudagraph_mode is None:
            engine.set(UNCOMPILED_FULL, "cudagraph_mode", CUDAGraphMode.FULL)
    generic = engine.facts["batch_limits"]["other_context"][1]
    if architecture in hooks["block_diffusion"] and engine.max_num_seqs >= generic:
        engine.set(BLOCK_DIFFUSION, "max_num_seqs", hooks["block_diffusion_seqs"])


def apply_breakable(engine: Engine) -> None:
    """Step 3.4: whether graphs are cut by hand instead of by the compiler."""
    if engine.breakable_env is None:
        why = _breakable_by_default(engine)
        if why is not None:
            engine.set(BREAKABLE, "breakable", True, why)
            engine.breakable_env = "1"
    if engine.breakable:
        engine.set(BREAKABLE, "mode", CompilationMode.NONE)


def check_mixed_full(engine: Engine, mode: CUDAGraphMode) -> None:
    """A model may assert on the mode when it is loaded; `mode` is the configured one."""
    if engine.deployment.model.architecture not in engine.facts["hooks"]["rejects_mixed_full"]:
        return
    if mode.mixed_mode is CUDAGraphMode.FULL:
        raise StartupError(
            "this model has FULL graphs for decode batches only",
            code=REJECTS_MIXED_FULL.code,
            stage="load_model",
            raised_as="AssertionError",
            raised_in="VoxtralRealtimeGeneration",
            where="-cc.cudagraph_mode",
            fix=REJECTS_MIXED_FULL.instead,
        )


def add_splitting_op(engine: Engine) -> None:
    """Models that name a splitting op of their own when they are built."""
    op = engine.facts["hooks"]["extra_splitting_op"].get(engine.deployment.model.architecture)
    if op is not None and engine.splitting_ops is not None and op not in engine.splitting_ops:
        engine.set(EXTRA_SPLITTING_OP, "splitting_ops", [*engine.splitting_ops, op])


def _breakable_by_default(engine: Engine) -> str | None:
    """Why breakable graphs turn themselves on, or None."""
    facts = engine.facts["breakable"]
    history = "rocm_architectures" if engine.deployment.gpu.platform == "rocm" else "architectures"
    known = facts[history]
    for architecture in engine.deployment.model.architectures:
        if architecture in known:
            return f"{architecture} defaults to breakable CUDA graphs."
    if facts["for_batch_invariance"] and _batch_invariant_layer(engine):
        return "A linear layer has a batch-invariant tile table, which breakable graphs look up at capture."
    return None


def _batch_invariant_layer(engine: Engine) -> bool:
    """Whether a linear layer of a rank has a tuned batch-invariant tile table (vllm.py:806-840)."""
    d, model = engine.deployment, engine.deployment.model
    if (
        not engine.batch_invariant
        or d.enforce_eager
        or engine.dtype != "bfloat16"
        or (d.quantization or model.quantization) is not None
        or d.gpu.platform != "cuda"
    ):
        return False
    tables = engine.facts["batch_invariant"]
    family = {12: "sm120", 10: "blackwell", 9: "hopper"}.get(d.gpu.major)
    if d.gpu.capability == (8, 9):
        family = "ada"
    if family is None:
        return False
    tp, hidden, head = d.tensor_parallel_size, model.hidden_size, model.head_size
    heads = model.num_attention_heads // tp
    kv_heads = max(1, model.num_kv_heads // tp)
    shapes = [[(heads + 2 * kv_heads) * head, hidden], [hidden, heads * head]]
    if model.intermediate_size is not None:
        inner = model.intermediate_size
        shapes += [[2 * inner // tp, hidden], [hidden, inner // tp]]
    return any(shape in row["shapes"] for row in tables[family] for shape in shapes)
