"""The form of the JSON document of a Resolution, as pydantic models, and the way back from it.

Apart from document.py, so that writing a document does not wait for the models to be built.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..trace import Decision, Finding
from ..vocabulary import AttentionCGSupport, CompilationMode, CUDAGraphMode, Runner
from .backends import AttentionGroup, BackendChoice
from .drafter import Drafter
from .graphs import Captures, Graph
from .lora import LoraPlan
from .resolution import Resolution
from .runner_v2 import DispatchHabits

Mode = Literal["NONE", "PIECEWISE", "FULL"]
ConfigMode = Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
Level = Literal["NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GraphPart(_Part):
    """One CUDA graph."""

    num_tokens: int
    num_reqs: int | None = None
    uniform_query_len: int | None = None
    max_query_len: int | None = None
    num_active_loras: int = 0
    num_ubatches: int = 1


class GroupPart(_Part):
    """One KV cache group's attention backend."""

    name: str
    class_name: str
    support: Level
    kind: str
    condition: str


class RejectedPart(_Part):
    """A backend that automatic selection passed over."""

    name: str
    reasons: list[str]


class BackendPart(_Part):
    """The attention backends, and the weakest support level."""

    name: str
    support: Level
    weakest: str | None
    groups: list[GroupPart]
    rejected: list[RejectedPart]


class CountPart(_Part):
    """Numbers of graphs of the target model."""

    FULL: int
    PIECEWISE: int
    total: int


class CapturePart(_Part):
    """Graphs by run-time mode, in capture order; PIECEWISE is captured before FULL."""

    FULL: list[GraphPart]
    PIECEWISE: list[GraphPart]


class RangePart(_Part):
    """Batch sizes `from` to `to` with one answer. `padded` is null where the step runs eager."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    first: int = Field(alias="from")
    to: int
    query_len: int
    mode: Mode
    padded: int | None
    waste: float
    mean_waste: float


class CoveragePart(_Part):
    """Ranges of uniform decode batches (sizes are requests) and of mixed batches (sizes are tokens)."""

    uniform_decode: list[RangePart]
    mixed: list[RangePart]


class LoraCoveragePart(CoveragePart):
    """The same for batches with adapters."""

    num_active_loras: int


class LoraPart(_Part):
    """How LoRA multiplies the graphs."""

    max_loras: int
    specialize_active_lora: bool
    cases: list[int]


class DrafterPart(_Part):
    """The drafter's own graphs, by manager."""

    speculator: str | None
    managers: dict[str, CapturePart]


class StepPart(_Part):
    """Dynamic speculative decoding: up to `last_batch_size` requests, this many draft tokens."""

    last_batch_size: int
    num_speculative_tokens: int


class DecisionPart(_Part):
    """One change that a rule made."""

    code: str
    field: str
    before: Any
    after: Any
    why: str
    source: str


class FindingPart(_Part):
    """Something the operator should know."""

    code: str
    severity: Literal["info", "warning", "error"]
    message: str
    fix: str | None
    where: str | None


class UnreachablePart(GraphPart):
    """A captured graph that no batch runs in."""

    mode: Mode


class HabitsPart(_Part):
    """How runner V2 of the release looks for a graph."""

    shared_candidates: bool
    prefills_may_be_uniform: bool
    measures_prefills: bool
    looks_at_adapters: bool


class BatchPart(_Part):
    """One batch size that was asked for, as one kind of batch."""

    size: int
    kind: Literal["uniform_decode", "mixed"]
    num_tokens: int
    mode: Mode | None
    padded: int | None
    waste: float = Field(description="padding as a share of the step's tokens")
    why_not: str | None
    over_batch: float = Field(default=0.0, description="the same padding over the tokens of the batch itself")


class PaddingPart(_Part):
    """Batches of `from` to `to` tokens run as `padded`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    first: int = Field(alias="from")
    to: int
    padded: int


class ResolutionDocument(_Part):
    """What `cgplan resolve --json` prints."""

    schema_version: Literal[1]
    vllm_version: str
    runner: Literal["V1", "V2"]
    compilation_mode: Literal["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"]
    requested_mode: ConfigMode
    configured_mode: ConfigMode
    cudagraph_mode: ConfigMode
    decode_mode: Mode
    mixed_mode: Mode
    capture_sizes: list[int]
    max_cudagraph_capture_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    uniform_decode_query_len: int
    backend: BackendPart
    graphs: CountPart
    captures: CapturePart
    coverage: CoveragePart
    lora_coverage: LoraCoveragePart | None
    lora: LoraPart | None
    drafter: DrafterPart | None
    schedule: list[StepPart] | None
    num_ubatches: int
    data_parallel_ranks: int
    pads_to: int
    sizes_are_named: bool
    habits: HabitsPart
    unreachable: list[UnreachablePart]
    config: dict[str, Any]
    decisions: list[DecisionPart]
    findings: list[FindingPart]
    assumptions: list[str]
    not_modelled: list[str]
    batches: list[BatchPart] | None = None
    padding_table: list[PaddingPart] | None = None


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return ResolutionDocument.model_json_schema(by_alias=True)


def from_document(document: Any) -> Resolution:
    """The Resolution that `as_document` wrote; `document` is parsed JSON.

    Raises:
        InputError: it is no such document.
    """
    try:
        d = ResolutionDocument.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise InputError(
            f"not a resolution document: {where}: {first['msg']}",
            code="CG903",
            where=where,
            fix="give what `cgplan resolve --json` of this version printed",
        ) from None
    read = Resolution(
        vllm_version=d.vllm_version,
        runner=Runner(d.runner),
        compilation_mode=CompilationMode(d.compilation_mode),
        requested_mode=CUDAGraphMode(d.requested_mode),
        configured_mode=CUDAGraphMode(d.configured_mode),
        cudagraph_mode=CUDAGraphMode(d.cudagraph_mode),
        capture_sizes=tuple(d.capture_sizes),
        max_capture_size=d.max_cudagraph_capture_size,
        max_num_seqs=d.max_num_seqs,
        max_num_batched_tokens=d.max_num_batched_tokens,
        max_model_len=d.max_model_len,
        uniform_decode_query_len=d.uniform_decode_query_len,
        backend=_read_backend(d.backend),
        captures=_read_captures(d.captures),
        schedule=None
        if d.schedule is None
        else tuple((step.last_batch_size, step.num_speculative_tokens) for step in d.schedule),
        lora=None if d.lora is None else LoraPlan(d.lora.max_loras, d.lora.specialize_active_lora, tuple(d.lora.cases)),
        drafter=None
        if d.drafter is None
        else Drafter(d.drafter.speculator, {k: _read_captures(v) for k, v in d.drafter.managers.items()}),
        num_ubatches=d.num_ubatches,
        data_parallel_ranks=d.data_parallel_ranks,
        pads_to=d.pads_to,
        sizes_are_named=d.sizes_are_named,
        habits=DispatchHabits(**d.habits.model_dump()),
        config=d.config,
        decisions=tuple(Decision(**part.model_dump()) for part in d.decisions),
        assumptions=tuple(d.assumptions),
        not_modelled=tuple(d.not_modelled),
    )
    # What a resolution finds by itself comes last; the rest was noted by the rules.
    told = {part.code for part in d.findings}
    own = sum(finding.code in told for finding in read.findings)  # CG440 stands in the place of CG704
    noted = d.findings[: len(d.findings) - own]
    return replace(read, noted=tuple(Finding(**part.model_dump()) for part in noted))


def _read_backend(part: BackendPart) -> BackendChoice:
    return BackendChoice(
        groups=tuple(
            AttentionGroup(g.name, g.class_name, AttentionCGSupport[g.support], g.kind, g.condition)
            for g in part.groups
        ),
        support=AttentionCGSupport[part.support],
        weakest=part.weakest,
        name=part.name,
        rejected=tuple((r.name, tuple(r.reasons)) for r in part.rejected),
    )


def _read_captures(part: CapturePart) -> Captures:
    found: Captures = {}
    for mode, graphs in ((CUDAGraphMode.PIECEWISE, part.PIECEWISE), (CUDAGraphMode.FULL, part.FULL)):
        if graphs:
            found[mode] = tuple(Graph(**graph.model_dump()) for graph in graphs)
    return found
