"""The form of the document of `cgplan backends --json`, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..resolve.document_schema import BackendPart, Level
from .diff_schema import ErrorPart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RowPart(_Part):
    """An attention backend of the release, for this deployment."""

    name: str
    class_name: str
    kind: str
    platform: str
    support: Level | None
    condition: str
    code: str | None
    source: str | None
    fits: bool | None = Field(description="null: not looked at")
    reasons: list[str] = Field(description="why it does not fit")
    priority: int | None = Field(description="place in the order of automatic selection, from 1")
    chosen: bool


class DifferencePart(_Part):
    """Where vLLM's documentation differs from its code."""

    backend: str
    says: str
    does: str
    page: str
    source: str | None
    row: str | None
    levels: list[str]


class SupportDocument(_Part):
    """Every attention backend, and the chosen one."""

    schema_version: Literal[1]
    vllm_version: str
    gpu: str
    model: str
    backend: BackendPart | None = Field(description="as of `cgplan resolve --json`; null where vLLM refuses")
    asked: str | None
    why: str
    refused: ErrorPart | None
    order: list[str]
    backends: list[RowPart]
    differences: list[DifferencePart]
    assumptions: list[str]
    not_modelled: list[str]


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return SupportDocument.model_json_schema()
