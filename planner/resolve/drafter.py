"""The drafter's own graphs under speculative decoding.

Source: vllm/v1/spec_decode/llm_base_proposer.py:420-435, vllm/v1/worker/gpu/spec_decode/** @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ..errors import StartupError
from ..light_dataclass import dataclass
from ..model_shape import ModelShape
from ..trace import Rule
from ..vocabulary import AttentionCGSupport, CUDAGraphMode
from . import runner_v1, runner_v2
from .graphs import Captures
from .runner_support import DFLASH_CANDIDATE_HEADS, XPRESS
from .runner_v2 import CaptureSpec
from .speculation import Speculation

DRAFTER = Rule(
    "CG415",
    title="The drafter captures graphs of its own, beside the target's.",
    why="It runs between two target steps, and its launches would dominate otherwise.",
    example="EAGLE on runner V2: FULL graphs for its first pass and for the steps after it. On V1: PIECEWISE only.",
    instead="Nothing to do; count its graphs in the memory plan.",
    source="vllm/v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py:89-160",
)

TIERS = Rule(
    "CG426",
    title="Until 0.31 the drafter's later passes follow the tiers of dynamic drafting, less the draft tokens.",
    why="The same code made the target's graphs and the drafter's; a tier one token below the most divides by zero.",
    example="3 draft tokens with a tier of 2 does not start on runner V2.",
    instead="Leave out tiers of one draft token less than the most, or use 0.32.0.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:265-294",
    release="0.31.0",
    since="0.25.1",
    until="0.31.0",
)

NO_DRAFTER = Rule(
    "CG431",
    title="In 0.19 runner V2 drafts for EAGLE and MTP only, and finds out when it builds the drafter.",
    why="Its configuration does not look at the method.",
    example="VLLM_USE_V2_MODEL_RUNNER=1 with n-gram drafts does not start.",
    instead="Leave VLLM_USE_V2_MODEL_RUNNER unset.",
    source="vllm/v1/worker/gpu/spec_decode/__init__.py:9-18",
    release="0.19.1",
    until="0.19.1",
)

TWO_PASSES = ("EagleSpeculator", "MTPSpeculator", "Gemma4Speculator")
"""Classes that draft in a first pass over all tokens and later passes of one token a request."""

FULL, NONE = CUDAGraphMode.FULL, CUDAGraphMode.NONE


@dataclass(frozen=True)
class Drafter:
    """The drafter's graph managers.

    Attributes:
        speculator: vLLM's class on runner V2, "SpecDecodeBaseProposer" on V1, or None: no class drafts.
        managers: captures by manager name, in capture order within each.
    """

    speculator: str | None
    managers: dict[str, Captures] = field(default_factory=dict)


def v1_drafter(
    speculation: Speculation,
    mode: CUDAGraphMode,
    sizes: Sequence[int],
    max_num_seqs: int,
    lora_cases: Sequence[int],
    methods: Sequence[str],
) -> Drafter | None:
    """On V1 a model-based drafter has PIECEWISE graphs over the target's sizes, where mixed batches have graphs.

    `methods`: those without the target's hidden states that the release gives graphs.
    """
    if not speculation.uses_target_hidden_states and speculation.method not in methods:
        return None
    graphs: Captures = {}
    if not speculation.options.enforce_eager and mode.mixed_mode is not NONE:
        graphs = runner_v1.captures(CUDAGraphMode.PIECEWISE, sizes, max_num_seqs, 1, lora_cases)
    name = "ExtractHiddenStatesProposer" if speculation.method == "extract_hidden_states" else "SpecDecodeBaseProposer"
    return Drafter(name, {"cudagraph_dispatcher": graphs})


def v2_drafter(
    speculation: Speculation,
    spec: CaptureSpec,
    breakable: bool,
    draft_support: AttentionCGSupport,
    facts: Mapping[str, Any],
    methods: Sequence[str],
) -> Drafter:
    """On V2 the class that drafts decides; `spec` is the target's; `facts` and `methods` are the release's.

    Raises:
        StartupError: CG426 or CG431.
    """
    if speculation.method not in methods:
        raise StartupError(
            f"runner V2 has no drafter for {speculation.method}",
            code=NO_DRAFTER.code,
            stage="v2_drafter",
            raised_as="NotImplementedError",
            raised_in="init_speculator",
            where="VLLM_USE_V2_MODEL_RUNNER",
            fix=NO_DRAFTER.instead,
        )
    name = speculator_class(speculation, facts)
    decode_full = spec.mode.decode_mode is FULL
    decode_only = CUDAGraphMode.FULL_DECODE_ONLY if decode_full else NONE
    managers: dict[str, Captures] = {}
    first_pass = speculation.num_speculative_tokens + 1
    if name in TWO_PASSES and not facts["first_pass"]:
        managers["cudagraph_manager"] = _later_passes(speculation, spec, decode_only, facts)
    elif name in TWO_PASSES:
        managers["prefill_cudagraph_manager"] = runner_v2.captures(
            _draft_spec(speculation, spec, spec.mode, first_pass, facts)
        )
        managers["decode_cudagraph_manager"] = _later_passes(speculation, spec, decode_only, facts)
    elif name == "MultiModuleMTPSpeculator":
        mode = spec.mode
        if mode.has_piecewise and not (breakable and facts["multi_module_pieces_if_breakable"]):
            mode = CUDAGraphMode.FULL_DECODE_ONLY if mode.has_full else NONE
        managers["cudagraph_manager"] = runner_v2.captures(_draft_spec(speculation, spec, mode, first_pass, facts))
    elif speculation.method in ("dflash", "dspark"):
        supported = not facts["dflash_checks_support"] or draft_support >= AttentionCGSupport.UNIFORM_BATCH
        managers["query_cudagraph_manager"] = runner_v2.captures(
            _draft_spec(speculation, spec, decode_only if supported else NONE, _draft_query_len(speculation), facts)
        )
    return Drafter(name, managers)


def _draft_spec(
    speculation: Speculation, spec: CaptureSpec, mode: CUDAGraphMode, query_len: int, facts: Mapping[str, Any]
) -> CaptureSpec:
    """A manager of `query_len` tokens a request. The tiers shift with it: they count back from the most."""
    most = speculation.num_speculative_tokens
    query_lens: Sequence[int] | None = None
    if speculation.schedule is not None and (query_len > most or facts["later_passes_follow_tiers"]):
        query_lens = [tier + query_len - (most + 1) for tier in spec.query_lens]
    return runner_v2.drafter_spec(spec, mode, query_len, query_lens)


def _later_passes(
    speculation: Speculation, spec: CaptureSpec, mode: CUDAGraphMode, facts: Mapping[str, Any]
) -> Captures:
    """One token a request, where the release leaves the tiers out."""
    try:
        return runner_v2.captures(_draft_spec(speculation, spec, mode, 1, facts))
    except ZeroDivisionError:
        raise StartupError(
            f"a tier of {speculation.num_speculative_tokens - 1} draft tokens leaves the drafter's later passes "
            "a query length of 0",
            code=TIERS.code,
            stage="v2_drafter",
            raised_as="ZeroDivisionError",
            raised_in="CudaGraphManager",
            where="speculative_config.num_speculative_tokens_per_batch_size",
            fix=TIERS.instead,
        ) from None


def speculator_class(speculation: Speculation, facts: Mapping[str, Any]) -> str:
    """The class that runner V2 builds (vllm/v1/worker/gpu/spec_decode/__init__.py)."""
    draft = speculation.draft or ModelShape()
    method = speculation.method
    if method == "extract_hidden_states":
        return "ExtractHiddenStatesSpeculator"
    if method == "dflash":
        return _dflash_class(draft.architectures)
    if method == "dspark":
        return "DSparkSpeculator"
    if method == "mtp" and facts["mtp_classes"]:
        if draft.model_type in ("gemma4_mtp", "gemma4_assistant"):
            return "Gemma4Speculator"
        return "MultiModuleMTPSpeculator" if speculation.is_multi_module_mtp else "MTPSpeculator"
    if speculation.uses_target_hidden_states:
        return "EagleSpeculator"
    if method == "draft_model":
        return str(facts["standalone_class"])
    return "NgramGPUSpeculator"


def _dflash_class(architectures: Sequence[str]) -> str:
    if any(name in XPRESS for name in architectures):
        return "XPressSpeculator"
    if "LiLiCorrDraftModel" in architectures:
        return "LiLiCorrSpeculator"
    if any(name in DFLASH_CANDIDATE_HEADS for name in architectures):
        return "DFlash2Speculator"
    return "DFlashSpeculator"


def _draft_query_len(speculation: Speculation) -> int:
    """Queries of one request in the draft pass: the drafts, and the bonus token before them where it is no anchor."""
    anchored = speculation.method == "dspark" and (speculation.draft is None or speculation.draft.sample_from_anchor)
    extra = 0 if anchored else 1
    return speculation.num_speculative_tokens + extra
