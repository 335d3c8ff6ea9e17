"""A check of --cudagraph-metrics: whether the table that it asks for is ever printed."""

from __future__ import annotations

from collections.abc import Iterator

from ..trace import Rule
from ..vocabulary import Runner
from .diagnostic import Hit
from .places import Edits, drop, related
from .registry import check
from .subject import Subject
from .what_if import what_if

NOTHING_PRINTED = Rule(
    "CG245",
    title="--cudagraph-metrics prints no table: what counts the batches, or what prints them, is off.",
    why="Runner V2 counts batches by graph from 0.30.0 on. The table is printed beside the engine's statistics, so they"
    " must be logged: not with --disable-log-stats, with several API servers, or with a log level above INFO.",
    example="Qwen3-0.6B on 0.27.1, which runner V2 serves: no table ever comes.",
    instead="Before 0.30.0 set VLLM_USE_V2_MODEL_RUNNER=0 to count, or read the histogram vllm:iteration_tokens_total"
    " of /metrics; leave --disable-log-stats out.",
    source="vllm/v1/worker/gpu/model_runner.py:1711; vllm/v1/metrics/loggers.py:119-122, 1331-1345",
    release="0.30.0",
)
LAST_WITHOUT = "0.29.0"
"""The last release whose runner V2 does not count."""
SWITCH = "VLLM_USE_V2_MODEL_RUNNER"
LEVEL = "VLLM_LOGGING_LEVEL"
QUIET = ("WARNING", "ERROR", "CRITICAL")
HISTOGRAM = "read vllm:iteration_tokens_total of /metrics, as `cgplan logs --metrics` does"


@check(NOTHING_PRINTED, "warning")
def nothing_printed(subject: Subject) -> Iterator[Hit]:
    if not subject.get("cudagraph_metrics"):
        return
    at = subject.at("cudagraph_metrics")
    if subject.get("disable_log_stats"):
        told = related(subject, "switches the statistics off", "disable_log_stats")
        edits: Edits = drop(subject, "disable_log_stats")
        message = "--cudagraph-metrics prints nothing with --disable-log-stats, and /metrics has no counts either"
        yield Hit(message, "drop --disable-log-stats", at, edits=edits, safe=False, related=told)
    servers = subject.get("api_server_count")
    if isinstance(servers, int) and servers > 1:
        told = related(subject, "several servers print no statistics", "api_server_count")
        message = f"--cudagraph-metrics prints nothing with {servers} API servers"
        yield Hit(message, f"--api-server-count 1 to count; else {HISTOGRAM}", at, related=told)
    level = subject.variable(LEVEL)
    if level is not None and (level.value or "").upper() in QUIET:
        yield Hit(f"--cudagraph-metrics prints nothing with {LEVEL}={level.value}", f"set {LEVEL}=INFO", at)
    found = subject.resolution
    if found is not None and found.runner is Runner.V2 and subject.holds(until=LAST_WITHOUT):
        message = f"--cudagraph-metrics prints nothing: runner V2 counts no batches by graph in {subject.release}"
        count = f"set {SWITCH}=0 to count with runner V1, or " if _runs_on_v1(subject) else ""
        yield Hit(message, f"{count}use vLLM 0.30 or later, or {HISTOGRAM}", at)


def _runs_on_v1(subject: Subject) -> bool:
    d = subject.deployment
    found = what_if(subject, env={**d.env, SWITCH: "0"}) if d is not None else None
    return found is not None and found.runner is Runner.V1
