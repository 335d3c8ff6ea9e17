"""The form of the document of `cgplan diff --json`, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..resolve.document_schema import FindingPart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ErrorPart(_Part):
    """Why a release does not start; the last ones only where vLLM itself refuses."""

    code: str
    message: str
    where: str | None
    fix: str | None
    stage: str | None = None
    raised_as: str | None = None
    raised_in: str | None = None
    kind: str | None = Field(default=None, description="of an argument that is refused, how")


class ReleasePart(_Part):
    """A release on the way, ends included."""

    release: str
    starts: bool
    error: ErrorPart | None


class FactPart(_Part):
    """A fact of the tables of releases."""

    path: str
    before: Any
    after: Any


class CausePart(_Part):
    """A rule or fact that moved a value."""

    code: str
    kind: Literal["new", "gone", "fact", "input"]
    why: str
    title: str
    instead: str
    facts: list[FactPart]


class StepPart(_Part):
    """What one release changed of a value."""

    previous: str = Field(alias="from")
    to: str
    release: str
    before: Any
    after: Any
    causes: list[CausePart]
    follows: list[str] = Field(description="fields that it follows from")


class RestorePart(_Part):
    """How to keep the value: a flag, NAME=VALUE, or null."""

    setting: str | None
    note: str | None


class ChangePart(_Part):
    """A value that differs between the ends."""

    field: str
    label: str
    section: str
    before: Any
    after: Any
    added: list[Any] | None = Field(description="items of `after` alone; null where the values are no lists")
    removed: list[Any] | None
    steps: list[StepPart]
    restore: RestorePart


class NotePart(_Part):
    """A rule that changed."""

    release: str
    code: str
    kind: str
    title: str
    instead: str
    facts: list[FactPart]


class DeploymentPart(_Part):
    model: str
    gpu: str


class MemorySidePart(_Part):
    """What `cgplan plan` says at one end. Bytes are of one GPU."""

    release: str
    fits: bool
    starts: Literal["yes", "no", "unsure"]
    gpu_memory_utilization: float | None = Field(description="after defaults; null where it does not size the KV cache")
    kv_bytes: int | None
    max_concurrency: float | None = Field(description="requests of max_model_len tokens that fit at once")
    full_length_tokens: int | None = Field(description="of these requests; counted alike at every release")
    kv_tokens: int | None = Field(description="as the log of the release counts them")
    max_model_len: int | None
    deducted_bytes: int | None
    graph_bytes: int | None = Field(description="what capture takes")
    block_size: int | None
    max_num_seqs_that_fits: int | None
    findings: list[FindingPart]


class MemoryChangePart(_Part):
    field: str
    before: Any
    after: Any
    comparable: bool = Field(
        description="false of kv_tokens where the two releases count in two ways: full_length_tokens of both ends is"
        " counted in one"
    )
    releases: list[str]
    codes: list[str] = Field(description="the rules behind it")
    restore: str | None = Field(description="the flag that keeps the value of `from`")


class MemoryCausePart(_Part):
    """A part of the memory that a release moved."""

    release: str
    part: str
    codes: list[str] = Field(description="empty where it was not traced to a rule")
    why: str
    kv_bytes: int | None = Field(
        description="what it gives the KV cache of one GPU; null where it is not of the budget"
    )


class MemoryPart(_Part):
    """Both ends, what moved, and findings of one end alone."""

    first: MemorySidePart = Field(alias="from")
    to: MemorySidePart
    changes: list[MemoryChangePart]
    causes: list[MemoryCausePart]
    new: list[FindingPart]
    gone: list[FindingPart]


class ComparisonDocument(_Part):
    """What changes between two releases: for a deployment, or of all rules where none was given."""

    schema_version: Literal[1]
    first: str = Field(alias="from")
    to: str
    changed: bool
    deployment: DeploymentPart | None = Field(description="null where no deployment was given")
    releases: list[ReleasePart]
    changes: list[ChangePart]
    without_effect: list[NotePart]
    notes: list[NotePart] | None = Field(description="null with a deployment")
    memory: MemoryPart | None = Field(description="null where it is not planned")
    assumptions: list[str]
    not_modelled: list[str]


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return ComparisonDocument.model_json_schema(by_alias=True)
