"""The form of a record of `cgplan sweep`, one line of --output and of --json, as a pydantic model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """One deployment of a grid. Beside these keys it has one for each option of [base] and [grid] that varies.

    Null: not known, or there is none. Bytes are of one GPU.
    """

    model_config = ConfigDict(extra="allow")

    key: str = Field(description="what a sweep knows the deployment by when it goes on")
    starts: Literal["yes", "no", "unsure"] | None
    fits: bool | None = Field(description="by the best estimates")
    code: str | None = Field(description="why it does not start, or may not")
    message: str | None
    model_runner: str | None
    backend: str | None
    effective_cudagraph_mode: str | None
    decode_mode: str | None
    mixed_mode: str | None
    graphs: int | None
    graphs_full: int | None
    graphs_piecewise: int | None
    effective_max_cudagraph_capture_size: int | None
    covered_batches: int | None
    uncovered_batches: int | None
    mean_waste: float | None
    effective_max_num_seqs: int | None
    effective_max_num_batched_tokens: int | None
    effective_max_model_len: int | None
    gpus: int | None
    replicas: int | None
    weights_bytes: int | None
    activation_bytes: int | None
    graph_bytes: int | None
    deducted_bytes: int | None
    kv_bytes: int | None
    kv_tokens: int | None
    max_concurrency: float | None
    capture_seconds: float | None


def json_schema() -> dict[str, Any]:
    """JSON Schema of a record."""
    return Record.model_json_schema()
