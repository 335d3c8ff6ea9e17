"""One release's answer for a deployment, flattened to named values that can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import resolve
from ..resolve.cliffs import CODES as CLIFFS
from ..resolve.coverage import Coverage
from ..resolve.memory_deduction import graph_memory_deducted
from ..resolve.resolution import Resolution
from ..trace import Decision
from ..vocabulary import CUDAGraphMode

SHOWN_ELSEWHERE = frozenset(
    {
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "mode",
        "cudagraph_mode",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "use_v2_model_runner",
        "pass_config",
    }
)
"""Settings of the resolved configuration that are fields of their own."""


@dataclass(frozen=True)
class Snapshot:
    """A deployment at one release.

    Attributes:
        release: of vLLM.
        values: by field name (fields.py); only "startup" where vLLM does not start.
        decisions: what the rules did.
        resolution: None where vLLM does not start.
        error: why not, or None.
    """

    release: str
    values: dict[str, Any]
    decisions: tuple[Decision, ...] = ()
    resolution: Resolution | None = field(default=None, repr=False, compare=False)
    error: CgplanError | None = field(default=None, compare=False)

    @property
    def starts(self) -> bool:
        return self.error is None

    @property
    def backends(self) -> frozenset[str]:
        """Names of the attention backends, as the catalogue has them."""
        if self.resolution is None:
            return frozenset()
        backend = self.resolution.backend
        return frozenset({backend.name, *(group.name for group in backend.groups)})


def snapshot(deployment: Deployment, release: str) -> Snapshot:
    """`deployment` at `release`; its own release does not count."""
    asked = deployment.model_copy(update={"vllm": release})
    try:
        found = resolve(asked)
        values = _values(found)
        deduction = graph_memory_deducted(asked, release, found.runner, found.cudagraph_mode)
    except CgplanError as error:
        return Snapshot(release, {"startup": error.as_dict()}, error=error)
    values["graph_memory_deducted"] = deduction.deducted
    return Snapshot(release, values, found.decisions, found)


def _values(r: Resolution) -> dict[str, Any]:
    values: dict[str, Any] = {
        "startup": None,
        "runner": r.runner.value,
        "max_num_seqs": r.max_num_seqs,
        "max_num_batched_tokens": r.max_num_batched_tokens,
        "max_model_len": r.max_model_len,
        "uniform_decode_query_len": r.uniform_decode_query_len,
        "compilation_mode": r.compilation_mode.value,
        "requested_mode": r.requested_mode.value,
        "configured_mode": r.configured_mode.value,
        "cudagraph_mode": r.cudagraph_mode.value,
        "max_capture_size": r.max_capture_size,
        "capture_sizes": list(r.capture_sizes),
        "graphs.FULL": r.graph_count(CUDAGraphMode.FULL),
        "graphs.PIECEWISE": r.graph_count(CUDAGraphMode.PIECEWISE),
        "graphs.total": r.graph_count(),
        "graphs.unreachable": len(r.unreachable),
        "backend.name": r.backend.name,
        "backend.support": r.backend.support.name,
        "backend.weakest": r.backend.weakest,
    }
    values |= _coverage(r, 0, "")
    if r.lora is not None:
        values["lora_cases"] = list(r.lora.cases)
        values |= _coverage(r, r.lora.max_loras, ".lora")
    values |= _drafter(r)
    values |= {"num_ubatches": r.num_ubatches, "pads_to": r.pads_to}
    values |= _findings(r)
    values |= {f"config.{name}": value for name, value in r.config.items() if name not in SHOWN_ELSEWHERE}
    passes = r.config.get("pass_config") or {}
    values |= {f"config.pass_config.{name}": value for name, value in passes.items()}
    return values


def _coverage(r: Resolution, adapters: int, suffix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, coverage in (
        ("uniform_decode", r.uniform_decode_coverage(adapters)),
        ("mixed", r.mixed_coverage(adapters)),
    ):
        found[f"coverage.{name}{suffix}"] = _stretches(coverage)
        found[f"first_cliff.{name}{suffix}"] = coverage.first_cliff
    return found


def _stretches(coverage: Coverage) -> list[dict[str, Any]]:
    """Ranges with one mode, whatever they are padded to."""
    found: list[dict[str, Any]] = []
    for r in coverage.ranges:
        if found and found[-1]["mode"] == r.mode.value:
            found[-1]["to"] = r.last
        else:
            found.append({"from": r.first, "to": r.last, "mode": r.mode.value})
    return found


def _drafter(r: Resolution) -> dict[str, Any]:
    if r.drafter is None:
        return {"drafter.speculator": None, "drafter.graphs": 0}
    counts = {name: sum(len(graphs) for graphs in captures.values()) for name, captures in r.drafter.managers.items()}
    found: dict[str, Any] = {"drafter.speculator": r.drafter.speculator, "drafter.graphs": sum(counts.values())}
    return found | {f"drafter.graphs.{name}": count for name, count in counts.items()}


def _findings(r: Resolution) -> dict[str, Any]:
    """Messages by code; cliffs are told by the coverage."""
    found: dict[str, Any] = {}
    for finding in r.findings:
        if finding.code not in CLIFFS:
            found.setdefault(f"finding.{finding.code}", []).append(finding.message)
    return found
