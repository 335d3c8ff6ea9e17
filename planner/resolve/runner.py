"""Which model runner serves the deployment, V1 or V2.

Source: vllm/config/vllm.py:730-767, 3053-3151, 3222-3337 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError, StartupError
from ..trace import Rule
from ..vocabulary import CUDAGraphMode, Runner

if TYPE_CHECKING:
    from .engine import Engine

CHOICE = Rule(
    "CG609",
    title="Runner V2 serves every model unless the environment, a missing Triton or an unsupported feature says V1.",
    why="V2 is the newer runner; a few features exist in one of the two only.",
    example="Suffix decoding: V1, with a warning.",
    instead="Set VLLM_USE_V2_MODEL_RUNNER to 0 or 1.",
    source="vllm/config/vllm.py:730-767",
    since="0.29.0",
)
UNSUPPORTED = Rule(
    "CG610",
    title="A runner that was chosen must support every feature asked for.",
    why="There is no falling back once the choice is forced.",
    example="VLLM_USE_V2_MODEL_RUNNER=0 with adaptive verification does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3324-3337",
)

ASYNC_SCHEDULING = Rule(
    "CG802",
    title="Async scheduling is on unless the model pools or runner V1 has a feature that excludes it.",
    why="The next step is prepared while the GPU works; some V1 proposers need its result first.",
    example="n-gram drafts on runner V1: off, with a warning; --async-scheduling as well does not start.",
    instead="Use runner V2, or --no-async-scheduling.",
    source="vllm/config/vllm.py:1650-1730",
)

ASYNC_V1_METHODS = ("eagle", "eagle3", "extract_hidden_states", "mtp", "dflash", "dspark", "ngram_gpu", "draft_model")
XPRESS = ("Qwen3XPressModel", "DFlashQwen3XPressModel")
DFLASH_CANDIDATE_HEADS = ("DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel")


def forced_by_environment(engine: Engine) -> bool | None:
    """VLLM_USE_V2_MODEL_RUNNER: True, False, or None when it is not set.

    Raises:
        InputError: the variable is no number, which vLLM cannot read either.
    """
    text = engine.deployment.env.get("VLLM_USE_V2_MODEL_RUNNER")
    if text is None:
        return None
    try:
        return bool(int(text))
    except ValueError:
        raise InputError(
            f"VLLM_USE_V2_MODEL_RUNNER is {text[:20]!r}, which is no number",
            code="CG903",
            where="VLLM_USE_V2_MODEL_RUNNER",
            fix="set it to 0 or 1",
        ) from None


def choose(engine: Engine) -> Runner:
    """VllmConfig.use_v2_model_runner; evaluated anew whenever vLLM asks, since the mode counts."""
    d = engine.deployment
    if d.attention_config.hisparse_config is not None:
        if engine.v2_forced is False:
            _refuse(Runner.V1, "HiSparse")
        return Runner.V2
    if engine.v2_forced is not None:
        return Runner.V2 if engine.v2_forced else Runner.V1
    if not d.software.triton:
        return Runner.V1
    return Runner.V1 if v2_lacks(engine) else Runner.V2


def why(engine: Engine, runner: Runner) -> str:
    """The reason of the choice, for people."""
    if engine.deployment.attention_config.hisparse_config is not None:
        return "HiSparse runs on runner V2 only."
    if engine.v2_forced is not None:
        return f"VLLM_USE_V2_MODEL_RUNNER={int(engine.v2_forced)}."
    if not engine.deployment.software.triton:
        return "Runner V2 needs Triton."
    lacks = v2_lacks(engine)
    return f"Runner V2 does not support {', '.join(lacks)}." if lacks else "The default runner."


def check(engine: Engine, runner: Runner) -> None:
    """Step 3.21, second half."""
    lacks = v2_lacks(engine) if runner is Runner.V2 else v1_lacks(engine)
    if lacks:
        _refuse(runner, ", ".join(lacks))


def settle_async_scheduling(engine: Engine, runner: Runner) -> None:
    """Whether the scheduler runs ahead of the GPU."""
    d, speculation = engine.deployment, engine.speculation
    obstacle = None
    if runner is Runner.V1:
        if speculation is not None and speculation.method not in ASYNC_V1_METHODS:
            obstacle = f"{speculation.method} drafts on runner V1"
        elif speculation is not None and speculation.options.disable_padded_drafter_batch:
            obstacle = "disable_padded_drafter_batch on runner V1"
        elif d.pipeline_parallel_size > 1:
            obstacle = "pipeline parallelism on runner V1"
    if d.async_scheduling:
        if obstacle is not None:
            raise StartupError(
                f"async scheduling does not work with {obstacle}",
                code=ASYNC_SCHEDULING.code,
                where="--async-scheduling",
                fix=ASYNC_SCHEDULING.instead,
            )
    elif d.async_scheduling is None and engine.runner_type == "pooling":
        engine.async_scheduling = False
    elif d.async_scheduling is None and obstacle is not None:
        engine.set(ASYNC_SCHEDULING, "async_scheduling", False, f"Off: {obstacle}.")
    elif d.async_scheduling is False:
        engine.async_scheduling = False


def v2_lacks(engine: Engine) -> list[str]:
    """Features asked for that runner V2 does not have."""
    d, speculation = engine.deployment, engine.speculation
    lacks = []
    if d.distributed_executor_backend == "external_launcher" and d.pipeline_parallel_size > 1:
        lacks.append("pipeline parallelism with external_launcher")
    if speculation is not None:
        options = speculation.options
        parallel = options.parallel_drafting or speculation.method in ("dflash", "dspark")
        if speculation.method in ("suffix", "custom_class"):
            lacks.append(f"speculative method {speculation.method}")
        if parallel and speculation.method not in ("dflash", "dspark"):
            lacks.append("parallel drafting")
        if options.use_heterogeneous_vocab:
            lacks.append("draft models with another vocabulary")
    if engine.use_ubatching:
        lacks += _v2_lacks_with_dbo(engine)
    return lacks


def v1_lacks(engine: Engine) -> list[str]:
    """Features asked for that runner V1 does not have."""
    d, speculation = engine.deployment, engine.speculation
    lacks = []
    if d.prefill_context_parallel_size > 1:
        lacks.append("prefill context parallelism")
    if d.pipeline_parallel_size > 1 and engine.async_scheduling:
        lacks.append("pipeline parallelism with async scheduling")
    if speculation is not None:
        lacks += _v1_lacks_speculation(engine)
    if d.model.is_diffusion:
        lacks.append("diffusion models")
    if d.model.architecture in engine.facts["hooks"]["v2_only"]:
        lacks.append("Step5")
    return lacks


def _v1_lacks_speculation(engine: Engine) -> list[str]:
    speculation = engine.speculation
    assert speculation is not None
    draft = speculation.draft.architectures if speculation.draft is not None else ()
    lacks = []
    if speculation.method == "dspark":
        lacks.append("dspark speculative decoding")
    elif speculation.method == "dflash" and any(name in XPRESS for name in draft):
        lacks.append("xpress speculative decoding")
    if speculation.options.enable_adaptive_verification:
        lacks.append("adaptive verification")
    if speculation.options.draft_lm_head_quantization is not None:
        lacks.append("draft lm_head quantization")
    if "ParseAuxMTPModel" in draft:
        lacks.append("Parse 3.5 MTP")
    if speculation.method == "dflash" and any(name in DFLASH_CANDIDATE_HEADS for name in draft):
        lacks.append("DFlash candidate heads")
    return lacks


def _v2_lacks_with_dbo(engine: Engine) -> list[str]:
    """Dual batch overlap is on trial in V2: never by default, and with few other features."""
    if engine.v2_forced is None:
        return ["dual batch overlap unless VLLM_USE_V2_MODEL_RUNNER=1"]
    d, model = engine.deployment, engine.deployment.model
    with_dbo = {
        "LoRA": engine.max_loras is not None,
        "speculative decoding": engine.speculation is not None,
        "pipeline parallelism": d.pipeline_parallel_size > 1,
        "context parallelism": d.decode_context_parallel_size > 1 or d.prefill_context_parallel_size > 1,
        "multimodal models": model.is_multimodal_model or model.is_encoder_decoder,
        "hybrid models": model.is_hybrid,
        "PIECEWISE graphs": engine.cudagraph_mode is CUDAGraphMode.PIECEWISE,
    }
    return [f"dual batch overlap with {what}" for what, asked in with_dbo.items() if asked]


def _refuse(runner: Runner, what: str) -> None:
    raise StartupError(
        f"runner {runner} does not support {what}",
        code=UNSUPPORTED.code,
        where="VLLM_USE_V2_MODEL_RUNNER",
        fix=UNSUPPORTED.instead,
    )
