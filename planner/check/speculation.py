"""Checks of capture sizes with speculative decoding, where each request of a decode batch brings several tokens."""

from __future__ import annotations

from collections.abc import Iterator

from ..releases import holds
from ..resolve import Resolution
from ..resolve.coverage import TOKENS_NOT_REQUESTS
from ..resolve.draft_sizes import fullest
from ..resolve.grid import request_counts
from ..trace import Rule
from ..vocabulary import CUDAGraphMode
from .coverage import fullest_tokens, has_graphs, is_full, reaching, short_size
from .diagnostic import Hit, Related, TokenEdit
from .places import Edits, drop, place_of, related
from .registry import check
from .subject import Subject
from .what_if import MAXIMUM, SIZES, in_section, named_sizes, sizes_at, sizes_flag, what_if

MAXIMUM_ADDS_NOTHING = Rule(
    "CG441",
    title="With a named maximum the grid holds no decode sizes of its own, and ends below that maximum.",
    why="Multiples of the decode query length are added to the default grid only, and a maximum off the grid is cut.",
    example="6 draft tokens, --max-num-seqs 6 --max-cudagraph-capture-size 42: the sizes end at 40, and 6 requests "
    "run without a graph.",
    instead="Drop --max-cudagraph-capture-size, which is enough from 0.29 on, or name multiples of 1 +"
    " num_speculative_tokens as sizes.",
    source="vllm/config/vllm.py:2463-2557",
)
HOLES = Rule(
    "CG710",
    title="Decode batches in the midst of the range run without a FULL graph.",
    why="A batch takes the smallest FULL graph that holds it; between two of them may lie batches that only PIECEWISE "
    "serves.",
    example="Dynamic drafts of 5 up to 8 requests, 2 up to 32: batches of 9 and 10 requests run PIECEWISE.",
    instead="Name sizes that are multiples of the tokens that a request brings at that batch size.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:256-394",
)

FEW_REQUESTS = 16
"""Up to so many requests every number of them gets a size of its own."""
MOST_SHOWN = 4
DEFAULTS_ADD_DECODE_SIZES = "0.29.0"


@check(TOKENS_NOT_REQUESTS, "warning")
def tokens_not_requests(subject: Subject) -> Iterator[Hit]:
    found, largest = subject.resolution, short_size(subject)
    if found is None or largest is None or largest >= fullest_tokens(found):
        return
    requests, length = fullest(found)
    needed = requests * length
    answer = reaching(subject, needed) or _multiples(subject, found)
    flag, edits = answer or (None, ())
    where = SIZES if named_sizes_given(subject) else MAXIMUM
    fix = f"use {flag}" if flag else f"capture sizes up to {needed}, or lower --max-num-seqs"
    yield Hit(
        f"{where} {largest} counts tokens, not requests: {requests} requests of {length} tokens need {needed}; "
        f"{_above(found)}",
        fix,
        place_of(subject, f"-cc.{where}"),
        flag,
        edits,
        safe=False,
        related=_beside(subject),
    )


@check(MAXIMUM_ADDS_NOTHING, "warning")
def maximum_adds_nothing(subject: Subject) -> Iterator[Hit]:
    found, largest = subject.resolution, short_size(subject)
    if found is None or largest is None or largest < fullest_tokens(found):
        return
    length = found.uniform_decode_query_len
    flag, edits = _multiples(subject, found) or (None, ())
    ways = [f"use {flag}"] if flag else []
    if holds(subject.release, DEFAULTS_ADD_DECODE_SIZES) and is_full(what_if(subject, **{MAXIMUM: None})):
        ways.insert(0, "drop --max-cudagraph-capture-size")
    sizes = found.config["cudagraph_capture_sizes"]
    yield Hit(
        f"max_cudagraph_capture_size {largest} adds no multiple of the {length} tokens of a decode request: "
        f"the sizes end at {sizes[-1]}, and {_above(found)}",
        ", or ".join(ways) or "name multiples of the decode query length as capture sizes",
        place_of(subject, f"-cc.{MAXIMUM}"),
        flag,
        edits,
        safe=False,
        related=_beside(subject),
    )


@check(HOLES, "warning")
def holes(subject: Subject) -> Iterator[Hit]:
    found = subject.resolution
    if found is None or found.decode_mode is not CUDAGraphMode.FULL:
        return
    ranges = found.uniform_decode_coverage().ranges
    last_full = max((r.last for r in ranges if r.mode is CUDAGraphMode.FULL), default=0)
    missed = [r for r in ranges if r.last < last_full and r.mode is CUDAGraphMode.PIECEWISE]
    if not missed:
        return
    spans = [str(r.first) if r.first == r.last else f"{r.first} to {r.last}" for r in missed]
    shown = ", ".join(spans[:MOST_SHOWN])
    if len(spans) > MOST_SHOWN:
        shown += f" and {len(spans) - MOST_SHOWN} more ranges of"
    flag, edits = _multiples(subject, found) or (None, ())
    yield Hit(
        f"decode batches of {shown} requests run PIECEWISE, though larger ones have a FULL graph",
        f"use {flag}" if flag else HOLES.instead,
        sizes_at(subject),
        flag,
        edits,
        safe=False,
        related=_beside(subject),
    )


def named_sizes_given(subject: Subject) -> bool:
    return subject.deployment is not None and named_sizes(subject.deployment) is not None


def _above(found: Resolution) -> str:
    cliff = found.uniform_decode_coverage().first_cliff or 1
    if cliff == 1:
        return "every decode batch runs without a graph"
    return f"decode batches above {cliff - 1} {'request' if cliff == 2 else 'requests'} run without a graph"


def _multiples(subject: Subject, found: Resolution) -> tuple[str, Edits] | None:
    """The list of sizes with one for each number of requests, or for a grid of them; None where it does not help."""
    if found.schedule is not None:
        return None
    length, most = found.uniform_decode_query_len, fullest_tokens(found) // found.uniform_decode_query_len
    counts = range(1, most + 1) if most <= FEW_REQUESTS else request_counts(most, most)
    sizes = [count * length for count in counts]
    answer = what_if(subject, **{SIZES: tuple(sizes), MAXIMUM: None})
    if not (is_full(answer) or (found.decode_mode is not CUDAGraphMode.FULL and has_graphs(answer))):
        return None
    if named_sizes_given(subject):
        return sizes_flag(subject, sizes)
    if in_section(subject, MAXIMUM):
        return f"-cc.{SIZES}=[{','.join(map(str, sizes))}]", ()
    texts = ("--cudagraph-capture-sizes", *map(str, sizes))
    taken = [edit for edit in drop(subject, MAXIMUM) if isinstance(edit, TokenEdit)]
    edits: Edits = (taken[0]._replace(texts=texts),) if len(taken) == 1 else ()
    return " ".join(texts), edits if subject.is_given(MAXIMUM) else sizes_flag(subject, sizes)[1]


def _beside(subject: Subject) -> tuple[Related, ...]:
    return related(subject, "each request brings several tokens", "speculative_config", "spec_tokens") + related(
        subject, "requests of the fullest batch", "max_num_seqs"
    )
