"""The form of the JSON document of a CapacityPlan, as pydantic models.

Apart from document.py, so that writing a document does not wait for the models to be built.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..resolve.document_schema import FindingPart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BoundsPart(_Part):
    """Bytes: the best value between two bounds, which are equal where it is exact or was measured."""

    low: int
    best: int
    high: int


class SecondsPart(_Part):
    """Seconds."""

    low: float
    best: float
    high: float


class SuggestedPart(_Part):
    """What vLLM's log will suggest, and the same with the graphs taken off once; `full`: of all free memory."""

    printed_bytes: int
    right_bytes: int
    printed_full_bytes: int
    right_full_bytes: int


class RefusalPart(_Part):
    """Why vLLM would not start."""

    code: str
    message: str
    where: str | None
    fix: str | None
    stage: str
    raised_as: str
    raised_in: str


class CapacityPart(_Part):
    """The KV cache in given bytes, by pipeline stage; null where vLLM refuses."""

    kv_bytes: list[int]
    num_gpu_blocks: int | None
    kv_tokens: int | None
    max_concurrency: float | None
    refusal: RefusalPart | None


class CapacitiesPart(_Part):
    """At both ends of the interval and in between."""

    low: CapacityPart
    best: CapacityPart
    high: CapacityPart


class LengthPart(_Part):
    """How many requests of so many tokens fit at once."""

    length: int
    requests: float


class GroupPart(_Part):
    """Layers that share a block table."""

    spec: str
    layers: int
    block_size: int
    blocks_per_request: int


class GraphsPart(_Part):
    """The number of CUDA graphs of the target model."""

    FULL: int
    PIECEWISE: int
    total: int


class StagePart(_Part):
    """The memory of one rank of a pipeline stage."""

    weights_bytes: BoundsPart
    activation_bytes: BoundsPart
    non_torch_bytes: BoundsPart
    buffer_bytes: BoundsPart
    buffers_are_counted: bool
    deducted_bytes: BoundsPart
    graph_bytes: BoundsPart
    kv_bytes: BoundsPart
    unused_bytes: BoundsPart


class OutcomePart(_Part):
    """What becomes of a variant, by best values."""

    fits: bool
    starts: Literal["yes", "no", "unsure"] = Field(description="yes and no hold within the bounds of every estimate")
    kv_bytes: int | None
    num_gpu_blocks: int | None
    kv_tokens: int | None
    max_concurrency: float | None
    max_model_len: int | None
    graphs: int
    graph_bytes: int | None
    deducted_bytes: int | None
    capture_seconds: float | None = Field(description="by the best value; null: no graphs")
    activation_bytes: int | None = Field(description="the peak of a step, as vLLM profiles it")
    surely_free_bytes: int | None = Field(description="what stays free while idle, at the low end of the estimates")
    prefill_bytes: int | None = Field(
        description="what a prefill takes at most beyond that peak, in gated delta layers; null: none, or not known"
    )
    unasked_bytes: int | None = Field(
        description="of the GPU, not asked for, where the budget does not hold the graphs; null: it does"
    )
    code: str | None
    message: str | None


class AlternativePart(OutcomePart):
    """Other CUDA graphs, and what the KV cache gains by them."""

    change: str
    cost: str
    more_kv_bytes: int | None
    more_kv_tokens: int | None
    freed_bytes: int = Field(description="what the graphs take less, where they come on top of the budget; else 0")


class NamedOutcomePart(OutcomePart):
    """The same with the value of the flag."""

    name: str


class BudgetMovePart(_Part):
    """A part of the budget that is another with the other runner."""

    part: str
    kv_bytes: int = Field(description="what it gives the KV cache; below 0: takes")


class OtherRunnerPart(_Part):
    """The other model runner, which would serve the deployment as well."""

    runner: Literal["V1", "V2"]
    change: str = Field(description="the variable that chooses it")
    kv_bytes: int
    graphs: int
    parts: list[BudgetMovePart] = Field(description="what makes up the difference of the KV cache, largest first")


class WhatIfPart(_Part):
    """One flag over values."""

    flag: str
    rows: list[NamedOutcomePart]


class PlanDocument(_Part):
    """What `cgplan plan --json` prints. Budget values are null where --kv-bytes gave the size of the KV cache."""

    schema_version: Literal[1]
    vllm_version: str
    gpu: str
    model: str | None
    runner: Literal["V1", "V2"]
    other_runner: OtherRunnerPart | None = Field(description="null: one runner alone serves it")
    fits: bool = Field(description="whether it starts, by the best values")
    starts: Literal["yes", "no", "unsure"] = Field(description="yes and no hold at both ends of the interval")
    gpu_memory_utilization: float | None
    total_bytes: int | None
    free_bytes: BoundsPart | None
    requested_bytes: int | None
    weights_bytes: int | None
    activation_bytes: BoundsPart | None
    non_torch_bytes: BoundsPart | None
    buffer_bytes: BoundsPart | None
    graph_bytes: BoundsPart | None = Field(description="what capture really takes")
    graph_parts_bytes: dict[str, BoundsPart]
    graph_estimate_bytes: BoundsPart | None = Field(description="what vLLM will print; null: it estimates nothing")
    deducted_bytes: int | None = Field(description="of the estimate, what the KV cache gives up")
    deduction: str | None
    unused_bytes: BoundsPart | None
    suggested_kv_bytes: SuggestedPart | None = Field(description="the --kv-cache-memory that vLLM's log will suggest")
    kv_bytes: BoundsPart
    block_size: int | None
    num_gpu_blocks: int | None
    kv_tokens: int | None
    token_bytes: int | None = Field(
        description="of one GPU, for a further token; null: requests do not grow, or groups of layers grow unlike"
    )
    max_concurrency: float | None
    max_model_len: int
    max_model_len_that_fits: int | None = Field(description="by the best values; null: none starts")
    max_model_len_that_surely_starts: int | None = Field(description="within the bounds of every estimate; null: none")
    max_num_seqs: int
    max_num_seqs_that_fits: int | None = Field(description="by the best values; null: none starts")
    max_num_seqs_that_surely_starts: int | None = Field(description="within the bounds of every estimate; null: none")
    least_gpu_memory_utilization: float | None
    requests_by_length: list[LengthPart]
    capacity: CapacitiesPart
    kv_groups: list[GroupPart]
    hybrid_kv_cache_manager: bool | None = Field(
        description="on or off, of a model with layers that keep a window; null: it makes no difference"
    )
    cudagraph_mode: str
    graphs: GraphsPart
    capture_seconds: SecondsPart | None = Field(description="as long as capture took elsewhere; see sources")
    stages: list[StagePart]
    alternatives: list[AlternativePart]
    findings: list[FindingPart]
    assumptions: list[str]
    not_modelled: list[str]
    sources: dict[str, str]
    what_if: WhatIfPart | None
    compared_with: PlanDocument | None


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return PlanDocument.model_json_schema()
