"""One release's answer for a deployment, flattened to named values that can be compared."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..deployment import Deployment
from ..errors import CgplanError
from ..light_dataclass import dataclass
from ..releases import facts
from ..resolve import resolve
from ..resolve.coverage import Coverage
from ..resolve.memory_deduction import DEDUCTED, graph_memory_deducted
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
        "splitting_ops",
        "block_size",
    }
)
"""Settings of the resolved configuration that are fields of their own; the block size is only what was given."""

OF_BATCHES = ("coverage.", "first_cliff.", "graphs.unreachable")
"""Fields that are found by asking for many batches, which takes longer than to resolve."""

DISPATCHES = (
    "runner",
    "cudagraph_mode",
    "capture_sizes",
    "max_num_seqs",
    "max_num_batched_tokens",
    "uniform_decode_query_len",
    "schedule",
    "lora",
    "pads_to",
    "habits",
    "captures",
)
"""What decides which graph a batch runs in: attributes of Resolution."""

ATTENTION_OPS = "every attention op"


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


def differ(name: str, one: Snapshot, other: Snapshot) -> bool:
    """Whether the two have different values of a field. A refusal that only names its release is the same one."""
    if name == "startup" and one.error is not None and other.error is not None:
        return _refusal(one) != _refusal(other)
    return bool(one.values.get(name) != other.values.get(name))


def _refusal(side: Snapshot) -> tuple[str, str]:
    assert side.error is not None
    return side.error.code, side.error.message.replace(side.release, "")


def snapshot(deployment: Deployment, release: str, like: Snapshot | None = None) -> Snapshot:
    """`deployment` at `release`; its own release does not count.

    What batches run in is taken from `like` where that has the same graphs and finds them in the same way.
    """
    asked = deployment.model_copy(update={"vllm": release})
    try:
        found = resolve(asked)
        values = _values(found, like)
        deduction = graph_memory_deducted(asked, release, found.runner, found.cudagraph_mode)
    except CgplanError as error:
        return Snapshot(release, {"startup": error.as_dict()}, error=error)
    values["graph_memory_deducted"] = deduction.deducted
    kept = Decision(
        DEDUCTED.code, "graph_memory_deducted", None, deduction.deducted, deduction.reason, DEDUCTED.citation
    )
    return Snapshot(release, values, (*found.decisions, kept), found)


def _values(r: Resolution, like: Snapshot | None) -> dict[str, Any]:
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
        "max_cudagraph_capture_size": r.max_capture_size,
        "capture_sizes": list(r.capture_sizes),
        "graphs.FULL": r.graph_count(CUDAGraphMode.FULL),
        "graphs.PIECEWISE": r.graph_count(CUDAGraphMode.PIECEWISE),
        "graphs.total": r.graph_count(),
        "backend.name": r.backend.name,
        "backend.support": r.backend.support.name,
        "backend.weakest": r.backend.weakest,
    }
    if r.lora is not None:
        values["lora_cases"] = list(r.lora.cases)
    if like is not None and like.resolution is not None and _same_batches(like.resolution, r):
        values |= {name: value for name, value in like.values.items() if name.startswith(OF_BATCHES)}
    else:
        values |= _of_batches(r)
    values |= _drafter(r)
    values |= {"num_ubatches": r.num_ubatches, "pads_to": r.pads_to}
    values |= _findings(r)
    values |= {f"config.{name}": value for name, value in r.config.items() if name not in SHOWN_ELSEWHERE}
    values["config.splitting_ops"] = _splitting_ops(r)
    # A pass that a release does not have counts as off.
    passes = r.config.get("pass_config") or {}
    values |= {f"config.pass_config.{name}": value for name, value in passes.items() if value not in (None, False)}
    return values


def _splitting_ops(r: Resolution) -> list[str]:
    """The ops at which the model is cut. The attention ops of the release are one word: most are of other models."""
    ops: list[str] = r.config.get("splitting_ops") or []
    known: list[str] = facts("pipeline", r.vllm_version)["splitting"]["attention_ops"]
    if not set(known) <= set(ops):
        return ops
    return [ATTENTION_OPS, *(op for op in ops if op not in known)]


def _same_batches(one: Resolution, other: Resolution) -> bool:
    """Whether every batch runs in the same graph in both."""
    return all(getattr(one, name) == getattr(other, name) for name in DISPATCHES)


def _of_batches(r: Resolution) -> dict[str, Any]:
    found: dict[str, Any] = {"graphs.unreachable": len(r.unreachable), **_coverage(r, 0, "")}
    if r.lora is not None:
        found |= _coverage(r, r.lora.max_loras, ".lora")
    return found


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
    """Messages by code; cliffs, which the rules do not note, are told by the coverage."""
    found: dict[str, Any] = {}
    for finding in r.noted:
        found.setdefault(f"finding.{finding.code}", []).append(finding.message)
    return found
