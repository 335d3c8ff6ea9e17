"""The result of a profile as data: what `cgplan profile --json` writes and other commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...deployment import Deployment
from ...resolve import Resolution
from ..budget.measured_record import fingerprint_of
from ..estimates import Interval
from .descriptors import Descriptor, counts
from .extrapolate import Captured, from_few, two_sample, whole
from .measure import Measured
from .speed import StepTimes, cost_table, launch_bound_up_to

SCHEMA_VERSION = 1


def answers(measured: Measured, every: Sequence[Descriptor]) -> dict[str, Any]:
    """The three answers to what all graphs take, bytes; None where the captures do not give one.

    two: vLLM's rule over the two largest. auto: from the captured ones, with bounds. all: the sum, where all were
    captured.
    """
    captured = measured.captured
    if not captured:
        return {"two": None, "auto": None, "all": None}
    few = from_few(captured, every, measured.setup_bytes)
    complete = len(captured) == len(every)
    return {
        "two": two_sample(captured, every),
        "auto": _auto(measured, every, few).as_dict(),
        "all": whole(captured, measured.setup_bytes) if complete else None,
    }


def _auto(measured: Measured, every: Sequence[Descriptor], few: Interval) -> Interval:
    """Where everything was captured, what `auto` would have said, so that its error can be seen."""
    from .sampling import chosen

    if len(measured.captured) < len(every):
        return few
    wanted = set(chosen(every, "auto"))
    return from_few([one for one in measured.captured if one.descriptor in wanted], every, measured.setup_bytes)


def document(
    deployment: Deployment,
    resolution: Resolution,
    every: Sequence[Descriptor],
    ranks: Sequence[Measured],
    *,
    machine: Mapping[str, Any],
    sample: str,
    source: str,
    workspace_bytes: int | None = None,
    engine_graphs: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON document. `measured` holds only what speaks for vLLM itself, so that `plan --profile` may use it.

    Args:
        every: all graphs of the deployment.
        ranks: what each rank measured.
        machine: GPU, driver, torch, vLLM, engine, date.
        workspace_bytes: what vLLM's attention keeps in the pool, predicted, where the engine's own does not.
        engine_graphs: vLLM's own estimate and figure, of the engine `vllm`.
    """
    own = dict(engine_graphs or {})
    measured: dict[str, Any] = {"total_bytes": machine.get("total_bytes")}
    if own:
        everything = bool(ranks) and len(ranks[0].captured) == len(every)
        measured["graph_estimate_bytes"] = own.get("estimate_bytes")
        measured["graph_bytes"] = own.get("took_bytes") if everything else None  # some are no measure of all
    return {
        "schema_version": SCHEMA_VERSION,
        "source": source,
        "fingerprint": dict(fingerprint_of(deployment, resolution)),
        "measured": {name: value for name, value in measured.items() if value is not None},
        "profile": {
            "machine": dict(machine),
            "sample": sample,
            "graphs": counts(every),
            "captured": counts([one.descriptor for one in ranks[0].captured]) if ranks else {},
            "complete": bool(ranks) and not any(one.stopped for one in ranks),
            "stopped": next((one.stopped for one in ranks if one.stopped), None),
            "attention_workspace_bytes": workspace_bytes,
            "vllm": own or None,
            "ranks": [_rank(number, one, every) for number, one in enumerate(ranks)],
            "cost_seconds": {mode: _costs(ranks, mode) for mode in ("full", "piecewise", "eager")},
            "launch_bound_up_to": launch_bound_up_to(ranks[0].steps) if ranks else None,
            "notes": list(notes),
        },
    }


def _rank(number: int, measured: Measured, every: Sequence[Descriptor]) -> dict[str, Any]:
    prepared = measured.prepared
    return {
        "rank": number,
        "weights_bytes": prepared.weights_bytes if prepared else None,
        "kv_bytes": prepared.kv_bytes if prepared else None,
        "graph_bytes": answers(measured, every),
        "taken_bytes": measured.taken_bytes,
        "setup_bytes": measured.setup_bytes,
        "pool_bytes": sum(one.pool_bytes for one in measured.captured),
        "peak_bytes": measured.peak_bytes,
        "left_bytes": measured.left_bytes,
        "seconds": round(measured.seconds, 3),
        "captures": [_captured(one) for one in measured.captured],
        "steps": [_step(one) for one in measured.steps],
    }


def _captured(one: Captured) -> dict[str, Any]:
    return {
        "mode": str(one.descriptor.mode),
        "num_tokens": one.descriptor.num_tokens,
        "num_active_loras": one.descriptor.num_active_loras,
        "taken_bytes": one.taken_bytes,
        "pool_bytes": one.pool_bytes,
        "seconds": round(one.seconds, 6),
        "instantiate_seconds": None if one.instantiate_seconds is None else round(one.instantiate_seconds, 6),
        "graphs": one.graphs,
        "nodes": one.nodes,
    }


def _step(one: StepTimes) -> dict[str, Any]:
    return {
        "num_tokens": one.num_tokens,
        **{name: _seconds(getattr(one, name)) for name in ("eager", "submit", "full", "piecewise")},
        "kernels": one.kernels,
        "launch_seconds": one.launch_seconds,
        "launch_bound": one.is_launch_bound,
    }


def _seconds(times: Any) -> dict[str, float] | None:
    if times is None:
        return None
    return {name: round(getattr(times, name), 9) for name in ("median", "low", "high")} | {"repeats": times.repeats}


def _costs(ranks: Sequence[Measured], mode: str) -> dict[str, float]:
    """Seconds of a step by size, the slowest rank's: the others wait for it."""
    slowest: dict[int, float] = {}
    for one in ranks:
        if mode == "eager":
            table = {step.num_tokens: step.eager.median for step in one.steps if step.eager is not None}
        else:
            table = dict(cost_table(one.steps, mode))
        for tokens, seconds in table.items():
            slowest[tokens] = max(seconds, slowest.get(tokens, 0.0))
    return {str(tokens): round(seconds, 9) for tokens, seconds in sorted(slowest.items())}


def text(document: Mapping[str, Any]) -> str:
    """As it is written to a file."""
    return json.dumps(document, indent=1) + "\n"
