"""The form of the JSON document of `cgplan logs`, as pydantic models. Null: the log does not have it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..resolve.document_schema import FindingPart
from ..workload.document_schema import StepsPart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LinePart(_Part):
    """A line of the log."""

    line: int
    text: str


class EnginePart(_Part):
    """The KV cache as one engine printed it."""

    engine: str
    kv_tokens: int
    max_concurrency: float | None


class PhasePart(_Part):
    """Seconds of a part of the start, as one rank printed it."""

    name: str
    seconds: float
    rank: str | None


class ProfiledPart(_Part):
    """Graphs of one kind as they were announced."""

    kind: str
    graphs: int
    largest: int | None


class SamplePart(_Part):
    """What vLLM measured for its estimate of one kind: the first of `graphs`, and each of the others; bytes."""

    kind: str
    first_bytes: int
    graphs: int
    per_graph_bytes: int


class CapturedPart(_Part):
    """A progress bar: `graphs` of `of`."""

    kind: str
    graphs: int
    of: int | None
    name: str


class RankPart(_Part):
    """Bytes of one rank as printed; of GiB with two decimals, so within 0.005 GiB. Estimate and capture may be below 0.

    `activation_bytes` holds the estimate of the graphs where `activation_includes_estimate`.
    """

    rank: int | None
    name: str
    total_bytes: int | None
    free_bytes: int | None
    requested_bytes: int | None
    gpu_memory_utilization: float | None
    weights_bytes: int | None
    consumed_bytes: int | None
    activation_bytes: int | None
    activation_includes_estimate: bool | None
    activation_without_estimate_bytes: int | None
    non_torch_bytes: int | None
    graph_estimate_bytes: int | None
    graph_bytes: int | None
    capture_seconds: float | None
    kv_bytes: int | None
    kv_is_given: bool
    kv_after_reserve_bytes: int | None
    suggested_kv_bytes: int | None
    suggested_full_kv_bytes: int | None
    graphs: list[ProfiledPart]
    samples: list[SamplePart]
    captured: list[CapturedPart]
    attention_backends: list[str]


class CrashPart(_Part):
    """How the start ended, or the server: with step "serving" it had come up.

    `works`: by vLLM's names, the largest values that would have worked.
    """

    code: str
    kind: str
    step: Literal["loading", "profiling", "cache", "capture", "warm-up", "serving"] | None
    what: str
    message: str
    fix: str
    works: dict[str, int | float]
    line: int
    rank: str | None
    values: dict[str, int | float | str]
    also: list[FindingPart]
    chain: list[str]


class StepPart(_Part):
    """A line of the reasoning, bytes."""

    sign: Literal["+", "-", "="]
    what: str
    size_bytes: int


class CorrectionPart(_Part):
    """The KV cache that vLLM's log suggests for a rank, and the right one, with the graphs taken off once; bytes.

    `full`: of all memory that was free.
    """

    rank: str
    printed_bytes: int | None
    right_bytes: int
    printed_full_bytes: int | None
    right_full_bytes: int | None
    counts_twice: bool
    in_use_bytes: int | None
    gpu_memory_utilization: float | None
    steps: list[StepPart]


class RowPart(_Part):
    """A figure of the plan with its bounds, and of the log. Words stand in the two texts.

    `percent` and `difference`: the plan's best value less the log's.
    """

    name: str
    unit: Literal["bytes", "tokens", "blocks", "times", "seconds", "graphs"] | None
    ranks: list[str]
    low: float | None
    best: float | None
    high: float | None
    measured: float | None
    planned_text: str | None
    measured_text: str | None
    percent: float | None
    difference: float | None
    verdict: Literal["exact", "inside", "outside", "same", "different"]
    given: str | None


class PlanPart(_Part):
    """The plan of the start's deployment against the log. `why_not`: why there is none, or only a part."""

    gpu: str | None
    model: str | None
    vllm_version: str | None
    rows: list[RowPart]
    why_not: str | None
    fix: str | None
    assumptions: list[str]
    not_modelled: list[str]


class RequestsPart(_Part):
    """How many requests run at most. `source`: the log, the graphs they are solved from, or a default, in words."""

    max_num_seqs: int
    source: str


class StartPart(_Part):
    """One start of one server. `rules_of`: the known release that it is read by."""

    number: int
    first_line: int
    last_line: int
    source: str | None
    came_up: bool
    vllm_version: str | None
    rules_of: str | None
    model: str | None
    architecture: str | None
    runner: str | None
    platform_plugin: str | None
    arguments: dict[str, Any]
    environment: dict[str, Any]
    cudagraph_mode: str | None
    capture_sizes: list[int] | None
    graphs: dict[str, int | None]
    attention_backends: list[str]
    max_model_len: int | None
    derived_max_model_len: int | None
    max_num_seqs: int | None
    requests: RequestsPart | None
    max_num_batched_tokens: int | None
    block_size: int | None
    num_gpu_blocks: int | None
    kv_tokens: int | None
    max_concurrency: float | None
    concurrency_length: int | None
    kv_by_engine: list[EnginePart]
    capture_seconds: float | None
    start_seconds: float | None
    phases: list[PhasePart]
    ranks: list[RankPart]
    crash: CrashPart | None
    corrections: list[CorrectionPart]
    plan: PlanPart | None
    findings: list[FindingPart]
    not_recognised: int | None


class LogsDocument(_Part):
    """What `cgplan logs --json` prints. `workload`: the steps that the log or --metrics tell of, or null."""

    schema_version: int = Field(ge=1, le=1)
    lines: int
    not_recognised: int
    not_recognised_examples: list[LinePart]
    remarks: list[str]
    starts: list[StartPart]
    workload: StepsPart | None


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return LogsDocument.model_json_schema()
