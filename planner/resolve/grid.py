"""The capture grid: the sizes, in tokens, for which graphs are captured.

Source: VllmConfig._set_cudagraph_sizes, vllm/config/vllm.py:2398-2656 @ 0.33.0. Pure functions; `steps` of the
pipeline call `capture_sizes` and note what each rule added or took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm

from ..errors import InputError, StartupError
from ..light_dataclass import dataclass
from ..trace import Rule, Trace
from .dynamic_sd import Steps
from .padding import round_up
from .sequence_parallel import SIZES as SEQUENCE_PARALLEL_SIZES

CAP = Rule(
    "CG108",
    title="The grid ends at twice the widest decode batch, and at the platform's cap.",
    why="Graphs far above the widest decode batch are rarely replayed and cost memory and start-up time.",
    example="max_num_seqs 64 ends the grid at 128; 1024 ends it at 512, or at 1024 on compute capability 10.x.",
    instead="Set --max-cudagraph-capture-size, or name the sizes with --cudagraph-capture-sizes.",
    source="vllm/config/vllm.py:2463-2470",
)
GRID = Rule(
    "CG109",
    title="Default sizes: 1, 2, 4, then every 8 below 256, then every 16.",
    why="Small batches lose most to padding, so the steps are finer there.",
    example="A cap of 512 gives 51 sizes.",
    instead="Name the sizes with --cudagraph-capture-sizes, or use --performance-mode interactivity.",
    source="vllm/config/vllm.py:2590-2615",
)
UNIFORM_DECODE_SIZES = Rule(
    "CG110",
    title="With speculative decoding, multiples of the decode query length are added for a grid of request counts.",
    why="A uniform decode batch holds a whole number of requests, so off-multiple sizes never serve it.",
    example="3 draft tokens and 256 sequences: 4, 8, 16, 32, ... up to the cap.",
    instead="Name sizes that are multiples of 1 + num_speculative_tokens.",
    source="vllm/config/vllm.py:2471-2548",
    since="0.29.0",
)
OFF_GRID_SEQS = Rule(
    "CG111",
    title="max_num_seqs itself is captured when it lies off the grid and within the cap.",
    why="Otherwise the fullest decode batch would be padded past max_num_seqs and lose its FULL graph.",
    example="max_num_seqs 264 on an H100: 264 joins the 51 sizes.",
    instead="Choose max_num_seqs on the grid: a multiple of 16 from 256 on, of 8 below.",
    source="vllm/config/vllm.py:2549-2550",
    since="0.31.0",
)
BATCHED_TOKENS_CLAMP = Rule(
    "CG112",
    title="No size above max_num_batched_tokens.",
    why="A batch never holds more tokens than the scheduler gives out.",
    example="--max-num-batched-tokens 100 ends the grid at 100.",
    instead="Raise --max-num-batched-tokens.",
    source="vllm/config/vllm.py:2551-2557",
)
BATCHED_TOKENS_APPEND = Rule(
    "CG113",
    title="max_num_batched_tokens itself is captured when it is within the cap.",
    why="The fullest batch then has a graph even where the grid steps over it.",
    example="--max-num-batched-tokens 500 with 256 sequences: the last size is 500.",
    instead="Nothing to do; choose a multiple of 16 to save the extra graph.",
    source="vllm/config/vllm.py:2616-2621",
)
INTERACTIVITY = Rule(
    "CG114",
    title="--performance-mode interactivity captures every size from 1 to 32.",
    why="At small batches padding is a large share of the step.",
    example="256 sequences: 76 sizes instead of 51.",
    instead="--performance-mode balanced.",
    source="vllm/config/vllm.py:2590-2597",
)
USER_SIZES = Rule(
    "CG115",
    title="Sizes named by the user are kept where they do not exceed max_num_batched_tokens; nothing is added.",
    why="The list is a whole replacement of the grid, bounded only by what the scheduler gives out.",
    example="--cudagraph-capture-sizes 1 2 4 4 gives 1, 2, 4 and a warning that the list was overridden.",
    instead="Keep every size at or below --max-num-batched-tokens.",
    source="vllm/config/vllm.py:2565-2588",
)
USER_MAX = Rule(
    "CG116",
    title="max_cudagraph_capture_size becomes the largest size that is really captured.",
    why="Padding tables end at that size, which counts tokens, not requests: a larger batch runs without a graph.",
    example="--max-cudagraph-capture-size 100: the grid ends at 96, and so does the maximum.",
    instead="Batches of more tokens than the largest size run without a graph: give a size of the grid (1, 2, 4,"
    " multiples of 8 up to 256 and of 16 above), or leave it out; with drafts it has to hold max_num_seqs x"
    " (1 + num_speculative_tokens) tokens, rounded up to such a size.",
    source="vllm/config/vllm.py:2630-2650",
)
SIZES_DISAGREE = Rule(
    "CG117",
    title="A named maximum must be the largest of the named sizes.",
    why="The two say the same thing; vLLM refuses to guess which one is meant.",
    example="--cudagraph-capture-sizes 1 2 4 --max-cudagraph-capture-size 8 does not start.",
    instead="Drop --max-cudagraph-capture-size.",
    source="vllm/config/vllm.py:2632-2641",
)
CAP_POSITIVE = Rule(
    "CG118",
    title="The largest capture size must be at least 1.",
    why="CUDA graphs that hold no token cannot serve a batch.",
    example="--max-cudagraph-capture-size 0 does not start.",
    instead="To switch graphs off, set --compilation-config.cudagraph_mode NONE.",
    source="vllm/config/vllm.py:2558-2561",
)
SIZES_EMPTY = Rule(
    "CG119",
    title="A named list of capture sizes must hold a size.",
    why="An empty list is no way to switch graphs off.",
    example='-cc.cudagraph_capture_sizes="[]" does not start.',
    instead="To switch graphs off, set cudagraph_mode to NONE.",
    source="vllm/config/vllm.py:2566-2569",
)
NO_SIZE_LEFT = Rule(
    "CG130",
    title="All named sizes exceed max_num_batched_tokens: no graph is captured, and vLLM only warns.",
    why="Sizes above the limit are dropped, the log says that the list is overridden, and nothing checks that one is"
    " left.",
    example="--cudagraph-capture-sizes 4096 --max-num-batched-tokens 2048: every batch runs eager.",
    instead="Name sizes at or below --max-num-batched-tokens.",
    source="vllm/config/vllm.py:2570-2575",
)
NO_BATCH = Rule(
    "CG136",
    title="A capture size below 1 is no batch, though vLLM's configuration takes it.",
    why="The configuration does not look at the numbers; the capture run fails on them.",
    example="--cudagraph-capture-sizes 0 1 2: the configuration is accepted.",
    instead="Leave out sizes below 1.",
    source="vllm/config/vllm.py:2560-2571",
)


MAX_GRAPH_TOKENS = 65536
"""Largest grid that is worked out. Each size is a graph of hundreds of MiB; no server comes near it."""


@dataclass(frozen=True)
class GridInput:
    """What the grid depends on. Token counts, except `max_num_seqs`.

    `multiple_of`: sequence parallelism keeps only sizes that divide by it.
    `tiers`: (decode query length, largest batch in requests) pairs of speculative decoding; one pair without a
    dynamic schedule.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    query_len: int
    platform_cap: int
    interactivity: bool = False
    user_sizes: Sequence[int] | None = None
    user_max: int | None = None
    tiers: Sequence[tuple[int, int]] = ()
    append_off_grid: bool = True
    append_uniform_decode: bool = True
    append_batched_tokens: bool = True
    multiple_of: int = 1


def capture_sizes(grid: GridInput, trace: Trace) -> list[int]:
    """The sizes, ascending and distinct; the last is the new max_cudagraph_capture_size (0 when there is none).

    Raises:
        StartupError: CG117, CG118 or CG119.
    """
    cap, extra = _cap_and_extra(grid)
    if grid.max_num_batched_tokens < cap:
        trace.decide(BATCHED_TOKENS_CLAMP, "max_cudagraph_capture_size", cap, grid.max_num_batched_tokens)
        cap = grid.max_num_batched_tokens
    if cap < 1:
        raise StartupError(
            f"the largest CUDA graph size is {cap}; it must be at least 1",
            code=CAP_POSITIVE.code,
            where="--max-cudagraph-capture-size",
            fix="give at least 1, or switch graphs off with -cc.cudagraph_mode=NONE",
        )
    if grid.user_sizes is not None:
        sizes = _named(grid, trace)
    else:
        sizes = _default(grid, cap, extra, trace)
    kept = [size for size in sizes if size % grid.multiple_of == 0]
    if len(kept) < len(sizes):
        trace.decide(SEQUENCE_PARALLEL_SIZES, "cudagraph_capture_sizes", sizes, kept)
        sizes = kept
    _check_maximum(grid, sizes[-1] if sizes else 0, trace)
    return sizes


def grid_up_to(cap: int, interactivity: bool = False) -> list[int]:
    """The plain grid up to `cap` tokens, before anything is appended."""
    sizes = list(range(1, min(cap, 32) + 1)) if interactivity else [n for n in (1, 2, 4) if n <= cap]
    sizes += range(40 if interactivity else 8, min(cap + 1, 256), 8)
    sizes += range(256, cap + 1, 16)
    return sizes


def request_counts(max_reqs: int, platform_cap: int) -> list[int]:
    """The grid of request counts up to `max_reqs`, which it always ends with."""
    most = min(max_reqs, platform_cap)
    return sorted({*grid_up_to(most), most})


def decode_tiers(query_len: int, max_num_seqs: int, schedule: Steps | None) -> list[tuple[int, int]]:
    """(query length, largest batch) pairs: one without a schedule, else one a distinct number of draft tokens."""
    if schedule is None:
        return [(query_len, max_num_seqs)]
    widest: dict[int, int] = {}
    for last, tokens in schedule:
        widest[tokens + 1] = last
    return list(widest.items())


def _cap_and_extra(grid: GridInput) -> tuple[int, Iterable[int]]:
    """The cap before max_num_batched_tokens, and the decode sizes to append. A named maximum appends nothing."""
    if grid.user_max is not None:
        return grid.user_max, ()
    cap = min(2 * grid.max_num_seqs * grid.query_len, grid.platform_cap)
    if grid.query_len > 1:
        if not grid.append_uniform_decode:
            return cap, ()
        return cap, {
            count * query_len
            for query_len, most in grid.tiers
            for count in request_counts(most, grid.platform_cap)
            if count * query_len <= cap
        }
    if grid.append_off_grid and grid.max_num_seqs <= cap:
        return cap, (grid.max_num_seqs,)
    return cap, ()


def _named(grid: GridInput, trace: Trace) -> list[int]:
    named = grid.user_sizes or ()
    if not named:
        raise StartupError(
            "the list of CUDA graph sizes is empty",
            code=SIZES_EMPTY.code,
            where="--cudagraph-capture-sizes",
            fix="name at least one size, or switch graphs off with -cc.cudagraph_mode=NONE",
        )
    sizes = sorted({size for size in named if size <= grid.max_num_batched_tokens})
    if len(sizes) < len(named):
        trace.decide(USER_SIZES, "cudagraph_capture_sizes", list(named), sizes)
    if sizes and max(named) > grid.max_num_batched_tokens:
        trace.find(
            USER_SIZES,
            "warning",
            f"capture sizes above max_num_batched_tokens ({grid.max_num_batched_tokens}) are dropped; "
            f"the largest left is {sizes[-1]}",
            fix=USER_SIZES.instead,
            where="--cudagraph-capture-sizes",
        )
    if sizes and sizes[0] < 1:
        trace.find(
            NO_BATCH,
            "error",
            f"capture size {sizes[0]} is no batch",
            fix=NO_BATCH.instead,
            where="--cudagraph-capture-sizes",
        )
    if not sizes:
        trace.find(
            NO_SIZE_LEFT,
            "warning",
            f"every capture size exceeds max_num_batched_tokens ({grid.max_num_batched_tokens}): no graph is captured",
            fix=NO_SIZE_LEFT.instead,
            where="--cudagraph-capture-sizes",
        )
    return sizes


def _default(grid: GridInput, cap: int, extra: Iterable[int], trace: Trace) -> list[int]:
    if cap > MAX_GRAPH_TOKENS:
        raise InputError(
            f"cgplan works out grids up to {MAX_GRAPH_TOKENS} tokens, and this one goes to {cap}",
            code="CG903",
            where="--max-cudagraph-capture-size",
            fix=f"give at most {MAX_GRAPH_TOKENS}, or name the sizes with --cudagraph-capture-sizes",
        )
    sizes = grid_up_to(cap, grid.interactivity)
    rule = INTERACTIVITY if grid.interactivity else GRID
    trace.decide(rule, "cudagraph_capture_sizes", None, f"{len(sizes)} sizes up to {sizes[-1]}")
    present = set(sizes)
    limit = grid.max_num_batched_tokens
    if grid.append_batched_tokens and limit <= cap and limit not in present:
        trace.decide(BATCHED_TOKENS_APPEND, "cudagraph_capture_sizes", None, f"+ {limit}")
        present.add(limit)
    added = sorted({size for size in extra if size <= limit and size not in present})
    if not added:
        return sorted(present) if len(present) > len(sizes) else sizes
    if grid.query_len > 1:
        trace.decide(UNIFORM_DECODE_SIZES, "cudagraph_capture_sizes", None, f"+ {len(added)} decode sizes")
    else:
        trace.decide(OFF_GRID_SEQS, "cudagraph_capture_sizes", None, f"+ {added[0]}")
    return sorted(present.union(added))


def _near_maximum(grid: GridInput, valid: int) -> str:
    """Maxima that are captured, next to one that is not: the next size up, and the one that is left."""
    asked, each = grid.user_max or 0, grid.multiple_of
    most = min(round_up(asked, lcm(16, each)), grid.max_num_batched_tokens, MAX_GRAPH_TOKENS)
    above = [size for size in grid_up_to(most, grid.interactivity) if size >= asked and size % each == 0]
    near = [*above[:1], *([valid] if valid else [])]
    ways = [f"set it to {' or '.join(map(str, near))}"] if near else []
    ways.append("leave it out")
    if grid.query_len > 1:
        ways.append(f"name multiples of {lcm(grid.query_len, grid.multiple_of)} with --cudagraph-capture-sizes")
    return ", or ".join(ways)


def _check_maximum(grid: GridInput, valid: int, trace: Trace) -> None:
    if grid.user_max is None or grid.user_max == valid:
        return
    if grid.user_sizes is not None:
        dropped = grid.user_max in grid.user_sizes
        why = f": it exceeds max_num_batched_tokens, {grid.max_num_batched_tokens}, and is dropped" if dropped else ""
        raise StartupError(
            f"max_cudagraph_capture_size {grid.user_max} is not the largest capture size, {valid}{why}",
            code=SIZES_DISAGREE.code,
            where="--max-cudagraph-capture-size",
            fix=f"drop --max-cudagraph-capture-size, or set it to {valid}" if valid else SIZES_DISAGREE.instead,
        )
    trace.decide(USER_MAX, "max_cudagraph_capture_size", grid.user_max, valid)
    cliff = f"; batches above {valid} token{'' if valid == 1 else 's'} run without a graph" if valid else ""
    trace.find(
        USER_MAX,
        "warning",
        f"the largest capture size is {valid}, not {grid.user_max}{cliff}",
        fix=_near_maximum(grid, valid),
        where="--max-cudagraph-capture-size",
    )
