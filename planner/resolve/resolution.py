"""What will happen: the result of `resolve`, frozen, with dispatch, padding and coverage as methods.

Sizes and batches are tokens unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from ..light_dataclass import dataclass
from ..releases import holds
from ..trace import Decision, Finding
from ..vocabulary import AttentionCGSupport, CompilationMode, CUDAGraphMode, Runner
from . import cliffs, data_parallel, losses, padding
from . import coverage as cover
from .backends import BackendChoice
from .coverage import Coverage
from .drafter import Drafter
from .dynamic_sd import Steps
from .graphs import Batch, Captures, Dispatch, Graph, check_batch
from .grid import OFF_GRID_SEQS
from .lora import LoraPlan
from .runner_v1 import V1Dispatcher
from .runner_v2 import DispatchHabits, V2Dispatcher


@dataclass(frozen=True)
class Resolution:
    """The CUDA graphs of one deployment.

    Attributes:
        vllm_version: the release whose rules were applied.
        runner: V1 or V2.
        compilation_mode: after all rules.
        requested_mode: the CUDA graph mode that the user named, or that the optimisation level stands for.
        configured_mode: the mode when the engine's configuration is complete, before the backend is known.
        cudagraph_mode: the final mode.
        capture_sizes, max_capture_size: sizes after rounding, ascending; 0 and () where there are none.
        max_num_seqs, max_num_batched_tokens, max_model_len: limits after defaults.
        uniform_decode_query_len: tokens of each request in a uniform decode batch.
        backend: attention backends by KV cache group, and the weakest support level.
        captures: graphs by run-time mode, in capture order (PIECEWISE is captured before FULL).
        schedule: (last batch size, draft tokens) steps of dynamic speculative decoding, or None.
        lora: None where LoRA is off.
        drafter: the drafter's own graphs, or None.
        num_ubatches: microbatches of a split batch; 1: none.
        data_parallel_ranks: ranks that agree on padding (MoE); 1: none.
        pads_to: runner V1 pads batches to multiples of this first (sequence parallelism); 1: none.
        sizes_are_named: the user listed the capture sizes, so they do not come from the grid.
        habits: how runner V2 of the release looks for a graph.
        config: vLLM's resolved settings, by vLLM's names.
        decisions, noted, assumptions, not_modelled: the trace; `findings` has more than `noted`.
    """

    vllm_version: str
    runner: Runner
    compilation_mode: CompilationMode
    requested_mode: CUDAGraphMode
    configured_mode: CUDAGraphMode
    cudagraph_mode: CUDAGraphMode
    capture_sizes: tuple[int, ...]
    max_capture_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    uniform_decode_query_len: int
    backend: BackendChoice
    captures: Captures
    schedule: Steps | None = None
    lora: LoraPlan | None = None
    drafter: Drafter | None = None
    num_ubatches: int = 1
    data_parallel_ranks: int = 1
    pads_to: int = 1
    habits: DispatchHabits = field(default_factory=DispatchHabits)
    sizes_are_named: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    noted: tuple[Finding, ...] = ()
    assumptions: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()
    mode_fix: str | None = None
    mode_cost: str = ""

    @property
    def decode_mode(self) -> CUDAGraphMode:
        """Run-time mode of uniform decode batches that have a graph."""
        return self.cudagraph_mode.decode_mode

    @property
    def mixed_mode(self) -> CUDAGraphMode:
        """Run-time mode of all other batches that have a graph."""
        return self.cudagraph_mode.mixed_mode

    @property
    def support(self) -> AttentionCGSupport:
        return self.backend.support

    def graph_count(self, mode: CUDAGraphMode | None = None) -> int:
        """Graphs of the target model captured in `mode`, or in all modes; the drafter's are not counted."""
        if mode is not None:
            return len(self.captures.get(mode, ()))
        return sum(len(graphs) for graphs in self.captures.values())

    def dispatch(
        self,
        num_tokens: int,
        num_reqs: int | None = None,
        max_query_len: int | None = None,
        num_active_loras: int = 0,
        has_prefill: bool = False,
    ) -> Dispatch:
        """What one batch runs in.

        Args:
            num_tokens: scheduled tokens of the batch.
            num_reqs: requests; None: a uniform decode batch of `num_tokens` / query length requests where that
                divides, else one request.
            max_query_len: most tokens of one request; None: evenly spread.
            num_active_loras: distinct adapters in the batch.
            has_prefill: some request is in prefill.

        Raises:
            InputError: a count is negative or no whole number, or there are more requests than tokens.
        """
        check_batch(num_tokens, num_reqs, max_query_len, num_active_loras)
        if num_reqs is None:
            whole, rest = divmod(num_tokens, self.uniform_decode_query_len)
            num_reqs = whole if rest == 0 and not has_prefill else 1
        if max_query_len is None:
            max_query_len = -(-num_tokens // num_reqs) if num_reqs else 0
        return self.dispatch_batch(Batch(num_tokens, num_reqs, max_query_len, num_active_loras, has_prefill))

    def dispatch_batch(self, batch: Batch) -> Dispatch:
        """What `batch` runs in."""
        return self._dispatcher.dispatch(batch)

    def dispatch_ranks(self, batches: Sequence[Batch]) -> list[Dispatch]:
        """What each data-parallel rank runs when rank i has batches[i]; ranks of dense models do not wait."""
        if self.data_parallel_ranks == 1:
            return [self.dispatch_batch(batch) for batch in batches]
        if isinstance(self._dispatcher, V1Dispatcher):
            return data_parallel.dispatch_v1(self._dispatcher, batches)
        return data_parallel.dispatch_v2(self._dispatcher, batches)

    def padded(self, num_tokens: int) -> int | None:
        """The captured size that a batch of `num_tokens` tokens pads to, or None: it is above the largest."""
        return padding.padded(num_tokens, self.capture_sizes)

    def padding_table(self) -> list[tuple[int, int, int]]:
        """Rows (first batch, last batch, padded size) over the capture sizes."""
        return padding.table(self.capture_sizes)

    def uniform_decode_coverage(self, num_active_loras: int = 0) -> Coverage:
        """Which graph decode batches of 1 to max_num_seqs requests run in."""
        if num_active_loras not in self._decode_coverages:
            self._decode_coverages[num_active_loras] = self._decode_coverage(num_active_loras)
        return self._decode_coverages[num_active_loras]

    @cached_property
    def _decode_coverages(self) -> dict[int, Coverage]:
        """By adapter count: findings, screen and document all ask."""
        return {}

    def _decode_coverage(self, num_active_loras: int) -> Coverage:
        return cover.uniform_decode(
            self.dispatch_batch,
            self.captures,
            self.max_num_seqs,
            self.max_num_batched_tokens,
            self.uniform_decode_query_len,
            self.schedule,
            num_active_loras,
        )

    def mixed_coverage(self, num_active_loras: int = 0) -> Coverage:
        """Which graph batches with a prefill, of 1 to max_num_batched_tokens tokens, run in."""
        return cover.mixed(self.dispatch_batch, self.captures, self.max_num_batched_tokens, num_active_loras)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the operator should know: what the rules noted, then what the graphs leave uncovered."""
        lost = (
            losses.lowered(self.requested_mode, self.cudagraph_mode, self.decisions, self.mode_fix, self.mode_cost),
            losses.unreachable(self.unreachable, self.lora, self.max_num_seqs),
        )
        found = (*self.noted, *(finding for finding in lost if finding is not None), *self._uncovered())
        return cliffs.told_once(found)

    @property
    def _limits_are_default(self) -> bool:
        """Whether vLLM chose max_num_seqs, and the sizes end where its own grid does. Read off the trace, so that a
        resolution that was read back says the same.
        """
        chosen = any(one.field == "max_num_seqs" and one.before is None for one in self.decisions)
        return chosen and not self.sizes_are_named and self.max_capture_size == cliffs.DEFAULT_LARGEST

    def _uncovered(self) -> tuple[Finding, ...]:
        if self.cudagraph_mode is CUDAGraphMode.NONE or self.config.get("runner_type") == "pooling":
            return ()
        most = min(self.max_num_seqs, self.max_num_batched_tokens // self.uniform_decode_query_len)
        if not most:
            return ()
        fullest = cliffs.FullestBatch(
            num_reqs=most,
            num_tokens=cover.tokens_of(most, self.uniform_decode_query_len, self.schedule),
            token_budget=self.max_num_batched_tokens,
            sizes_are_named=self.sizes_are_named,
            rounds_sizes=self.runner is Runner.V1,
            mixed_graphs=self.mixed_mode is not CUDAGraphMode.NONE,
            limits_are_default=self._limits_are_default,
            captured_later=None if holds(self.vllm_version, OFF_GRID_SEQS.since) else OFF_GRID_SEQS.since,
        )
        adapters = self.lora.max_loras if self.lora is not None and 0 not in self.lora.cases else 0
        return cliffs.findings(self.uniform_decode_coverage(adapters), self.max_num_seqs, fullest)

    @cached_property
    def unreachable(self) -> tuple[tuple[CUDAGraphMode, Graph], ...]:
        """Captured graphs that no batch runs in: (mode, graph), in capture order.

        Microbatched twins are left out: which of them run is agreed between ranks at run time.
        """
        # A count in between is served as the next case, so the cases reach all that any count reaches.
        counts: Sequence[int] = (0,)
        if self.lora is not None:
            most = min(self.lora.max_loras, self.max_num_seqs)
            counts = sorted({0, most, *(case for case in self.lora.cases if case <= most)})
        used = cover.reached(
            self.dispatch_batch,
            self.captures,
            self.max_num_seqs,
            self.max_num_batched_tokens,
            self.uniform_decode_query_len,
            self.schedule,
            counts,
        )
        return tuple(
            (mode, graph)
            for mode, graphs in self.captures.items()
            for graph in graphs
            if (mode, graph) not in used and graph.num_ubatches == 1
        )

    @cached_property
    def _dispatcher(self) -> V1Dispatcher | V2Dispatcher:
        lora = self.lora
        if self.runner is Runner.V2:
            return V2Dispatcher(self.captures, lora.cases if lora is not None else (0,), self.habits)
        return V1Dispatcher(
            self.cudagraph_mode,
            self.capture_sizes,
            self.max_num_seqs,
            self.uniform_decode_query_len,
            lora.max_loras if lora is not None else None,
            lora is not None and lora.specialize_active_lora,
            self.captures,
            self.pads_to,
        )
