"""Checks of the capture sizes as they are named: dropped, doubled, of no use, or cut short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..resolve import Resolution
from ..trace import Finding, Rule
from ..vocabulary import CUDAGraphMode
from .coverage import short_size
from .diagnostic import Hit
from .places import drop, related
from .registry import check
from .resolved import plain, says_more
from .subject import Subject
from .what_if import MAXIMUM, SIZES, named_maximum, named_sizes, number_flag, sizes_at, sizes_flag, what_if

DOUBLED = Rule(
    "CG150",
    title="Capture sizes are sorted, and a size named twice counts once.",
    why="One graph a size is captured, largest first, whatever the order in the list.",
    example="--cudagraph-capture-sizes 8 4 4: 4 and 8 are captured.",
    instead="List each size once, ascending.",
    source="vllm/config/vllm.py:2565-2588",
)
NO_GRAPH = Rule(
    "CG151",
    title="A named capture size makes no graph.",
    why="A FULL decode graph holds no more than max_num_seqs requests, and without PIECEWISE nothing else is captured.",
    example="--max-num-seqs 16 FULL_DECODE_ONLY, --cudagraph-capture-sizes 16 32: 32 is not captured.",
    instead="Leave the size out, or raise --max-num-seqs.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:256-394",
)
NO_PERFORMANCE_MODE = Rule(
    "CG153",
    title="--performance-mode changes nothing where its settings are named or off.",
    why="interactivity only makes the default grid finer; throughput only doubles limits that the user left open.",
    example="--performance-mode interactivity --cudagraph-capture-sizes 8 16: 8 and 16 are captured.",
    instead="Drop --performance-mode, or the settings that it would choose.",
    source="vllm/config/vllm.py:2573-2597",
)
MOST_NAMED = 256
"""Longest list of sizes that is tried size by size."""


@check(DOUBLED, "info")
def doubled(subject: Subject) -> Iterator[Hit]:
    sizes = named_sizes(subject.deployment) if subject.deployment is not None else None
    if not sizes or not subject.resolution:
        return
    kept = sorted(set(sizes))
    if list(sizes) == kept or any(f.code in ("CG115", "CG130") for f in subject.resolution.findings):
        return
    twice = sorted({size for size in sizes if list(sizes).count(size) > 1})
    message = f"{_are('size', twice)} named more than once" if twice else "the capture sizes are not ascending"
    flag, edits = sizes_flag(subject, kept)
    yield Hit(
        f"{message}; vLLM sorts the list and takes each size once", f"write {flag}", sizes_at(subject), flag, edits
    )


@check(NO_GRAPH, "warning")
def makes_no_graph(subject: Subject) -> Iterator[Hit]:
    found, d = subject.resolution, subject.deployment
    sizes = named_sizes(d) if d is not None else None
    if found is None or d is None or not sizes or len(sizes) > MOST_NAMED or found.cudagraph_mode is CUDAGraphMode.NONE:
        return
    kept = sorted({size for size in sizes if 1 <= size <= found.max_num_batched_tokens})
    maximum: dict[str, None] = {} if named_maximum(d) is None else {MAXIMUM: None}
    captured = {graph.num_tokens for graphs in found.captures.values() for graph in graphs}
    unseen = [size for size in kept if size not in captured]
    idle = [size for size in unseen if len(kept) > 1 and _same(subject, found, kept, size, maximum)]
    rest = [size for size in kept if size not in idle]
    changed = what_if(subject, **{SIZES: tuple(rest)}, **maximum) if idle and rest else None
    if changed is None or changed.captures != found.captures:
        return
    flag, edits = sizes_flag(subject, rest)
    verb = "makes" if len(idle) == 1 else "make"
    limits = f"max_num_seqs {found.max_num_seqs} and cudagraph_mode {found.cudagraph_mode}"
    yield Hit(
        f"{listed('capture size', idle)} {verb} no graph of {'its' if len(idle) == 1 else 'their'} own with {limits}",
        f"write {flag}, which captures the same graphs",
        sizes_at(subject),
        flag,
        edits if not maximum else (),
        related=related(subject, "decode batches hold no more requests", "max_num_seqs"),
    )


def _same(subject: Subject, found: Resolution, kept: Sequence[int], size: int, maximum: dict[str, None]) -> bool:
    changed = what_if(subject, **{SIZES: tuple(one for one in kept if one != size)}, **maximum)
    return changed is not None and changed.captures == found.captures


@check(NO_PERFORMANCE_MODE, "error")
def performance_mode_idle(subject: Subject) -> Iterator[Hit]:
    found, d = subject.resolution, subject.deployment
    if found is None or d is None or d.performance_mode in (None, "balanced"):
        return
    plain_one = what_if(subject, performance_mode=None)
    if plain_one is None or _shape(plain_one) != _shape(found):
        return
    if d.performance_mode == "interactivity":
        why = "the capture sizes are named" if named_sizes(d) else "there is no default grid that it would make finer"
        beside = related(subject, "replaces the grid", SIZES, "compilation_config")
    else:
        why = "both limits that it would double are given"
        beside = related(subject, "given", "max_num_seqs") + related(subject, "given", "max_num_batched_tokens")
    yield Hit(
        f"--performance-mode {d.performance_mode} changes nothing: {why}",
        "drop --performance-mode, or the settings that it would choose",
        subject.at("performance_mode"),
        edits=drop(subject, "performance_mode"),
        related=beside,
    )


def _shape(found: Resolution) -> tuple[object, ...]:
    limits = found.max_num_seqs, found.max_num_batched_tokens
    return found.captures, limits, found.config["cudagraph_capture_sizes"]


@says_more("CG115", "CG130")
def _dropped(subject: Subject, finding: Finding) -> Hit:
    hit = plain(subject, finding)
    d, found = subject.deployment, subject.resolution
    sizes = named_sizes(d) if d is not None else None
    if found is None or not sizes:
        return hit
    limit = found.max_num_batched_tokens
    gone, kept = sorted({s for s in sizes if s > limit}), sorted({s for s in sizes if s <= limit})
    beside = related(subject, "the most tokens of a step", "max_num_batched_tokens")
    if not kept:
        return Hit(hit.message, hit.fix, hit.at, related=beside)
    message = f"{_are('capture size', gone)} dropped: no size exceeds max_num_batched_tokens, {limit}"
    flag, edits = sizes_flag(subject, kept)
    fix = f"write {flag}, or raise --max-num-batched-tokens to {gone[-1]}"
    return Hit(message, fix, hit.at, flag, edits, related=beside)


@says_more("CG116")
def _truncated(subject: Subject, finding: Finding) -> Hit | None:
    """A maximum between two sizes. Where it also leaves out decode batches, CG440 or CG441 says so."""
    if short_size(subject) is not None:
        return None
    hit, found = plain(subject, finding), subject.resolution
    if found is None:
        return hit
    valid = found.capture_sizes[-1] if found.capture_sizes else found.max_capture_size
    configured = found.config["cudagraph_capture_sizes"]
    largest = configured[-1] if configured else valid
    flag, edits = number_flag(subject, "--max-cudagraph-capture-size", largest)
    return Hit(hit.message, f"write {flag}, which is what runs, or {hit.fix}", hit.at, flag, edits)


def listed(noun: str, numbers: Sequence[int], most: int = 8) -> str:
    """ "size 4", or "sizes 4, 8", shortened."""
    shown = ", ".join(map(str, numbers[:most])) + (f" and {len(numbers) - most} more" if len(numbers) > most else "")
    return f"{noun} {shown}" if len(numbers) == 1 else f"{noun}s {shown}"


def _are(noun: str, numbers: Sequence[int]) -> str:
    return f"{listed(noun, numbers)} {'is' if len(numbers) == 1 else 'are'}"
