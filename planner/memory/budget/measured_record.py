"""A measured record of one start: what a deployment really took, kept to plan the same deployment again.

    {"schema_version": 1, "source": "start of 2026-11-30",
     "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H200", "tensor_parallel_size": 1, ...},
     "measured": {"weights_bytes": 16059987968, "activation_bytes": 2231369728, ...}}

A record speaks for deployments with its fingerprint only. Bytes are of one rank. `activation_bytes` is without the
estimate of CUDA graphs, which the log of vLLM adds to it since 0.27.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...deployment import Deployment
from ...errors import InputError, shorten
from ...releases import canonical
from ...resolve import Resolution
from .measured import Measured

Bytes = Field(default=None, ge=0, le=1 << 50)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Fingerprint(_Part):
    """What the measured values depend on. A key that is left out or null is not compared."""

    vllm_version: str
    gpu: str
    model: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    cudagraph_mode: str | None = None
    capture_sizes: list[int] | None = None
    runner: str | None = None
    graphs: dict[str, int] | None = None
    attention_backend: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None


class MeasuredBytes(_Part):
    """What was measured, bytes of one rank; null: not measured."""

    weights_bytes: int | None = Bytes
    activation_bytes: int | None = Bytes
    non_torch_bytes: int | None = Bytes
    total_bytes: int | None = Bytes
    free_bytes: int | None = Bytes
    graph_bytes: int | None = Bytes
    graph_estimate_bytes: int | None = Bytes


class Profile(_Part):
    """A measured record.

    Attributes:
        name: of the measurement, where several stand in one file; not looked at.
        source: where it is from, in words for a person.
        fingerprint: of the deployment that was measured.
        measured: the values.
        profile: more of `cgplan profile`, which a plan does not need: captures, times, machine.
    """

    schema_version: int = Field(ge=1, le=1)
    name: str | None = None
    source: str = Field(default="a measured record", max_length=200)
    fingerprint: Fingerprint
    measured: MeasuredBytes
    profile: dict[str, Any] | None = None

    def as_measured(self) -> Measured:
        found = self.measured
        return Measured(
            weights=found.weights_bytes,
            activation=found.activation_bytes,
            non_torch=found.non_torch_bytes,
            total=found.total_bytes,
            free=found.free_bytes,
            graphs=found.graph_bytes,
            graph_estimate=found.graph_estimate_bytes,
            source=in_one_line(self.source),
            capture_seconds=self.capture_seconds,
        )

    @property
    def capture_seconds(self) -> float | None:
        """How long vLLM's own capture of all graphs took; None: not measured, or not of all."""
        more = self.profile or {}
        try:
            if more["machine"]["engine"] != "vllm" or not more["complete"]:
                return None
            captures = more["ranks"][0]["captures"]
            if len(captures) != sum(more["graphs"].values()):
                return None
            seconds = float(sum(one["seconds"] for one in captures))
        except (KeyError, IndexError, TypeError, AttributeError):
            return None
        return seconds if 0 < seconds < LONGEST else None

    @property
    def kv_cache_bytes(self) -> int | None:
        """The KV cache that vLLM had in that start, bytes of one rank; None: not measured."""
        own = (self.profile or {}).get("vllm")
        found = own.get("available_kv_bytes") if isinstance(own, dict) else None
        return found if type(found) is int and found > 0 else None


LONGEST = 86_400
"""No capture takes a day, seconds."""


def in_one_line(text: str) -> str:
    """A text of a record that nobody vouches for, as a terminal and a page can show it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def profile_of(document: Any, where: str, name: str = "") -> Profile:
    """The record in a parsed JSON document.

    Args:
        where: the option that names it.
        name: of its file, short; "": it is of none.

    Raises:
        InputError: CG911, it is no such record.
    """
    try:
        return Profile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = shorten(in_one_line(".".join(str(part) for part in first["loc"]) or "document"), 60)
        raise InputError(
            f"{name or where} is no measured record: {path}: {first['msg'][0].lower()}{first['msg'][1:]}",
            code="CG911",
            where=where,
            fix="`cgplan schema profile` prints the form",
        ) from None


def check_fits(profile: Profile, deployment: Deployment, resolution: Resolution, where: str) -> None:
    """A record of another deployment says nothing of this one.

    Raises:
        InputError: CG907, the record is of another deployment.
    """
    here = fingerprint_of(deployment, resolution)
    said = profile.fingerprint.model_dump(exclude_none=True)
    said["vllm_version"] = canonical(profile.fingerprint.vllm_version)
    if here["model"] is None:
        said.pop("model", None)
    other = [name for name, value in said.items() if here[name] != value]
    if other:
        shown = ", ".join(
            f"{name} {in_one_line(shorten(said[name], 40))}, not {in_one_line(shorten(here[name], 40))}"
            for name in other[:3]
        )
        same = "give --model as the record has it; where both are the same model, set its fingerprint.model to null"
        single = "give a record of this deployment, or single values such as --weights-bytes"
        raise InputError(
            f"the record is of another deployment: {shown}",
            code="CG907",
            where=where,
            fix=same if other == ["model"] else single,
        )


def fingerprint_of(deployment: Deployment, resolution: Resolution) -> Mapping[str, Any]:
    """The fingerprint of a deployment."""
    return {
        "vllm_version": canonical(deployment.vllm),
        "gpu": deployment.gpu.name,
        "model": deployment.model.name,
        "tensor_parallel_size": deployment.tensor_parallel_size,
        "pipeline_parallel_size": deployment.pipeline_parallel_size,
        "data_parallel_size": deployment.data_parallel_size,
        "max_num_seqs": resolution.max_num_seqs,
        "max_num_batched_tokens": resolution.max_num_batched_tokens,
        "max_model_len": resolution.max_model_len,
        "cudagraph_mode": resolution.cudagraph_mode.value,
        "capture_sizes": list(resolution.capture_sizes),
        "runner": resolution.runner.value,
        "graphs": {str(mode): len(graphs) for mode, graphs in resolution.captures.items()},
        "attention_backend": resolution.backend.name,
        "dtype": deployment.model.dtype if deployment.dtype == "auto" else deployment.dtype,
        "quantization": deployment.quantization or deployment.model.quantization or "none",
        "kv_cache_dtype": deployment.kv_cache_dtype,
    }


def json_schema() -> dict[str, Any]:
    """JSON Schema of a measured record."""
    return Profile.model_json_schema()
