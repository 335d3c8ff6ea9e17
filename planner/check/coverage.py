"""Checks of which batches run in which graph: eager ones, ones that lose their FULL graph, and graphs of no batch."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from ..resolve import Resolution
from ..resolve.cliffs import gap_sizes, listed
from ..resolve.draft_sizes import fullest
from ..resolve.graphs import Graph
from ..resolve.padding import round_up
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .diagnostic import Hit
from .places import Edits, place_of, related
from .resolved import has_finding, plain, says_more
from .subject import Subject
from .what_if import MAXIMUM, SIZES, in_section, named_maximum, named_sizes, number_flag, sizes_at, sizes_flag, what_if

FULL = CUDAGraphMode.FULL

CHEAP_MAXIMUM = 1024
"""Largest grid, tokens, that is advised to reach the fullest batch; where it takes more, fewer requests are advised."""
MOST_SHOWN = 6


def fullest_tokens(found: Resolution) -> int:
    """Tokens of that batch."""
    requests, length = fullest(found)
    return requests * length


def is_full(found: Resolution | None) -> bool:
    """Whether every decode batch runs in a FULL graph."""
    ranges = found.uniform_decode_coverage().ranges if found is not None else ()
    return bool(ranges) and all(r.mode is FULL for r in ranges)


def has_graphs(found: Resolution | None) -> bool:
    """Whether every decode batch runs in some graph."""
    ranges = found.uniform_decode_coverage().ranges if found is not None else ()
    return bool(ranges) and all(r.mode is not CUDAGraphMode.NONE for r in ranges)


def short_size(subject: Subject) -> int | None:
    """The largest size that the user named, tokens, where decode batches of several tokens a request outgrow it."""
    found, d = subject.resolution, subject.deployment
    if (
        found is None
        or d is None
        or found.uniform_decode_query_len == 1
        or has_finding(subject, "CG704", "CG440") is None
    ):
        return None
    sizes, maximum = named_sizes(d), named_maximum(d)
    if sizes is None:
        return maximum
    largest = max(sizes, default=0)
    return largest if 0 < largest < fullest_tokens(found) else None


def reaching(subject: Subject, needed: int) -> tuple[str, Edits] | None:
    """The flag with which every decode batch has a graph, FULL ones preferred; None where no grid does it cheaply."""
    found, d = subject.resolution, subject.deployment
    if found is None or d is None or needed > CHEAP_MAXIMUM:
        return None
    sizes = named_sizes(d)
    if sizes is not None:
        more = graded([size for size in sizes if size <= found.max_num_batched_tokens], needed)
        beside = {} if named_maximum(d) is None else {MAXIMUM: None}
        if not has_graphs(what_if(subject, **{SIZES: tuple(more)}, **beside)):
            return None
        flag, edits = sizes_flag(subject, more)
        return flag, () if beside else edits
    step = found.uniform_decode_query_len
    tries = sorted({needed, round_up(needed, 8), round_up(needed, 16), round_up(needed, lcm(16, step))})
    answers = {most: what_if(subject, **{MAXIMUM: most}) for most in tries if most <= found.max_num_batched_tokens}
    answers = {most: answer for most, answer in answers.items() if answer and answer.capture_sizes[-1:] == (most,)}
    for enough in (is_full, has_graphs):
        for most, answer in answers.items():
            if enough(answer):
                return number_flag(subject, "--max-cudagraph-capture-size", most)
    return None


def graded(sizes: Sequence[int], needed: int) -> list[int]:
    """These sizes and larger ones up to `needed`, each at most twice the one below it: no batch is mostly padding."""
    more = sorted({size for size in sizes if size > 0})
    last = more[-1] if more else 1
    while (last := 2 * last if last < 8 else round_up(2 * last, 8)) < needed:
        more.append(last)
    return sorted({*more, needed})


@says_more("CG440", "CG701", "CG704")
def _cliff(subject: Subject, finding: Finding) -> Hit | None:
    """Decode batches that run eager: the flag that was tried and covers them, or the limit that avoids them."""
    found, d = subject.resolution, subject.deployment
    if found is None or d is None or short_size(subject) is not None:
        return None
    cliff = found.uniform_decode_coverage().first_cliff or 1
    if any(remark.kind == "cut_off" for remark in subject.launch.remarks):
        return None  # options that count are not among those read
    gives_sizes = any(subject.is_given(key) or in_section(subject, key) for key in (SIZES, MAXIMUM))
    gives_seqs = subject.is_given("max_num_seqs")
    at = place_of(subject, "--max-num-seqs")
    if gives_sizes and not gives_seqs:
        at = place_of(subject, f"-cc.{SIZES if named_sizes(d) else MAXIMUM}")
    flag, edits = reaching(subject, fullest_tokens(found)) or (None, ())
    if cliff > 1 and (flag is None or not (gives_seqs or gives_sizes)):
        flag, edits = number_flag(subject, "--max-num-seqs", cliff - 1)
    calm = finding.severity == "info"
    # vLLM's own limits depend on the GPU, and a line that is refused never runs with them.
    if calm and (subject.asked.gpu_assumed or subject.asked.refused):
        return None
    fix = finding.fix
    if named_sizes(d) and flag is not None and cliff > 1:
        fix = f"use {flag}, or set --max-num-seqs {cliff - 1}"
    several = related(subject, "each request brings several tokens", "speculative_config", "spec_tokens")
    return Hit(finding.message, fix, at, flag, edits, safe=False, severity=finding.severity, related=several)


@says_more("CG705")
def _without_full(subject: Subject, finding: Finding) -> Hit:
    """max_num_seqs between two sizes: the next one up that was tried, else the one below; a named list grows."""
    hit, found = plain(subject, finding), subject.resolution
    if found is None or subject.deployment is None:
        return hit
    if found.sizes_are_named:
        answer = reaching(subject, fullest_tokens(found))
        return hit if answer is None else Hit(hit.message, hit.fix, hit.at, answer[0], answer[1], safe=False)
    ranges = found.uniform_decode_coverage().ranges
    last = ranges[-1]
    below = max((r.last for r in ranges if r.mode is FULL), default=0)
    for seqs in ((last.padded or 0) // last.query_len, below):
        if seqs and is_full(what_if(subject, max_num_seqs=seqs)):
            flag, edits = number_flag(subject, "--max-num-seqs", seqs)
            return Hit(hit.message, hit.fix, hit.at, flag, edits, safe=False)
    return hit


@says_more("CG706")
def _padding(subject: Subject, finding: Finding) -> Hit:
    """A gap in the named sizes: the list with the gap filled."""
    hit, found, d = plain(subject, finding), subject.resolution, subject.deployment
    worst = found.uniform_decode_coverage().worst if found is not None else None
    sizes = named_sizes(d) if d is not None else None
    if worst is None or not sizes or found is None or d is None:
        return hit
    extra = gap_sizes(found.uniform_decode_coverage())
    flag, edits = sizes_flag(subject, sorted({*(s for s in sizes if s <= found.max_num_batched_tokens), *extra}))
    return Hit(finding.message, f"add {listed(extra)} to the capture sizes", sizes_at(subject), flag, edits, safe=False)


@says_more("CG703")
def _unreachable(subject: Subject, finding: Finding) -> Hit | None:
    """Graphs that no batch runs in: which ones. Those that LoRA makes are CG450's and CG451's."""
    found, d = subject.resolution, subject.deployment
    if found is None or d is None:
        return plain(subject, finding)
    if found.lora is not None and all(graph.num_active_loras for _, graph in found.unreachable):
        return None
    message = f"{finding.message}: {_graphs(found.unreachable)}"
    rest = _useful_sizes(found)
    sizes = named_sizes(d)
    if sizes is None or named_maximum(d) is not None or not 0 < len(rest) < len(set(sizes)):
        return Hit(message, finding.fix, sizes_at(subject))
    flag, edits = sizes_flag(subject, rest)
    return Hit(message, f"write {flag}", sizes_at(subject), flag, edits, safe=False)


def _useful_sizes(found: Resolution) -> list[int]:
    """Captured sizes with a graph that some batch runs in."""
    idle = set(found.unreachable)
    used = {
        graph.num_tokens for mode, graphs in found.captures.items() for graph in graphs if (mode, graph) not in idle
    }
    return [size for size in found.capture_sizes if size in used]


def _graphs(idle: Sequence[tuple[CUDAGraphMode, Graph]]) -> str:
    """The idle graphs by mode and size, shortened."""
    by_mode: dict[str, set[int]] = {}
    for mode, graph in idle:
        by_mode.setdefault(mode.value, set()).add(graph.num_tokens)
    parts = []
    for name, sizes in by_mode.items():
        shown = ", ".join(map(str, sorted(sizes)[:MOST_SHOWN])) + (", ..." if len(sizes) > MOST_SHOWN else "")
        parts.append(f"{name} of {shown} tokens")
    return "; ".join(parts)
