"""The forms of JSON documents of workloads, as pydantic models.

Apart from the modules that write them, so that writing does not wait for the models to be built.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..resolve.document_schema import FindingPart

Size = Field(ge=0, le=1 << 31)
Mode = Literal["FULL", "PIECEWISE", "NONE"]
Span = int | list[int | None]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BatchesPart(_Part):
    """Steps whose batches looked alike.

    A size is a number, or a list of two: from, to; null as its second: no bound is known.
    """

    kind: Literal["decode", "mixed", "any"] = Field(
        default="any", description="decode: all requests of one length, none in prefill; any: not known"
    )
    tokens: Span | None = Field(default=None, description="of the batch before padding")
    requests: Span | None = None
    query_len: int | None = Field(default=None, ge=1, description="tokens of each request of a decode batch")
    loras: int = Field(default=0, ge=0, description="distinct adapters in the batch")
    count: float = Field(default=1, gt=0, description="steps")
    mode: Mode | None = Field(default=None, description="what the source saw it run in")
    padded: int | None = Field(default=None, description="tokens after padding, as the source saw it")


class WorkloadPart(_Part):
    """Batches with their counts. `exact` and `steps` follow from the batches; they are written, not read."""

    schema_version: Literal[1] = 1
    source: str = Field(default="", max_length=500)
    exact: bool | None = None
    steps: float | None = None
    batches: list[BatchesPart] = Field(min_length=1)


class BoundsPart(_Part):
    """The true value lies between the two, which are equal where it is known."""

    low: float
    high: float


class TallyPart(_Part):
    """What steps ran in: steps and shares by mode (FULL, PIECEWISE, NONE), tokens before padding,
    padding; `waste`: padding as a share of the computed tokens."""

    steps: float
    exact: bool
    modes: dict[Mode, BoundsPart]
    shares: dict[Mode, BoundsPart]
    tokens: BoundsPart
    padding_tokens: BoundsPart
    waste: BoundsPart


class CountedPart(_Part):
    tokens: list[int | None]
    steps: float


class MissedPart(_Part):
    """Steps that ran without the graph that was wanted for them, and why."""

    kind: Literal["decode", "mixed", "any"]
    mode: Mode
    code: str
    reason: str
    fix: str
    steps: BoundsPart
    batches: list[CountedPart]


class RanPart(_Part):
    mode: Mode
    padded: int


class DifferencePart(_Part):
    """Batches that the source saw in something else than the resolution says."""

    tokens: list[int | None]
    count: float
    seen: RanPart
    resolved: RanPart


class ResolvedPart(TallyPart):
    by_kind: dict[Literal["decode", "mixed", "any"], TallyPart]
    missed: list[MissedPart]
    differences: list[DifferencePart]
    beyond_limits: float


class SettingsPart(_Part):
    cudagraph_mode: str
    capture_sizes: list[int]


class EnginePart(_Part):
    """The steps of one engine, by one source."""

    name: str
    kind: Literal["tables", "iterations", "metrics", "file"]
    source: str
    tables: int
    settings: SettingsPart | None
    facts: dict[str, float]
    steps: float
    exact: bool
    seen: TallyPart | None
    resolved: TallyPart | None


class StepsPart(_Part):
    """The steps that a log or /metrics tells of; `resolved` is null where nothing is known of the deployment."""

    schema_version: Literal[1] = 1
    workload: WorkloadPart | None
    seen: TallyPart | None
    resolved: ResolvedPart | None
    engines: list[EnginePart]
    findings: list[FindingPart]
    remarks: list[str]
    not_recognised: int
    other_sources: list[StepsPart] = Field(description="other kinds of sources, which may count the same steps")


def json_schema() -> dict[str, Any]:
    """JSON Schema of a workload: what --metrics reads, and the value of `workload` in a document of steps."""
    return WorkloadPart.model_json_schema()
