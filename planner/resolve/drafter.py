"""The drafter's own graphs under speculative decoding.

Source: vllm/v1/spec_decode/llm_base_proposer.py:420-435, vllm/v1/worker/gpu/spec_decode/** @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
) -> Drafter | None:
    """On V1 a model-based drafter has PIECEWISE graphs over the target's sizes, where mixed batches have graphs."""
    if not speculation.uses_target_hidden_states and speculation.method != "draft_model":
        return None
    graphs: Captures = {}
    if not speculation.options.enforce_eager and mode.mixed_mode is not NONE:
        graphs = runner_v1.captures(CUDAGraphMode.PIECEWISE, sizes, max_num_seqs, 1, lora_cases)
    return Drafter("SpecDecodeBaseProposer", {"cudagraph_dispatcher": graphs})


def v2_drafter(
    speculation: Speculation, spec: CaptureSpec, breakable: bool, draft_support: AttentionCGSupport
) -> Drafter:
    """On V2 the class that drafts decides; `spec` is the target's."""
    name = speculator_class(speculation)
    decode_full = spec.mode.decode_mode is FULL
    decode_only = CUDAGraphMode.FULL_DECODE_ONLY if decode_full else NONE
    managers: dict[str, Captures] = {}
    if name in ("EagleSpeculator", "MTPSpeculator", "Gemma4Speculator"):
        query_len = speculation.num_speculative_tokens + 1
        managers["prefill_cudagraph_manager"] = runner_v2.captures(
            runner_v2.drafter_spec(spec, spec.mode, query_len, spec.query_lens)
        )
        managers["decode_cudagraph_manager"] = runner_v2.captures(runner_v2.drafter_spec(spec, decode_only, 1))
    elif name == "MultiModuleMTPSpeculator":
        mode = spec.mode
        if mode.has_piecewise and not breakable:
            mode = CUDAGraphMode.FULL_DECODE_ONLY if mode.has_full else NONE
        query_len = speculation.num_speculative_tokens + 1
        managers["cudagraph_manager"] = runner_v2.captures(
            runner_v2.drafter_spec(spec, mode, query_len, spec.query_lens)
        )
    elif speculation.method in ("dflash", "dspark"):
        mode = decode_only if draft_support >= AttentionCGSupport.UNIFORM_BATCH else NONE
        managers["query_cudagraph_manager"] = runner_v2.captures(
            runner_v2.drafter_spec(spec, mode, _draft_query_len(speculation))
        )
    return Drafter(name, managers)


def speculator_class(speculation: Speculation) -> str:
    """The class that runner V2 builds (vllm/v1/worker/gpu/spec_decode/__init__.py)."""
    draft = speculation.draft or ModelShape()
    method = speculation.method
    if method == "extract_hidden_states":
        return "ExtractHiddenStatesSpeculator"
    if method == "dflash":
        return _dflash_class(draft.architectures)
    if method == "dspark":
        return "DSparkSpeculator"
    if method == "mtp" and draft.model_type in ("gemma4_mtp", "gemma4_assistant"):
        return "Gemma4Speculator"
    if speculation.is_multi_module_mtp:
        return "MultiModuleMTPSpeculator"
    if method == "mtp":
        return "MTPSpeculator"
    if speculation.uses_target_hidden_states:
        return "EagleSpeculator"
    if method == "draft_model":
        return "StandaloneARSpeculator"
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
    """Queries of one request in the draft pass: DFlash adds the bonus token to its draft tokens."""
    extra = 1 if speculation.method == "dflash" else 0
    return speculation.num_speculative_tokens + extra
