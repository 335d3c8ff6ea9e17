"""The form of the JSON document of a check, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Said = Literal["given", "file", "here", "assumed"]
"""Who says so: the user, the file, the machine that cgplan runs on, or nobody."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RelatedPart(_Part):
    """Another place that a diagnostic speaks of."""

    message: str
    file: str | None
    line: int
    column: int
    end_line: int
    end_column: int


class DiagnosticPart(_Part):
    """One finding. Lines and columns count from 1, columns in characters; the end column is the first behind it.

    `file` is null for a line behind `--`, "-" for standard input; the place is null where the whole server is meant.
    `fixable` is null where nothing can be mended by --fix; "unsafe" needs --unsafe-fixes.
    """

    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    why: str
    fix: str | None
    flag: str | None
    file: str | None
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None
    fixable: Literal["safe", "unsafe"] | None
    related: list[RelatedPart]


class RemarkPart(_Part):
    """What the reader of the file noticed."""

    kind: str
    message: str
    fix: str | None
    line: int | None
    column: int | None


class CountPart(_Part):
    """Numbers of graphs of the target model."""

    FULL: int
    PIECEWISE: int
    total: int


class ResolutionPart(_Part):
    """What vLLM makes of the line; `cgplan resolve --json` says more."""

    runner: Literal["V1", "V2"]
    compilation_mode: str
    requested_mode: str
    cudagraph_mode: str
    decode_mode: str
    mixed_mode: str
    backend: str
    graphs: CountPart
    capture_sizes: list[int]
    max_cudagraph_capture_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int


class LaunchPart(_Part):
    """One server. `starts` is null where cgplan cannot tell.

    `resolution` is null where there is none; of a line that vLLM refuses it is that of the rest of the line.
    `max_num_seqs_max` is the largest that starts, with its reason, where a finding says that the one asked for is not.
    """

    label: str
    kind: str
    line: int
    vllm_version: str
    vllm_version_from: Said
    gpu: str | None
    gpu_from: Said | None
    model: str | None
    model_from: Said | None
    model_stand_in: str | None
    starts: bool | None
    resolution: ResolutionPart | None
    max_num_seqs_max: int | None
    max_num_seqs_max_reason: str | None
    assumptions: list[str]
    not_modelled: list[str]
    remarks: list[RemarkPart]
    diagnostics: list[DiagnosticPart]


class ErrorPart(_Part):
    """Why a file cannot be read."""

    code: str
    message: str
    where: str | None
    fix: str | None


class FilePart(_Part):
    """One file. `path` is null for a line behind `--`, "-" for standard input.

    `passed_over` says why a file that was met in a folder was not read; null: it was.
    """

    path: str | None
    launches: list[LaunchPart]
    diagnostics: list[DiagnosticPart]
    remarks: list[RemarkPart]
    error: ErrorPart | None
    passed_over: str | None


class SummaryPart(_Part):
    """Counts over all files; `fixable` is what --fix mends. Files passed over are not among `files`."""

    errors: int
    warnings: int
    infos: int
    files: int
    servers: int
    unreadable: int
    fixable: int
    passed_over: int


class CheckDocument(_Part):
    """What `cgplan check --json` prints."""

    schema_version: Literal[1]
    files: list[FilePart]
    summary: SummaryPart


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return CheckDocument.model_json_schema()
