"""The V1 runner's dispatcher: which keys it captures, and which key a batch finds.

Source: vllm/v1/cudagraph_dispatcher.py @ 0.33.0. A key is a Graph: uniform decode keys carry `uniform_query_len`,
PIECEWISE keys carry no request count.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..vocabulary import CUDAGraphMode
from .graphs import Batch, Captures, Dispatch, Graph
from .padding import padded, round_up

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
ALL_MODES = frozenset((FULL, PIECEWISE, NONE))


def captures(
    mode: CUDAGraphMode, sizes: Sequence[int], max_num_seqs: int, query_len: int, lora_cases: Sequence[int]
) -> Captures:
    """Keys by mode in capture order: PIECEWISE before FULL, larger (tokens, adapters) first.

    Decode keys exist only where decode and mixed batches have modes of their own; a plain FULL serves both from
    the mixed keys (lines 184-230).
    """
    if mode is NONE:
        return {}
    found: Captures = {}
    descending = sorted(sizes, reverse=True)
    cases = sorted(lora_cases, reverse=True)
    if mode.mixed_mode is PIECEWISE:
        found[PIECEWISE] = tuple(Graph(size, None, None, None, loras) for size in descending for loras in cases)
    elif mode.mixed_mode is FULL:
        found[FULL] = tuple(
            Graph(size, min(size, max_num_seqs), None, None, loras) for size in descending for loras in cases
        )
    if mode.separate_routine and mode.decode_mode is FULL:
        most = query_len * max_num_seqs
        found[FULL] = tuple(
            Graph(size, min(size // query_len, max_num_seqs), query_len, None, loras)
            for size in descending
            if query_len <= size <= most
            for loras in cases
        )
    return {m: graphs for m, graphs in found.items() if graphs}


class V1Dispatcher:
    """Answers which captured key a batch runs in (lines 233-322)."""

    def __init__(
        self,
        mode: CUDAGraphMode,
        sizes: Sequence[int],
        max_num_seqs: int,
        query_len: int,
        max_loras: int | None,
        specialize_active_lora: bool,
        graphs: Captures,
        pads_to: int = 1,
    ) -> None:
        self.pads_to = pads_to
        self.mode = mode
        self.sizes = sizes
        self.max_num_seqs = max_num_seqs
        self.query_len = query_len
        self.max_loras = max_loras
        self.specialize_active_lora = specialize_active_lora
        self._full = frozenset(graphs.get(FULL, ()))
        self._piecewise = frozenset(graphs.get(PIECEWISE, ()))
        self._lora_counts = sorted({g.num_active_loras for keys in graphs.values() for g in keys if g.num_active_loras})

    def is_uniform_decode(self, batch: Batch) -> bool:
        """Every request carries exactly the decode query length (gpu_model_runner.py:3619-3637)."""
        return batch.max_query_len == self.query_len and batch.is_uniform

    def dispatch(self, batch: Batch) -> Dispatch:
        """The graph for `batch`."""
        padded = round_up(batch.num_tokens, self.pads_to)
        return self.select(padded, self.is_uniform_decode(batch), batch.num_active_loras)

    def select(
        self,
        num_tokens: int,
        uniform_decode: bool,
        num_active_loras: int = 0,
        allowed: frozenset[CUDAGraphMode] = ALL_MODES,
    ) -> Dispatch:
        """The graph for a batch of this shape; `allowed` limits the run-time modes."""
        eager = Dispatch(NONE, num_tokens, None)
        if self.mode is NONE or not self.sizes:
            return eager
        size = padded(num_tokens, self.sizes)
        if size is None:
            return eager
        loras = self._captured_loras(num_active_loras)
        if FULL in allowed:
            key = self._full_key(size, uniform_decode, loras)
            if key in self._full:
                return Dispatch(FULL, size, key, loras)
        if PIECEWISE in allowed:
            key = Graph(size, None, None, None, loras)
            if key in self._piecewise:
                return Dispatch(PIECEWISE, size, key, loras)
        return eager

    def _full_key(self, size: int, uniform_decode: bool, loras: int) -> Graph:
        """A plain FULL mode serves uniform decode batches from its mixed keys."""
        if uniform_decode and self.mode.separate_routine and self.mode.has_full:
            return Graph(size, min(size // self.query_len, self.max_num_seqs), self.query_len, None, loras)
        return Graph(size, min(size, self.max_num_seqs), None, None, loras)

    def _captured_loras(self, active: int) -> int:
        if active <= 0 or self.max_loras is None:
            return active
        if not self.specialize_active_lora:
            return self.max_loras + 1
        return next((count for count in self._lora_counts if count >= active), active)
