"""How to keep what the first release did: the flag or variable that restores it, tried out under the last release."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..resolve.memory_deduction import VARIABLE
from ..resolve.resolution import Resolution
from ..trace import RULES
from ..vocabulary import CompilationMode, CUDAGraphMode
from .changes import Change, Comparison, Restore
from .snapshot import Snapshot, snapshot

RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
NOTHING = Restore(None, "No setting restores it.")
SWITCHES = ("async_scheduling", "enable_chunked_prefill")


class Candidate(NamedTuple):
    """A setting that may restore a value.

    Attributes:
        setting: a flag, or NAME=VALUE of the environment.
        note: what else there is to know.
        applied: the deployment with the setting.
    """

    setting: str
    note: str
    applied: Deployment


def restores(comparison: Comparison) -> dict[str, Restore]:
    """By field of every change: what keeps the old value under the last release.

    A setting is named only if it does: each is resolved once at the last release.
    """
    tried: dict[str, Snapshot] = {}
    return {change.field: _restore(change, comparison, tried) for change in comparison.changes}


def _restore(change: Change, comparison: Comparison, tried: dict[str, Snapshot]) -> Restore:
    first, last = comparison.first, comparison.last
    if change.field == "startup":
        return _start(last)
    if first.resolution is None or last.resolution is None:
        return NOTHING
    for candidate in _candidates(change, comparison.deployment, first.resolution, last.resolution):
        if candidate.setting not in tried:
            tried[candidate.setting] = snapshot(candidate.applied, last.release)
        outcome = tried[candidate.setting]
        if outcome.starts and outcome.values.get(change.field) == change.before:
            return Restore(candidate.setting, candidate.note)
    if change.field == "backend.name":
        return _backend_does_not_fit(first.resolution, last.resolution)
    return NOTHING


def _start(last: Snapshot) -> Restore:
    if last.error is None:
        return Restore(None, "Nothing to do: it is no longer refused.")
    return Restore(None, last.error.fix or RULES[last.error.code].instead)


def _backend_does_not_fit(a: Resolution, b: Resolution) -> Restore:
    reasons = dict(b.backend.rejected).get(a.backend.name)
    return Restore(None, f"{a.backend.name} does not fit: {'; '.join(reasons)}.") if reasons else NOTHING


def _candidates(change: Change, d: Deployment, a: Resolution, b: Resolution) -> list[Candidate]:
    name, before = change.field.removeprefix("config."), change.before
    if name.startswith("pass_config.") and before in (None, True):
        return [_fusion(d, name.removeprefix("pass_config."), bool(before))]
    if before is None:
        return []
    if name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "max_num_scheduled_tokens"):
        return [_flagged(d, name, before)]
    if name in SWITCHES:
        flag = name.replace("_", "-")
        return [Candidate(f"--{'' if before else 'no-'}{flag}", "", _updated(d, {name: before}))]
    makers: Mapping[str, Callable[[], list[Candidate]]] = {
        "runner": lambda: [_variable(d, RUNNER_VARIABLE, before == "V2", "")],
        "graph_memory_deducted": lambda: [_estimate(d, before)],
        "compilation_mode": lambda: [_compilation(d, a.compilation_mode)],
        "requested_mode": lambda: [_mode(d, a.requested_mode)],
        "configured_mode": lambda: [_mode(d, a.configured_mode)],
        "cudagraph_mode": lambda: [_mode(d, a.cudagraph_mode)],
        "capture_sizes": lambda: _sizes(d, a, b),
        "max_cudagraph_capture_size": lambda: _sizes(d, a, b),
        "backend.name": lambda: [_flagged(d, "attention_backend", before)],
    }
    return makers[name]() if name in makers else []


def _flagged(d: Deployment, name: str, value: Any) -> Candidate:
    return Candidate(f"--{name.replace('_', '-')} {value}", "", _updated(d, {name: value}))


def _variable(d: Deployment, name: str, on: bool, note: str) -> Candidate:
    return Candidate(f"{name}={int(on)}", note, _updated(d, {"env": {**d.env, name: str(int(on))}}))


def _estimate(d: Deployment, before: bool) -> Candidate:
    note = (
        "Or lower --gpu-memory-utilization by what the graphs take."
        if before
        else "Or raise --gpu-memory-utilization by the estimate, which vLLM logs."
    )
    return _variable(d, VARIABLE, before, note)


def _compilation(d: Deployment, mode: CompilationMode) -> Candidate:
    return Candidate(f"-cc.mode={list(CompilationMode).index(mode)}", "", _compiled(d, {"mode": mode}))


def _mode(d: Deployment, mode: CUDAGraphMode) -> Candidate:
    return Candidate(f"--cudagraph-mode {mode.value}", "", _compiled(d, {"cudagraph_mode": mode}))


def _fusion(d: Deployment, name: str, on: bool) -> Candidate:
    passes = d.compilation_config.pass_config.model_copy(update={name: on})
    return Candidate(f"-cc.pass_config.{name}={json.dumps(on)}", "", _compiled(d, {"pass_config": passes}))


def _sizes(d: Deployment, a: Resolution, b: Resolution) -> list[Candidate]:
    """A lower maximum where that is all, else the list of the old sizes."""
    sizes = a.capture_sizes
    if not sizes:
        return []
    named = f"--cudagraph-capture-sizes {' '.join(str(size) for size in sizes)}"
    return [
        _flagged(d, "max_cudagraph_capture_size", sizes[-1]),
        Candidate(named, "", _updated(d, {"cudagraph_capture_sizes": sizes, "max_cudagraph_capture_size": None})),
    ]


def _updated(d: Deployment, values: dict[str, Any]) -> Deployment:
    return d.model_copy(update=values)


def _compiled(d: Deployment, values: dict[str, Any]) -> Deployment:
    return _updated(d, {"compilation_config": d.compilation_config.model_copy(update=values)})
