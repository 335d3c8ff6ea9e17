"""Coverage: which batches run in which graph, as ranges instead of one answer a batch.

Between two captured sizes nothing changes, so one dispatch a range tells it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..light_dataclass import dataclass
from ..trace import Rule
from ..vocabulary import CUDAGraphMode
from .dynamic_sd import Steps, tokens_at
from .graphs import Batch, Captures, Dispatch, Graph

CLIFF = Rule(
    "CG701",
    title="A batch above the largest captured size runs without any graph.",
    why="A graph has a fixed shape; vLLM does not split batches over graphs.",
    example="513 decode requests with a grid that ends at 512: the step is launched kernel by kernel.",
    instead="Raise --max-cudagraph-capture-size, or lower --max-num-seqs.",
    source="vllm/v1/cudagraph_dispatcher.py:262-275",
)
PADDING = Rule(
    "CG702",
    title="A batch is padded up to the next captured size.",
    why="A graph has a fixed shape.",
    example="9 requests run as 16: 43.75% of the step is padding.",
    instead="Add the sizes that your traffic uses to --cudagraph-capture-sizes.",
    source="vllm/v1/cudagraph_dispatcher.py:71-108",
)
UNREACHABLE = Rule(
    "CG703",
    title="A captured graph that no batch ever runs in.",
    why="Grids for different purposes are crossed with each other, and some combinations never occur.",
    example="--specialize-active-lora --max-loras 4 captures a case of 5 adapters, which no batch has.",
    instead="Drop --specialize-active-lora, or lower --max-loras to --max-num-seqs, where adapters made it; else name"
    " the sizes that are used with --cudagraph-capture-sizes.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:256-394",
)
SPEC_CLIFF = Rule(
    "CG704",
    title="The grid does not grow to max_num_seqs x the decode query length: large decode batches run eager.",
    why="The cap bounds tokens, and each request brings 1 + num_speculative_tokens of them.",
    example="3 draft tokens and 256 sequences on an H100: decode batches above 128 requests have no graph.",
    instead="Raise --max-cudagraph-capture-size to max_num_seqs x (1 + num_speculative_tokens), rounded up to a size of"
    " the grid: multiples of 8, from 256 on of 16; on runner V1 one size further where 1 + num_speculative_tokens does"
    " not divide that. The finding names the least: 6 requests with 6 draft tokens need 48, as 42 ends at 40. Or name"
    " the multiples with --cudagraph-capture-sizes.",
    source="vllm/config/vllm.py:2463-2470",
)
TOKENS_NOT_REQUESTS = Rule(
    "CG440",
    title="Capture sizes count tokens, not requests: with drafts each request of a decode batch brings several.",
    why="A decode batch holds 1 + num_speculative_tokens tokens a request, and a graph holds a number of tokens.",
    example="--max-num-seqs 6 --max-cudagraph-capture-size 6 with 3 draft tokens: 2 requests have no graph.",
    instead="Name max_num_seqs x (1 + num_speculative_tokens) as a size; a maximum is that, rounded up to a multiple of"
    " 8, from 256 on of 16, and on runner V1 one size further where 1 + num_speculative_tokens does not divide it.",
    source="vllm/config/vllm.py:2463-2557",
)
DECODE_WITHOUT_FULL = Rule(
    "CG705",
    title="Decode batches between the last FULL graph and max_num_seqs fall back to PIECEWISE.",
    why="A FULL decode graph holds no more than max_num_seqs requests, and the sizes step by 8 or 16.",
    example="--max-num-seqs 100 on 0.30.0: batches of 97 to 100 requests pad to 104, which only PIECEWISE has.",
    instead="Choose a --max-num-seqs that is a capture size, or name the size.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:265-310",
)
MUCH_PADDING = Rule(
    "CG706",
    title="A gap in the named capture sizes makes small batches run as large ones.",
    why="A batch runs at the next size that was captured, however far that is.",
    example="Sizes 1, 2, 4, 4096: five requests run as 4096 tokens.",
    instead="Name a size in the gap.",
    source="vllm/v1/cudagraph_dispatcher.py:71-108",
)


@dataclass(frozen=True)
class CoverageRange:
    """A run of batch sizes with one answer.

    Attributes:
        first, last: batch sizes, inclusive; requests for uniform decode, tokens for mixed batches.
        query_len: tokens of each request; 1 for mixed batches, whose size counts tokens.
        mode: run-time mode.
        padded: tokens that the step computes; None where it runs eager, unpadded.
    """

    first: int
    last: int
    query_len: int
    mode: CUDAGraphMode
    padded: int | None

    @property
    def waste(self) -> float:
        """Largest share of padding in the range, 0 to below 1."""
        return 0.0 if self.padded is None else (self.padded - self.first * self.query_len) / self.padded

    @property
    def mean_waste(self) -> float:
        """Mean share of padding over the sizes of the range."""
        if self.padded is None:
            return 0.0
        return (self.padded - (self.first + self.last) * self.query_len / 2) / self.padded


@dataclass(frozen=True)
class Coverage:
    """Ranges that cover every batch of one kind, ascending, without gap."""

    kind: str
    ranges: tuple[CoverageRange, ...]

    @property
    def first_cliff(self) -> int | None:
        """The smallest batch size that runs eager, or None."""
        return next((r.first for r in self.ranges if r.mode is CUDAGraphMode.NONE), None)

    @property
    def worst(self) -> CoverageRange | None:
        """The range with the largest share of padding, or None where nothing is padded."""
        padded = [r for r in self.ranges if r.waste > 0]
        return max(padded, key=lambda r: r.waste) if padded else None

    @property
    def mean_waste(self) -> float:
        """Mean share of padding over all batch sizes that run in a graph, each weighted alike."""
        graphs = [r for r in self.ranges if r.padded is not None]
        count = sum(r.last - r.first + 1 for r in graphs)
        return sum(r.mean_waste * (r.last - r.first + 1) for r in graphs) / count if count else 0.0


def uniform_decode(
    dispatch: Callable[[Batch], Dispatch],
    graphs: Captures,
    max_num_seqs: int,
    most_tokens: int,
    query_len: int,
    schedule: Steps | None,
    num_active_loras: int = 0,
) -> Coverage:
    """Decode batches of 1 to `max_num_seqs` requests that the token budget holds, each at its query length."""
    steps = schedule or ((max_num_seqs, query_len - 1),)
    ranges: list[CoverageRange] = []
    start = 1
    for last, tokens in steps:
        length = tokens + 1
        top = min(last, max_num_seqs, most_tokens // length)
        for first, end in _intervals(start, top, {size // length for size in _sizes(graphs)}):
            found = dispatch(Batch(end * length, end, length, num_active_loras))
            _append(ranges, first, end, length, found)
        start = last + 1
    return Coverage("uniform_decode", tuple(ranges))


def mixed(
    dispatch: Callable[[Batch], Dispatch], graphs: Captures, most_tokens: int, num_active_loras: int = 0
) -> Coverage:
    """Batches with a prefill, of 1 to `most_tokens` tokens."""
    ranges: list[CoverageRange] = []
    for first, end in _intervals(1, most_tokens, _sizes(graphs)):
        # One request whose length differs from the total marks the batch as not uniform; V1 looks at nothing else.
        found = dispatch(Batch(end, 1, end + 1, num_active_loras, has_prefill=True))
        _append(ranges, first, end, 1, found)
    return Coverage("mixed", tuple(ranges))


def tokens_of(num_reqs: int, query_len: int, schedule: Steps | None) -> int:
    """Tokens of a uniform decode batch of `num_reqs` requests."""
    length = query_len if schedule is None else tokens_at(schedule, num_reqs) + 1
    return num_reqs * length


def reached(
    dispatch: Callable[[Batch], Dispatch],
    graphs: Captures,
    max_num_seqs: int,
    most_tokens: int,
    query_len: int,
    schedule: Steps | None,
    lora_counts: Iterable[int],
) -> set[tuple[CUDAGraphMode, Graph]]:
    """Every (mode, graph) that some batch runs in."""
    found: set[tuple[CUDAGraphMode, Graph]] = set()
    sizes = _sizes(graphs)
    for loras in lora_counts:
        batches = [Batch(end, 1, end + 1, loras, True) for _, end in _intervals(1, most_tokens, sizes)]
        start = 1
        for last, tokens in schedule or ((max_num_seqs, query_len - 1),):
            length = tokens + 1
            top = min(last, max_num_seqs, most_tokens // length)
            bounds = _intervals(start, top, {size // length for size in sizes})
            batches += [Batch(end * length, end, length, loras) for _, end in bounds]
            start = last + 1
        batches += _mixed_lengths(graphs, most_tokens, loras)
        for batch in batches:
            answer = dispatch(batch)
            if answer.graph is not None:
                found.add((answer.mode, answer.graph))
    return found


def _mixed_lengths(graphs: Captures, most_tokens: int, loras: int) -> list[Batch]:
    """A decode batch of fewest requests for each graph that takes any mix of query lengths."""
    found = []
    for graph in (graph for captured in graphs.values() for graph in captured if graph.max_query_len is not None):
        assert graph.max_query_len is not None
        tokens = min(graph.num_tokens, most_tokens)
        num_reqs = -(-tokens // graph.max_query_len)
        found.append(Batch(tokens, num_reqs, -(-tokens // num_reqs), loras))
    return found


def _sizes(graphs: Captures) -> set[int]:
    return {graph.num_tokens for captured in graphs.values() for graph in captured}


def _intervals(first: int, last: int, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """[first, last] cut after every one of `cuts` inside it."""
    ends = sorted({cut for cut in cuts if first <= cut < last} | ({last} if first <= last else set()))
    starts = [first, *(end + 1 for end in ends[:-1])]
    return list(zip(starts, ends, strict=False)) if ends else []


def _append(ranges: list[CoverageRange], first: int, last: int, query_len: int, found: Dispatch) -> None:
    padded = None if found.graph is None else found.num_tokens
    previous: Sequence[CoverageRange] = ranges[-1:]
    for item in previous:
        if (item.mode, item.padded, item.query_len) == (found.mode, padded, query_len):
            ranges[-1] = CoverageRange(item.first, last, query_len, found.mode, padded)
            return
    ranges.append(CoverageRange(first, last, query_len, found.mode, padded))
