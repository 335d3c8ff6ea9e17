"""From a start to a measured record, which `plan --profile` plans the same deployment with.

A record is of one rank. Its peak is without the estimate of the graphs, and what it calls outside torch is without the
runner's buffers, which the plan adds itself: so the plan of the record leaves the KV cache that the log has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import InputError, shorten
from ..memory.budget.budget import runner_buffers
from ..memory.budget.measured_record import Profile, fingerprint_of, profile_of
from ..releases import facts
from ..resolve import Resolution
from .against_plan import Comparison
from .arguments import arguments_of, model_of, words_of
from .deployment import Served
from .diagnosis import Diagnosis, came_up
from .known import MIB, ROUNDING, deducts, rank_named, requested_of, tightest, transient
from .record import Rank, Start


class Record(NamedTuple):
    """A measured record.

    Attributes:
        document: as JSON.
        rank: of which it is.
        left_out: what the log does not have, or what a record does not hold, one line each.
        remarks: what to know before a plan is made of it, one line each.
        serve: the `vllm serve` line of the deployment, its words; env: what vLLM saw of its environment.
        release: of vLLM.
    """

    document: dict[str, Any]
    rank: str
    left_out: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    release: str = ""

    def as_text(self) -> str:
        return json.dumps(self.document, indent=1) + "\n"


def record_of(
    start: Start, comparison: Comparison, rank: str | None = None, source: str = "", ended: Diagnosis | None = None
) -> Record:
    """The record of one rank.

    Args:
        rank: its name or number; None: the one with the least KV cache.
        source: where the log is from, in words.
        ended: how the start ended, where it crashed; the record says it, for its values do not show what was missing.

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
    whose = f"{said}, rank {chosen.name}, vLLM {start.vllm_version or served.deployment.vllm}"
    crashed = "" if ended is None else f", a start that crashed ({ended.code}, {ended.step or ended.kind})"
    fingerprint = _fingerprint(start, served, resolution)
    document = {
        "schema_version": 1,
        "source": shorten(whose, 190 - len(crashed)) + crashed,
        "fingerprint": fingerprint,
        "measured": values,
        "profile": {
            "of": "a startup log",
            "came_up": ended is None and came_up(start),
            "crash": None if ended is None else {"code": ended.code, "what": ended.what, "works": dict(ended.largest)},
            "within_bytes": ROUNDING,
        },
    }
    remarks = [
        f"values are of two decimals, within {ROUNDING / MIB:.0f} MiB, so a plan of it may differ by some blocks"
    ]
    if ended is not None:
        remarks.insert(
            0, f"that start crashed, so a plan of the record may not start either: {ended.what}; {ended.fix}"
        )
    serve = _serve_line(start, served, resolution, fingerprint)
    env = tuple(served.deployment.env.items())
    return Record(document, chosen.name, tuple(left_out), tuple(remarks), serve, env, served.deployment.vllm)


def _serve_line(
    start: Start, served: Served, resolution: Resolution, fingerprint: Mapping[str, Any]
) -> tuple[str, ...]:
    """The line with what the log shows in place of what the arguments alone would give."""
    assert served.deployment is not None
    given, _ = arguments_of(start)
    planned = fingerprint_of(served.deployment, resolution)
    other = {name: value for name, value in fingerprint.items() if planned.get(name) != value}
    for name in ("max_num_batched_tokens", "max_model_len", "max_num_seqs"):
        if name in other:
            given[name] = other[name]
    _add_solved(given, served.deployment)
    graphs = {"cudagraph_mode": "cudagraph_mode", "capture_sizes": "cudagraph_capture_sizes"}
    shown = {graphs[name]: other[name] for name in graphs if name in other}
    if shown:
        config = given.get("compilation_config")
        given["compilation_config"] = {**(config if isinstance(config, Mapping) else {}), **shown}
    return tuple(words_of(given, model_of(start) or served.deployment.model.name or "model", served.deployment.vllm)[0])


def _add_solved(given: dict[str, Any], deployment: Deployment) -> None:
    """Requests and drafts that were solved back from the graphs."""
    if deployment.max_num_seqs is not None:
        given.setdefault("max_num_seqs", deployment.max_num_seqs)
    drafts = deployment.speculative_config
    if drafts is not None and "speculative_config" not in given and drafts.method and drafts.num_speculative_tokens:
        given["speculative_config"] = {"method": drafts.method, "num_speculative_tokens": drafts.num_speculative_tokens}


def read_back(record: Record) -> Profile:
    """The record as `plan --profile` reads it; what is wrong with it is found before it is written."""
    return profile_of(json.loads(record.as_text()), "the record")


def _rank(start: Start, name: str | None) -> Rank:
    if name is not None:
        found = rank_named(start, name)
        if found is None:
            known = ", ".join(rank.name for rank in start.ranks[:12])
            raise InputError(
                f"the log has no rank {shorten(name, 40)!r}",
                code="CG902",
                where="--rank",
                fix=f"give one of {known}" if known else "leave --rank out: the log names none",
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
