"""The form of the document of `cgplan tune --max-concurrency N --json`, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...resolve.document_schema import FindingPart
from .tune_schema import CapturePart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class UsedPart(_Part):
    """Sizes of the graphs of one mode, tokens."""

    mode: Literal["FULL", "PIECEWISE"]
    by_decode: list[int] = Field(description="decode steps of so few requests run in them")
    by_prefill: list[int] = Field(description="steps with a prefill alone may run in them")
    by_none: list[int] = Field(description="no step runs in them")


class LaunchPart(_Part):
    """A launch, today's first. Padding is that of decode steps, each number of requests alike."""

    name: str
    flags: str | None = Field(description="to add, or in the place of those of the same name; null: today's")
    capture_sizes: list[int]
    graphs: int
    waste: float = Field(description="padding as a share of the computed tokens")
    eager: float = Field(description="share of the decode steps that run without a graph")
    largest_mixed: int = Field(description="steps with a prefill of more tokens run without a graph; 0: all do")
    graph_bytes: int | None = Field(description="what capture takes of a GPU; null: not known")
    kv_tokens: int | None = Field(description="of the KV cache; null: not known, or it does not start")
    capture_seconds: CapturePart


class ConcurrencyDocument(_Part):
    """Which graphs at most so many requests at once can use."""

    schema_version: Literal[1]
    vllm_version: str
    model: str | None
    gpu: str
    cudagraph_mode: str
    max_concurrency: int = Field(description="as it was asked for")
    max_num_seqs: int = Field(description="as it is; where it is the smaller one it counts")
    graphs: list[UsedPart]
    without_graph: list[int] = Field(description="numbers of requests whose decode steps run without a graph")
    launches: list[LaunchPart]
    starts: bool | None = Field(description="by its memory, by the best estimate; null: not planned")
    stops: list[FindingPart] = Field(description="what ends the start of today's launch, each with its fix")
    notes: list[str]
    assumptions: list[str] = Field(default=[], description="of the command: what was not said and is assumed")


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return ConcurrencyDocument.model_json_schema()
