"""The V2 runner's graph manager: which descriptors it captures, and which one a batch finds.

Source: vllm/v1/worker/gpu/cudagraph_utils.py @ 0.33.0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from ..light_dataclass import dataclass
from ..vocabulary import CUDAGraphMode
from .graphs import Batch, Captures, Dispatch, Graph
from .padding import round_up

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE

_NUM_TOKENS = attrgetter("num_tokens")


@dataclass(frozen=True)
class CaptureSpec:
    """All that the manager's descriptor list depends on. Sizes are tokens, ascending.

    Attributes:
        query_lens: decode query lengths: one, or one a tier of dynamic speculative decoding.
        lora_cases: captured adapter counts, ascending.
        varlen_decode: decode graphs take any mix of query lengths (adaptive verification).
        num_ubatches: microbatches of the split twins that FULL graphs get; 1: no twins.
        decode_token_threshold: fewest tokens that are worth splitting.
        widest_mixed: no mixed graph above this many tokens (KDA RecoverSSM), or None.
        rounds_decode: decode graphs are rounded up to whole requests; else sizes come as multiples already.
        pieces_hold_requests: PIECEWISE graphs are made for a number of requests.
    """

    mode: CUDAGraphMode
    sizes: Sequence[int]
    max_capture_size: int
    max_num_seqs: int
    query_len: int
    query_lens: Sequence[int]
    lora_cases: Sequence[int] = (0,)
    varlen_decode: bool = False
    num_ubatches: int = 1
    decode_token_threshold: int = 0
    widest_mixed: int | None = None
    rounds_decode: bool = True
    pieces_hold_requests: bool = False


def captures(spec: CaptureSpec) -> Captures:
    """Descriptors by mode in capture order: PIECEWISE before FULL, larger first (lines 256-379).

    A mode's graphs are all decode graphs or all mixed graphs: only modes that separate the two have decode graphs.
    """
    mode = spec.mode
    if mode is NONE or not spec.sizes:
        return {}
    found: Captures = {}
    if mode.mixed_mode is not NONE:
        found[mode.mixed_mode] = _in_capture_order(_mixed(spec))
    if mode.separate_routine and mode.decode_mode is FULL:
        found[FULL] = _in_capture_order(_varlen_decode(spec) if spec.varlen_decode else _uniform_decode(spec))
    return {mode: graphs for mode, graphs in found.items() if graphs}


def _in_capture_order(graphs: Iterable[Graph]) -> tuple[Graph, ...]:
    """Distinct graphs, larger first; equals stay in the order in which they were made."""
    return tuple(sorted(dict.fromkeys(graphs), key=_NUM_TOKENS, reverse=True))


def _mixed(spec: CaptureSpec) -> Iterable[Graph]:
    most, cases = spec.max_num_seqs, spec.lora_cases
    sizes = spec.sizes
    if spec.widest_mixed is not None:
        sizes = [size for size in sizes if size <= spec.widest_mixed]
    if spec.mode.mixed_mode is FULL:
        graphs = [Graph(size, min(size, most), None, None, loras) for size in sizes for loras in cases]
        return _with_twins(spec, graphs)
    if spec.pieces_hold_requests:
        return [Graph(size, min(size, most), None, None, loras) for size in sizes for loras in cases]
    return [Graph(size, None, None, None, loras) for size in sizes for loras in cases]


def _varlen_decode(spec: CaptureSpec) -> Iterable[Graph]:
    most, longest = spec.max_num_seqs, spec.query_len
    return [
        Graph(size, min(size, most), None, longest, loras)
        for size in spec.sizes
        if size <= most * longest
        for loras in spec.lora_cases
    ]


def _uniform_decode(spec: CaptureSpec) -> Iterable[Graph]:
    """For each query length the size rounded up to whole requests, where such a batch can occur."""
    if not spec.rounds_decode:
        each = spec.query_len
        sizes = [size for size in spec.sizes if each <= size <= spec.max_num_seqs * each]
        return [Graph(size, size // each, each, None, loras) for size in sizes for loras in spec.lora_cases]
    widest = min(spec.max_num_seqs * spec.query_len, spec.max_capture_size)
    graphs = [
        Graph(tokens, tokens // query_len, query_len, None, loras)
        for size in spec.sizes
        for loras in spec.lora_cases
        for query_len in spec.query_lens
        if (tokens := round_up(size, query_len)) <= widest and tokens // query_len <= spec.max_num_seqs
    ]
    return _with_twins(spec, graphs)


def _with_twins(spec: CaptureSpec, graphs: list[Graph]) -> Iterable[Graph]:
    """Each graph, and behind it its microbatched twin where all its requests are equally long (lines 229-254)."""
    if spec.num_ubatches <= 1:
        return graphs
    return [twin for graph in graphs for twin in (graph, _twin(spec, graph)) if twin is not None]


def _twin(spec: CaptureSpec, graph: Graph) -> Graph | None:
    if graph.num_reqs is None:
        return None
    each, rest = divmod(graph.num_tokens, graph.num_reqs)
    if rest or graph.uniform_query_len not in (None, each):
        return None
    if graph.num_tokens < max(spec.num_ubatches, spec.decode_token_threshold):
        return None
    return graph._replace(num_ubatches=spec.num_ubatches, uniform_query_len=each)


def drafter_spec(
    spec: CaptureSpec, mode: CUDAGraphMode, query_len: int, query_lens: Sequence[int] | None = None
) -> CaptureSpec:
    """The spec of a drafter's own manager: no LoRA cases, no twins; one query length unless more are given."""
    return replace(
        spec,
        mode=mode,
        query_len=query_len,
        query_lens=(query_len,) if query_lens is None else query_lens,
        lora_cases=(0,),
        varlen_decode=False,
        num_ubatches=1,
    )


@dataclass(frozen=True)
class DispatchHabits:
    """How a release looks for a graph.

    Attributes:
        shared_candidates: one smallest size over both modes, rather than one a mode (until 0.28.0).
        prefills_may_be_uniform: a batch of equally long prefills counts as uniform (until 0.27.1).
        measures_prefills: the longest query counts even in a batch with a prefill (0.28.0 to 0.30.0).
        looks_at_adapters: graphs are captured by adapter count (from 0.24.0).
    """

    shared_candidates: bool = False
    prefills_may_be_uniform: bool = False
    measures_prefills: bool = False
    looks_at_adapters: bool = True


class V2Dispatcher:
    """Answers which captured descriptor a batch runs in (lines 203-227, 380-394, 523-553).

    Only the smallest captured size that is not below the batch is looked at, for FULL first, then for PIECEWISE;
    if no descriptor of that size fits, nothing larger is tried. `habits`: how the release looks.
    """

    def __init__(self, graphs: Captures, lora_cases: Sequence[int], habits: DispatchHabits | None = None) -> None:
        self.habits = habits or DispatchHabits()
        self._with_lora = sorted(case for case in lora_cases if case > 0)
        self._mode = {graph: mode for mode, captured in graphs.items() for graph in captured}
        in_full, in_pieces = graphs.get(FULL, ()), graphs.get(PIECEWISE, ())
        if self.habits.shared_candidates:
            lists = [[*in_full, *in_pieces]]
        else:
            lists = [list(reversed(in_full)), list(reversed(in_pieces))]
        self._candidates = [_by_case(captured) for captured in lists]

    def effective_loras(self, active: int) -> int:
        """The captured adapter count that serves `active` adapters; above the largest, the largest."""
        if active <= 0 or not self._with_lora:
            return active
        index = bisect_left(self._with_lora, active)
        return self._with_lora[min(index, len(self._with_lora) - 1)]

    def dispatch(self, batch: Batch, num_ubatches: int = 1) -> Dispatch:
        """The graph for `batch`; `num_ubatches` > 1 asks for a microbatched twin."""
        return self.select(
            batch.num_tokens,
            batch.num_reqs,
            self.uniform_token_count(batch),
            self.longest_query(batch),
            batch.num_active_loras,
            num_ubatches,
        )

    def uniform_token_count(self, batch: Batch) -> int | None:
        """Tokens of each request where all have the same and none is in prefill (vllm/v1/worker/utils.py:967-975)."""
        if batch.has_prefill and not self.habits.prefills_may_be_uniform:
            return None
        return batch.max_query_len if batch.is_uniform else None

    def longest_query(self, batch: Batch) -> int | None:
        """Tokens of the longest request, or None: the batch must not use a decode graph of mixed lengths."""
        if batch.has_prefill and not self.habits.measures_prefills:
            return None
        return batch.max_query_len

    def select(
        self,
        num_tokens: int,
        num_reqs: int,
        uniform: int | None,
        longest: int | None,
        num_active_loras: int = 0,
        num_ubatches: int = 1,
    ) -> Dispatch:
        """The graph for a batch of this shape: its `uniform_token_count` and `longest_query`."""
        loras = self.effective_loras(num_active_loras) if self.habits.looks_at_adapters else 0
        if num_tokens > 0:
            for by_case in self._candidates:
                if loras not in by_case:
                    continue
                sizes, groups = by_case[loras]
                index = bisect_left(sizes, num_tokens)
                if index == len(sizes):
                    continue
                for graph in groups[index]:
                    if _fits(graph, num_reqs, uniform, longest, num_ubatches):
                        return Dispatch(self._mode[graph], graph.num_tokens, graph, loras)
        return Dispatch(NONE, num_tokens, None, loras)


def _by_case(graphs: Sequence[Graph]) -> dict[int, tuple[list[int], list[list[Graph]]]]:
    """Adapter count -> (sizes ascending, graphs of each size in the order given)."""
    cases: dict[int, dict[int, list[Graph]]] = {}
    for graph in graphs:
        cases.setdefault(graph.num_active_loras, {}).setdefault(graph.num_tokens, []).append(graph)
    return {case: (sorted(sizes), [sizes[size] for size in sorted(sizes)]) for case, sizes in cases.items()}


def _fits(graph: Graph, num_reqs: int, uniform: int | None, longest: int | None, num_ubatches: int) -> bool:
    """Whether `graph` can hold the batch, its size aside (lines 111-138)."""
    return (
        (graph.uniform_query_len is None or graph.uniform_query_len == uniform)
        and (graph.max_query_len is None or (longest is not None and graph.max_query_len >= longest))
        and (graph.num_reqs is None or graph.num_reqs >= num_reqs)
        and graph.num_ubatches == num_ubatches
    )
