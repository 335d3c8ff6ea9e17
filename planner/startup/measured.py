"""From a start to a measured record, which `plan --profile` plans the same deployment with.

A record is of one rank. Its peak is without the estimate of the graphs, and what it calls outside torch is without the
runner's buffers, which the plan adds itself: so the plan of the record leaves the KV cache that the log has.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..errors import InputError, shorten
from ..memory.budget.budget import runner_buffers
from ..memory.budget.measured_record import Profile, fingerprint_of, profile_of
from ..releases import facts
from ..resolve import Resolution
from .against_plan import Comparison
from .deployment import Served
from .known import deducts, rank_named, requested_of, tightest, transient
from .record import Rank, Start


class Record(NamedTuple):
    """A measured record.

    Attributes:
        document: as JSON.
        rank: of which it is.
        left_out: what the log does not have, or what a record does not hold, one line each.
    """

    document: dict[str, Any]
    rank: str
    left_out: tuple[str, ...]

    def as_text(self) -> str:
        return json.dumps(self.document, indent=1) + "\n"


def record_of(start: Start, comparison: Comparison, rank: str | None = None, source: str = "") -> Record:
    """The record of one rank.

    Args:
        rank: its name or number; None: the one with the least KV cache.
        source: where the log is from, in words.

    Raises:
        InputError: CG905, the deployment is not known; CG902, there is no such rank; CG911, the log has no values.
    """
    chosen = _rank(start, rank)
    served, resolution = comparison.served, comparison.resolution
    if served.deployment is None or resolution is None:
        raise InputError(
            f"a measured record needs the deployment, and {comparison.why_not or 'it is not known'}",
            code="CG905", where="--save", fix=comparison.fix or "give --gpu and --model",
        )  # fmt: skip
    values, left_out = _values(start, chosen, served, resolution)
    if not any(name in values for name in ("weights_bytes", "activation_bytes", "graph_bytes", "non_torch_bytes")):
        raise InputError(
            f"the log has no bytes of rank {chosen.name} to keep", code="CG911", where="--save",
            fix="give a log of a start that came as far as its memory",
        )  # fmt: skip
    said = source or "a startup log"
    document = {
        "schema_version": 1,
        "source": shorten(f"{said}, rank {chosen.name}, vLLM {start.vllm_version or served.deployment.vllm}", 190),
        "fingerprint": _fingerprint(start, served, resolution),
        "measured": values,
    }
    return Record(document, chosen.name, tuple(left_out))


def read_back(record: Record) -> Profile:
    """The record as `plan --profile` reads it; what is wrong with it is found before it is written."""
    return profile_of(json.loads(record.as_text()), "the record")


def _rank(start: Start, name: str | None) -> Rank:
    if name is not None:
        found = rank_named(start, name)
        if found is None:
            known = ", ".join(rank.name for rank in start.ranks[:12]) or "none"
            raise InputError(
                f"the log has no rank {shorten(name, 40)!r}", code="CG902", where="--rank", fix=f"ranks: {known}"
            )
        return found
    found = tightest(start.ranks) or next(iter(start.ranks), None)
    if found is None:
        raise InputError(
            "the log has no rank with values", code="CG911", where="--save", fix="give a log of a whole start"
        )
    return found


def _fingerprint(start: Start, served: Served, resolution: Resolution) -> dict[str, Any]:
    """Of the deployment, but graphs and limits as the log has them where it does."""
    assert served.deployment is not None
    found = {name: value for name, value in fingerprint_of(served.deployment, resolution).items() if value is not None}
    seen = {
        "max_num_batched_tokens": start.max_num_batched_tokens,
        "cudagraph_mode": start.cudagraph_mode,
        "capture_sizes": list(start.capture_sizes) if start.capture_sizes is not None else None,
        "runner": start.runner,
    }
    if start.derived_max_model_len is None:
        seen["max_model_len"] = start.max_model_len
    found.update({name: value for name, value in seen.items() if value is not None})
    return found


def _values(start: Start, rank: Rank, served: Served, resolution: Resolution) -> tuple[dict[str, int], list[str]]:
    assert served.deployment is not None
    peak = transient(rank)
    found = {
        "weights_bytes": rank.weights_bytes,
        "activation_bytes": peak,
        "non_torch_bytes": rank.non_torch_bytes,
        "total_bytes": rank.total_bytes,
        "free_bytes": rank.free_bytes,
        "graph_bytes": rank.graph_actual_bytes,
        "graph_estimate_bytes": rank.graph_estimate_bytes,
    }
    release = served.deployment.vllm
    if found["non_torch_bytes"] is None and rank.weights_bytes is not None:
        buffers = 0
        if facts("budget", release)["requested"]["two_term"]:
            buffers = runner_buffers(served.deployment, resolution).best
        held = _held(start, rank, peak)
        if held is not None:
            found["non_torch_bytes"] = max(0, held - rank.weights_bytes - buffers)
    left_out = []
    kept: dict[str, int] = {}
    for name, value in found.items():
        if value is None:
            left_out.append(f"{name}: not in the log")
        elif value < 0:
            left_out.append(f"{name}: {value} is below 0, and says nothing of the next start")
        else:
            kept[name] = value
    return kept, left_out


def _held(start: Start, rank: Rank, peak: int | None) -> int | None:
    """What vLLM took off beside the peak: printed, else what the KV cache lacks of what was asked for."""
    if rank.consumed_bytes is not None:
        return rank.consumed_bytes
    asked = requested_of(start, rank)
    if asked is None or rank.kv_bytes is None or peak is None:
        return None
    estimate = (rank.graph_estimate_bytes or 0) if deducts(start, rank) else 0
    return asked - rank.kv_bytes - peak - estimate
