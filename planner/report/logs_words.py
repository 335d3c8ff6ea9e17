"""Words and rows of `cgplan logs`, of the screen and of Markdown alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..releases import holds
from ..startup.analysis import StartReport
from ..startup.arguments import model_of
from ..startup.corrected import Common, common
from ..startup.diagnosis import died_at_work, unfinished
from ..startup.known import GIB, argument, deducts, gib, gpu_memory, release_of, tightest, transient
from ..startup.record import Captured, Rank, Start, StartupLog
from ..startup.requests import requests_of
from ..startup.times import KERNELS
from .logs_estimate import kernels_line, sample_rows, support_line
from .logs_tokens import token_rows
from .words import counted

RANK_HEAD = ("rank", "free", "asked for", "weights", "peak", "outside torch", "graphs est.", "graphs", "KV cache")
MOST_NAMES = 4
MOST_RANKS = 16
PHASES = ("load", "dynamo", "compile", "warm-up", "profile", "graph estimate", KERNELS, "capture")
WITHIN_PROFILE = ("compile", "warm-up")
"""Parts that vLLM's time of the profile run holds."""
ESTIMATE_WITHIN_UNTIL = "0.26.0"
INIT = "init engine"


INTERACTIVITY = "interactivity"
"""The --performance-mode that has sizes of its own, every one up to 32."""


class Phase(NamedTuple):
    """A part of the start: seconds of the slowest rank."""

    name: str
    seconds: float


def title(report: StartReport) -> str:
    """Release, GPUs, layout and model in one line."""
    start = report.start
    comparison = report.comparison
    gpu = None
    if comparison is not None and comparison.served.deployment is not None:
        gpu = comparison.served.deployment.gpu.name
    elif (total := next((rank.total_bytes for rank in start.ranks if rank.total_bytes is not None), None)) is not None:
        gpu = f"{gib(total)} GPU"
    elif (memory := gpu_memory(start)) is not None:
        gpu = f"{(memory.low + memory.high) / 2 / GIB:.1f} GiB GPU"
    version = f"vLLM {start.vllm_version}" if start.vllm_version else "vLLM of an unknown release"
    parts = (version, gpu, layout(start), _model(report))
    return " · ".join(part for part in parts if part)


def _model(report: StartReport) -> str | None:
    """The model by the log's name; where it was planned as another, or the log has none, by that one's too."""
    served = report.comparison.served.deployment if report.comparison is not None else None
    told, planned = model_of(report.start), served.model.name if served is not None else None
    if told is None or planned is None:
        return told or planned
    same = told.rsplit("/", 1)[-1].casefold() == planned.rsplit("/", 1)[-1].casefold()
    return told if same else f"{told}, planned as {planned}"


def layout(start: Start) -> str:
    """ "tp 2 pp 4", as the arguments or the engine's line have it."""
    names = (("tp", "tensor"), ("pp", "pipeline"), ("dp", "data"))
    sizes = []
    for short, name in names:
        key = f"{name}_parallel_size"
        size = start.arguments.get(key, start.engine.get(key))
        if isinstance(size, int) and size > 1:
            sizes.append(f"{short} {size}")
    return " ".join(sizes)


def headline(report: StartReport) -> tuple[str, str]:
    """How the start ended, and a style."""
    if report.diagnosis is not None:
        rank = f", {report.diagnosis.rank}" if report.diagnosis.rank else ""
        told = f"{_ended(report)}: {report.diagnosis.what} (line {report.diagnosis.place.line}{rank})"
        return told, "error"
    if report.came_up:
        return _came_up(report.start), "fix"
    ended = unfinished(report.start)
    text = ended.message if ended is not None else "the log does not say how it ended"
    text = "a part of a log, which does not say how the start ended" if report.start.is_part else text
    return text[0].upper() + text[1:], "warning"


def _came_up(start: Start) -> str:
    took = total_seconds(start)
    return f"Came up{f', the engine in {took:.0f} s' if took else ''}"


NOT_OF_A_START = ("memory_access", "nccl", "timed_out", "process_died", "unknown")


def _ended(report: StartReport) -> str:
    """How far it had come: "Did not start" only where the log shows that it had not."""
    assert report.diagnosis is not None
    start = report.start
    if died_at_work(start):
        return f"{_came_up(start)}, then died while serving"
    if start.is_part and report.diagnosis.kind == "out_of_memory" and not report.diagnosis.step:
        return "Ended, at a step that these lines do not show"
    showed = report.diagnosis.chain[1:] or any(rank.weights_bytes is not None for rank in start.ranks)
    if report.diagnosis.kind in NOT_OF_A_START and not showed and not (start.crash and start.crash.step):
        return "Ended, at a step that the log does not show"
    return "Did not start"


def total_seconds(start: Start) -> float | None:
    return max((phase.seconds for phase in start.phases if phase.name == INIT), default=None)


def graph_line(start: Start) -> str:
    """Mode, sizes and graphs as the log has them; "" where it has none of them."""
    parts = [start.cudagraph_mode] if start.cudagraph_mode else []
    if start.capture_sizes:
        sizes = f"{counted(len(start.capture_sizes), 'size')} up to {start.capture_sizes[-1]}"
        asked = argument(start, "performance_mode")
        parts.append(f"{sizes} by --performance-mode {asked}" if asked == INTERACTIVITY else sizes)
    graphs = start.graphs
    if graphs:
        parts.append(", ".join(f"{count} {kind}" for kind, count in graphs.items()) + " graphs")
    return ", ".join(parts)


def unfinished_bars(start: Start) -> list[str]:
    """Captures that did not come to their end."""
    bars: Iterable[Captured] = (*(bar for rank in start.ranks for bar in rank.captured), *start.captured)
    broken = [bar for bar in bars if bar.total is not None and bar.graphs < bar.total]
    return list(dict.fromkeys(f"{bar.graphs} of {bar.total} {bar.kind} graphs were captured" for bar in broken))


def facts(report: StartReport) -> list[tuple[str, str]]:
    """Labels and texts: graphs, KV cache, limits, backends, runner."""
    start = report.start
    rows = [("CUDA graphs", graph_line(start))]
    rows += [("", text) for text in unfinished_bars(start)]
    requests = requests_of(start, report.comparison)
    rows.append(("KV cache", _cache(start, requests.number if requests is not None else None)))
    rows += [("", text) for text in _engines(start)]
    rows += token_rows(report)
    limits = [
        f"{name} {value:,}"
        for name, value in (
            ("max_model_len", start.max_model_len),
            ("max_num_seqs", requests.number if requests is not None else None),
            ("max_num_batched_tokens", start.max_num_batched_tokens),
        )
        if value is not None
    ]
    rows.append(("Limits", ", ".join(limits)))
    if (memory := gpu_memory(start)) is not None and memory.by and not _is_planned(report):
        rows.append(("GPU", memory.as_text()))
    if requests is not None and requests.source:
        rows.append(("", f"max_num_seqs {requests.number:,}: {requests.source}"))
    backends = dict.fromkeys(name for rank in start.ranks for name in rank.attention_backends)
    flash = f"FlashAttention {start.flash_version}" if start.flash_version is not None else ""
    named = [*backends, flash, f"runner {start.runner}" if start.runner else ""]
    rows.append(("Attention", ", ".join(part for part in named if part)))
    rows.append(("", support_line(report, list(backends))))
    rows.append(("", kernels_line(start)))
    rows += sample_rows(start)
    return [(name, text) for name, text in rows if text]


def _is_planned(report: StartReport) -> bool:
    return report.comparison is not None and report.comparison.served.deployment is not None


def _cache(start: Start, running: int | None) -> str:
    sizes = [rank.kv_bytes for rank in start.ranks if rank.kv_bytes is not None]
    parts = []
    if sizes:
        least, most = min(sizes), max(sizes)
        parts.append(gib(least) if most - least < GIB // 100 else f"{least / GIB:.2f} to {gib(most)}")
    of_size = f" of {start.block_size:,} tokens" if start.block_size is not None else ""
    if start.num_gpu_blocks is not None:
        parts.append(f"{start.num_gpu_blocks:,} blocks{of_size}")
    elif of_size:
        parts.append(f"blocks{of_size}")
    if (engines := len({label for label, _, _ in start.kv_printed})) > 1 and _engines(start):
        tokens = [tokens for _, tokens, _ in start.kv_printed]
        parts.append(f"{min(tokens):,} to {max(tokens):,} tokens in each of {engines} engines, which have their own")
        return ", ".join(parts)
    if start.kv_tokens is not None:
        parts.append(f"{start.kv_tokens:,} tokens")
    if start.max_concurrency is not None and start.concurrency_length is not None:
        of_those = f" where {running:,} may run" if running is not None and start.max_concurrency < running else ""
        parts.append(f"{start.max_concurrency:.2f} requests of {start.concurrency_length:,}{of_those}")
    return ", ".join(parts)


def _engines(start: Start) -> list[str]:
    """Engines that printed other figures than the first."""
    figures = {(tokens, times) for _, tokens, times in start.kv_printed}
    if len(figures) < 2:
        return []
    return [
        f"{name}: {tokens:,} tokens" + (f", {times:.2f} requests" if times is not None else "")
        for name, tokens, times in start.kv_printed[:MOST_RANKS]
    ]


Figure = Callable[[Start, Rank], int | None]

_FIGURES: tuple[Figure, ...] = (
    lambda start, rank: rank.free_bytes,
    lambda start, rank: rank.requested_bytes,
    lambda start, rank: rank.weights_bytes if rank.consumed_bytes is None else rank.consumed_bytes,
    lambda start, rank: transient(rank),
    lambda start, rank: rank.non_torch_bytes,
    lambda start, rank: rank.graph_estimate_bytes,
    lambda start, rank: rank.graph_actual_bytes,
    lambda start, rank: rank.kv_bytes,
)


def rank_head(start: Start) -> tuple[str, ...]:
    """The heading; since 0.27.1 what is consumed stands for weights and all outside torch."""
    names = list(RANK_HEAD)
    if any(rank.consumed_bytes is not None for rank in start.ranks):
        names[3] = "consumed"
    if start.ranks and not deducts(start, start.ranks[0]):
        names[6] = "(graphs est.)"
    return tuple(names)


def estimate_note(start: Start) -> str:
    """What happens to the estimate of the graphs, below the table; "": the log has none."""
    if all(rank.graph_estimate_bytes is None for rank in start.ranks) or (start.is_part and not start.vllm_version):
        return ""
    if not deducts(start, start.ranks[0]):
        return "(graphs est.): printed, and not taken off the KV cache; graphs come on top of what is asked for"
    least = tightest(start.ranks)
    estimate = least.graph_estimate_bytes if least is not None else None
    share = ""
    if least is not None and estimate and estimate > 0 and (least.kv_bytes or 0) > 0:
        share = f", {100 * estimate / (estimate + (least.kv_bytes or 0)):.1f}% of what it would have without"
    return f"graphs est.: taken off the KV cache, whatever capture takes later{share}"


def rank_rows(start: Start) -> list[tuple[str, ...]]:
    """A row for each group of ranks with the same figures, GiB; "-": not in the log."""
    groups: dict[tuple[int | None, ...], list[str]] = {}
    for rank in start.ranks:
        figures = tuple(figure(start, rank) for figure in _FIGURES)
        if any(value is not None for value in figures):
            groups.setdefault(figures, []).append(rank.name)
    rows = []
    for figures, names in list(groups.items())[:MOST_RANKS]:
        rows.append((named(names), *("-" if value is None else f"{value / GIB:.2f}" for value in figures)))
    if len(groups) > MOST_RANKS:
        rows.append((f"{len(groups) - MOST_RANKS} more", *("" for _ in _FIGURES)))
    return rows


def named(names: Sequence[str]) -> str:
    """ "TP0, TP1", or "TP0 … TP7 (8)"."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)})"


def phases(start: Start) -> list[Phase]:
    """Parts of the start in their order, the slowest rank of each."""
    longest: dict[str, float] = {}
    for phase in start.phases:
        longest[phase.name] = max(phase.seconds, longest.get(phase.name, 0.0))
    within = sum(longest.get(name, 0.0) for name in (*WITHIN_PROFILE, *_estimate_within(start)))
    if longest.get("profile", 0.0) > within:
        longest["profile"] -= within
    else:
        longest.pop("profile", None)
    if "compile" in longest:
        longest["compile"] -= longest.get("dynamo", 0.0)
    found = [Phase(name, longest[name]) for name in PHASES if longest.get(name, 0.0) > 0]
    whole = all_seconds(start)
    rest = whole[0] - sum(phase.seconds for phase in found) if whole is not None else 0.0
    return [*found, Phase(NOT_TOLD, rest)] if rest >= LEAST_REST and found else found


def _estimate_within(start: Start) -> tuple[str, ...]:
    """The estimate, where the release took it within the profile run (vllm/v1/worker/gpu_worker.py)."""
    release = release_of(start)
    return ("graph estimate",) if release is not None and holds(release, None, ESTIMATE_WITHIN_UNTIL) else ()


NOT_TOLD = "not in the log"
"""Of the whole, what no line says the time of: imports, allocation, NCCL, kernels that are warmed up."""
LEAST_REST = 0.5
"""Seconds; times between lines are whole ones."""


def all_seconds(start: Start) -> tuple[float, str] | None:
    """Seconds of the whole start, and what they are of; None: the log does not say."""
    engine = total_seconds(start)
    load = max((phase.seconds for phase in start.phases if phase.name == "load"), default=0.0)
    if start.seconds is not None and start.seconds >= (engine or 0.0) + load:
        return start.seconds, "from the first line until the server listened"
    if engine is None:
        return None
    return engine + load, f"the engine's own {engine:.1f} s{f', and load {load:.1f} s' if load else ''}"


def sum_line(start: Start) -> str:
    """What the parts add up to; "": the log does not say."""
    found, whole = phases(start), all_seconds(start)
    if not found or whole is None:
        return ""
    more = sum(phase.seconds for phase in found) - whole[0]
    over = "; the slowest ranks of the parts add up to more" if more >= LEAST_REST else ""
    return f"in all {whole[0]:.1f} s: {whole[1]}{over}"


def correction_lines(report: StartReport) -> list[str]:
    """The right size of the KV cache with its reasoning. It is one for all ranks, so the least of them counts."""
    found = common(report.start, report.corrections)
    if found is None:
        return []
    lacking = f"{named(found.incomplete)} did not print all parts of it" if found.incomplete else ""
    if not found.is_known:
        return [
            f"not known: the log lacks parts of the sum of {named(found.incomplete)}, and the KV cache is smaller there"
            f" than on {found.least.rank}"
        ]
    share = f", or --gpu-memory-utilization {found.utilization:g}" if found.utilization is not None else ""
    lines = [f"--kv-cache-memory-bytes {found.right} ({gib(found.right)}){share}{found.by}"]
    lines += [lacking] if lacking else []
    lines.append(f"{found.least.as_text()} GiB")
    if found.right_full is not None and found.right_full > 0:
        lines.append(f"{found.right_full} ({gib(found.right_full)}) uses all that was free")
    if found.least.in_use is not None:
        lines.append(f"in use are {gib(found.least.in_use)}{_fits_too(report, found)}")
    return lines


def _fits_too(report: StartReport, found: Common) -> str:
    """That the KV cache in use is no error though another size is named, of a server that came up; "": it is the
    smaller one, or it is not known what was free."""
    own, full = found.least.in_use, found.right_full
    if not report.came_up or report.diagnosis is not None or own is None or full is None:
        return ""
    if not found.right < own <= full:
        return ""
    return f", which fits too: {gib(full - own)} stay free, outside of what is asked for"


def not_read(log: StartupLog) -> list[str]:
    """What of the log was not understood."""
    if not log.not_recognised:
        return []
    lines = [f"{counted(log.not_recognised, 'line')} of vLLM with values that are not read"]
    return lines + [f"line {place.line}: {place.text}" for place in log.examples[:3]]
