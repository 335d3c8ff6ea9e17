"""What each model runner lacks, by release.

Source: vllm/config/vllm.py:3053-3151, 3222-3262 @ 0.33.0, and the functions of the same names in older releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode
from . import mamba

if TYPE_CHECKING:
    from .engine import Engine

V2_NO_HYBRIDS = Rule(
    "CG620",
    title="Runner V2 had no hybrid or Mamba models.",
    why="State caches came to V2 later than paged attention.",
    example="Jamba on 0.22.1 with VLLM_USE_V2_MODEL_RUNNER=1 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _validate_v2_model_runner",
    since="0.20.2",
    until="0.22.1",
    release="0.22.1",
)
V2_NO_ALIGNED_MAMBA = Rule(
    "CG621",
    title="Runner V2 had no Mamba states aligned to blocks.",
    why="Prefix caching of states copies them at block ends, which V2 could not yet do.",
    example="Jamba on 0.24.0 with prefix caching and VLLM_USE_V2_MODEL_RUNNER=1 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.23.0",
    until="0.24.0",
    release="0.24.0",
)
V2_NO_PCP = Rule(
    "CG622",
    title="Runner V2 had no prefill context parallelism.",
    why="It came with the MLA models.",
    example="--prefill-context-parallel-size 2 on 0.25.1: not on V2.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.20.2",
    until="0.25.1",
    release="0.25.1",
)
V2_PCP_MLA_ONLY = Rule(
    "CG623",
    title="Runner V2 had prefill context parallelism for MLA models only.",
    why="Only their kernels exchange partial attention.",
    example="Llama with --prefill-context-parallel-size 2 on 0.28.0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.26.0",
    until="0.28.0",
    release="0.28.0",
)
V2_NO_STOCK_COMPILE = Rule(
    "CG624",
    title="Runner V2 did not take stock torch.compile.",
    why="Its graph manager would have captured around the compiled model.",
    example="-cc.mode=stock_torch_compile on 0.31.0: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.22.1",
    until="0.31.0",
    release="0.31.0",
)
V2_NO_SEQUENCE_PARALLELISM = Rule(
    "CG625",
    title="Runner V2 had no sequence parallelism.",
    why="It never padded batches to the tensor parallel size.",
    example="enable_sp with --tensor-parallel-size 2 on 0.31.0: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.22.1",
    until="0.31.0",
    release="0.31.0",
)
V2_NO_EXTERNAL_LAUNCHER = Rule(
    "CG626",
    title="Runner V2 has no pipeline stages under external_launcher.",
    why="V1 sends the last stage's output to all ranks; V2 does not.",
    example="torchrun with --pipeline-parallel-size 2: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3058-3066",
    since="0.24.0",
)
V2_METHODS = Rule(
    "CG627",
    title="Runner V2 has the speculative methods that have a speculator class there.",
    why="Each method was ported by itself.",
    example="ngram on 0.31.0: runner V1; on 0.32.0: V2.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3068-3071",
    since="0.20.2",
)
V2_NO_DYNAMIC_SD = Rule(
    "CG628",
    title="Runner V2 had no dynamic speculative decoding.",
    why="Its decode graphs had one query length.",
    example="A schedule on 0.24.0: not on V2.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.24.0",
    until="0.24.0",
    release="0.24.0",
)
V2_NO_PARALLEL_DRAFTING = Rule(
    "CG629",
    title="Runner V2 drafts in parallel with DFlash and DSpark only.",
    why="Its EAGLE speculator drafts one token after the other.",
    example="parallel_drafting with EAGLE: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3073-3080",
    since="0.22.1",
)
V2_NO_OTHER_VOCABULARY = Rule(
    "CG630",
    title="Runner V2 drafts in the target's vocabulary only.",
    why="It has no map between two vocabularies.",
    example="use_heterogeneous_vocab: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3082-3085",
    since="0.32.0",
)
V2_NO_EAGLE3_STAGES = Rule(
    "CG631",
    title="Runner V2 had no EAGLE3 with pipeline parallelism.",
    why="The hidden states it reads lie on earlier stages.",
    example="EAGLE3 with --pipeline-parallel-size 2 on 0.29.0: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.22.1",
    until="0.29.0",
    release="0.29.0",
)
V2_ADAPTIVE_LIMITS = Rule(
    "CG632",
    title="0.28.0 listed the limits of adaptive verification as features that runner V2 lacks.",
    why="They became plain refusals one release later.",
    example="Adaptive verification with LoRA on 0.28.0.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.28.0",
    until="0.28.0",
    release="0.28.0",
)
V2_NO_DBO = Rule(
    "CG634",
    title="Runner V2 had no dual batch overlap.",
    why="Its graph manager knew no split batches.",
    example="--enable-dbo on 0.29.0: runner V1.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py, _get_v2_model_runner_unsupported_features",
    since="0.20.2",
    until="0.29.0",
    release="0.29.0",
)
V2_DBO_ON_TRIAL = Rule(
    "CG633",
    title="Dual batch overlap runs on V2 only when V2 is asked for, and with few other features.",
    why="It is under development there.",
    example="--enable-dbo: runner V1; with VLLM_USE_V2_MODEL_RUNNER=1: V2, but not with LoRA.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3222-3262",
    since="0.30.0",
)
V1_NO_PCP = Rule(
    "CG635",
    title="Prefill context parallelism runs on V2 only.",
    why="Only V2's input batch can be split over ranks.",
    example="--prefill-context-parallel-size 2 with VLLM_USE_V2_MODEL_RUNNER=0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3089-3094",
    since="0.27.1",
)
V1_NO_ASYNC_STAGES = Rule(
    "CG636",
    title="Runner V1 has no pipeline parallelism with async scheduling.",
    why="Structured output broke under the two together.",
    example="--pipeline-parallel-size 2 --async-scheduling with VLLM_USE_V2_MODEL_RUNNER=0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3096-3108",
    since="0.31.0",
)
V1_NO_NEW_DRAFTS = Rule(
    "CG637",
    title="Runner V1 lacks XPress, Parse 3.5 MTP, draft lm_head quantisation and Step5.",
    why="They were written for V2.",
    example="Step5ForCausalLM with VLLM_USE_V2_MODEL_RUNNER=0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3110-3149",
    since="0.33.0",
)
DFLASH_CANDIDATES = Rule(
    "CG638",
    title="DFlash drafts with candidate heads run on V2 only.",
    why="On V1 the same checkpoint would draft without them.",
    example="A DFlash2 draft with VLLM_USE_V2_MODEL_RUNNER=0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:769-785",
    since="0.28.0",
)
DFLASH_MIXED = Rule(
    "CG639",
    title="DFlash drafts that mix sliding and full attention run on V2 only.",
    why="Their layers need several KV cache groups.",
    example="Such a draft with VLLM_USE_V2_MODEL_RUNNER=0 does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:787-798",
    since="0.26.0",
)

XPRESS = ("Qwen3XPressModel", "DFlashQwen3XPressModel")
DFLASH_CANDIDATE_HEADS = ("DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel")


def drafts_on_v2_only(engine: Engine) -> str | None:
    """What makes a DFlash draft one for runner V2, or None."""
    speculation = engine.speculation
    draft = speculation.draft if speculation is not None and speculation.method == "dflash" else None
    if draft is None:
        return None
    if engine.has(DFLASH_CANDIDATES) and any(name in DFLASH_CANDIDATE_HEADS for name in draft.architectures):
        return "DFlash candidate heads"
    if engine.has(DFLASH_MIXED) and draft.sliding_window is not None and draft.has_full_attention_layers:
        return "DFlash drafts with sliding and full attention"
    return None


def v2_lacks(engine: Engine) -> list[str]:
    """Features asked for that runner V2 does not have (_get_v2_model_runner_unsupported_features)."""
    d = engine.deployment
    lacks = []
    if _v2_lacks_mamba(engine):
        lacks.append("hybrid or Mamba models")
    if _v2_lacks_pcp(engine):
        lacks.append("prefill context parallelism")
    if engine.has(V2_NO_STOCK_COMPILE) and engine.mode is CompilationMode.STOCK_TORCH_COMPILE:
        lacks.append("stock torch.compile")
    if engine.has(V2_NO_SEQUENCE_PARALLELISM) and engine.passes.get("enable_sp") and d.tensor_parallel_size > 1:
        lacks.append("sequence parallelism")
    if (
        engine.has(V2_NO_EXTERNAL_LAUNCHER)
        and d.distributed_executor_backend == "external_launcher"
        and d.pipeline_parallel_size > 1
    ):
        lacks.append("pipeline parallelism with external_launcher")
    if engine.speculation is not None:
        lacks += _v2_lacks_speculation(engine)
    if engine.has(V2_DBO_ON_TRIAL):
        if engine.use_ubatching:
            lacks += _v2_lacks_with_dbo(engine)
    elif engine.has(V2_NO_DBO) and d.enable_dbo:
        lacks.append("dual batch overlap")
    return lacks


def _v2_lacks_pcp(engine: Engine) -> bool:
    if engine.deployment.prefill_context_parallel_size <= 1:
        return False
    if engine.has(V2_NO_PCP):
        return True
    return engine.has(V2_PCP_MLA_ONLY) and not engine.deployment.model.use_mla


def _v2_lacks_mamba(engine: Engine) -> bool:
    model = engine.deployment.model
    if not (model.is_hybrid or model.mamba_backends):
        return False
    if engine.has(V2_NO_HYBRIDS):
        return True
    return engine.has(V2_NO_ALIGNED_MAMBA) and mamba.cache_mode(engine) == "align"


def _v2_lacks_speculation(engine: Engine) -> list[str]:
    speculation, facts = engine.speculation, engine.facts["runner"]
    assert speculation is not None
    options, method = speculation.options, speculation.method
    lacks = []
    if engine.has(V2_METHODS) and method not in facts["v2_methods"]:
        lacks.append(f"speculative method {method}")
    if engine.has(V2_NO_DYNAMIC_SD) and speculation.is_dynamic:
        lacks.append("dynamic speculative decoding")
    if engine.has(V2_NO_PARALLEL_DRAFTING) and options.parallel_drafting and method not in ("dflash", "dspark"):
        lacks.append("parallel drafting")
    if engine.has(V2_NO_OTHER_VOCABULARY) and options.use_heterogeneous_vocab:
        lacks.append("draft models with another vocabulary")
    stages = engine.deployment.pipeline_parallel_size
    if engine.has(V2_NO_EAGLE3_STAGES) and method == "eagle3" and stages > 1:
        lacks.append("EAGLE3 with pipeline parallelism")
    if engine.has(V2_ADAPTIVE_LIMITS) and options.enable_adaptive_verification:
        lacks += [
            f"adaptive verification with {what}"
            for what, asked in (
                ("LoRA", engine.max_loras is not None),
                ("cudagraph_mode NONE", engine.cudagraph_mode is CUDAGraphMode.NONE),
                ("pipeline parallelism", stages > 1),
            )
            if asked
        ]
    return lacks


def v1_lacks(engine: Engine) -> list[str]:
    """Features asked for that runner V1 does not have."""
    d = engine.deployment
    lacks = []
    if engine.has(V1_NO_PCP) and d.prefill_context_parallel_size > 1:
        lacks.append("prefill context parallelism")
    if not engine.facts["runner"]["checks_v1"]:
        return lacks
    if engine.has(V1_NO_ASYNC_STAGES) and d.pipeline_parallel_size > 1 and engine.async_scheduling:
        lacks.append("pipeline parallelism with async scheduling")
    if engine.speculation is not None:
        lacks += _v1_lacks_speculation(engine)
    if d.model.is_diffusion:
        lacks.append("diffusion models")
    if engine.has(V1_NO_NEW_DRAFTS) and d.model.architecture in engine.facts["hooks"]["v2_only"]:
        lacks.append("Step5")
    return lacks


def _v1_lacks_speculation(engine: Engine) -> list[str]:
    speculation = engine.speculation
    assert speculation is not None
    draft = speculation.draft.architectures if speculation.draft is not None else ()
    dflash = speculation.method == "dflash"
    lacks = []
    if speculation.method == "dspark":
        lacks.append("dspark speculative decoding")
    elif engine.has(V1_NO_NEW_DRAFTS) and dflash and any(name in XPRESS for name in draft):
        lacks.append("xpress speculative decoding")
    if speculation.options.enable_adaptive_verification:
        lacks.append("adaptive verification")
    if engine.has(V1_NO_NEW_DRAFTS) and speculation.options.draft_lm_head_quantization is not None:
        lacks.append("draft lm_head quantization")
    if engine.has(V1_NO_NEW_DRAFTS) and "ParseAuxMTPModel" in draft:
        lacks.append("Parse 3.5 MTP")
    special = drafts_on_v2_only(engine)
    if special is not None:
        lacks.append(special)
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
