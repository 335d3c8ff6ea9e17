"""The form of the document of `cgplan profile --dry-run --json`, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CapturePart(_Part):
    """A graph that would be captured."""

    mode: Literal["PIECEWISE", "FULL"]
    num_tokens: int
    num_reqs: int
    query_len: int = Field(description="tokens of each request; 1 for mixed batches")
    num_active_loras: int = Field(description="adapters in the batch")


class BytesPart(_Part):
    low: int
    best: int
    high: int
    source: str


class DriverPart(_Part):
    """What the driver keeps, bytes, as measured of vLLM's graphs."""

    graphs: int = Field(description="of the captured graphs, without their nodes")
    per_node: int = Field(description="of each kernel node of each graph")


class ProblemPart(_Part):
    """Why it does not fit, or may not, and what to do."""

    code: str
    message: str
    fix: str


class DryRun(_Part):
    """What a profile would capture, and the memory that it needs. Bytes are of one GPU; null: not known."""

    schema_version: Literal[1]
    engine: Literal["synthetic", "vllm", "callable"]
    sample: Literal["two", "auto", "all"]
    model: str | None = Field(description="null: a dense 8B decoder")
    target: str | None = Field(description="of the engine callable")
    gpu: str
    layout: str | None = Field(description="GPUs that share the work, as `tp 2`; null: one")
    vllm_version: str = Field(description="the release by whose rules the graphs are said")
    graphs: dict[str, int] = Field(description="how many there are, by mode")
    captured: dict[str, int] = Field(description="how many would be captured, by mode")
    sizes: dict[str, list[int]] = Field(description="tokens of the captured ones, each once, by mode")
    captures: list[CapturePart] = Field(description="the captured ones, in order")
    weights_bytes: int | None
    kv_bytes: int | None
    activation_bytes: int | None = Field(description="of the largest step; of vLLM the peak of its profile run")
    non_torch_bytes: int | None = Field(description="of the process beside the model")
    graph_bytes: BytesPart | None = Field(description="what vLLM would take for all graphs; null: no graphs of vLLM's")
    captured_graph_bytes: BytesPart | None = Field(description="the same of the captured ones")
    driver_bytes: DriverPart | None = Field(description="of the engine callable")
    least_bytes: int | None
    most_bytes: int | None = Field(description="at most; of vLLM about")
    total_bytes: int = Field(description="memory of the GPU, as CUDA has it")
    fits: Literal["yes", "unsure", "no"] | None = Field(description="on that GPU; no: exit status 2")
    problem: ProblemPart | None
    notes: list[str] = Field(description="what differs from vLLM's model")
    remarks: list[str] = Field(description="what is not known, and by which rules the rest is")
    assumptions: list[str]
    not_modelled: list[str]


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return DryRun.model_json_schema()
