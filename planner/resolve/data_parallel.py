"""Data parallelism: ranks agree on a mode and pad to the largest of them.

Source: vllm/v1/worker/gpu_model_runner.py:3743-3769 (V1), vllm/v1/worker/gpu/dp_utils.py:50-200 (V2) @ 0.33.0.
vLLM pads across ranks only for MoE models; data-parallel engines of dense models are independent.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..trace import Rule
from ..vocabulary import CUDAGraphMode
from .graphs import Batch, Dispatch
from .runner_v1 import V1Dispatcher
from .runner_v2 import V2Dispatcher

PAD_TO_LARGEST = Rule(
    "CG613",
    title="Data-parallel ranks of a MoE model run in one mode, padded to the largest of them; one eager rank makes "
    "all eager.",
    why="Expert all-to-all is a collective: every rank must take part with the same shape.",
    example="Ranks with 5 and 60 decode requests both run the graph of 64.",
    instead="Balance the load over the ranks.",
    source="vllm/v1/worker/gpu/dp_utils.py:50-200",
)


def dispatch_v1(dispatcher: V1Dispatcher, batches: Sequence[Batch]) -> list[Dispatch]:
    """What each rank runs, in the order of `batches` (one a rank)."""
    own = [dispatcher.dispatch(batch) for batch in batches]
    mode = _weakest(own)
    if mode is CUDAGraphMode.NONE:
        return [Dispatch(CUDAGraphMode.NONE, found.num_tokens, None, 0) for found in own]
    most = max(found.num_tokens for found in own)
    allowed = frozenset((mode,))
    return [
        dispatcher.select(most, dispatcher.is_uniform_decode(batch), batch.num_active_loras, allowed)
        for batch in batches
    ]


def dispatch_v2(dispatcher: V2Dispatcher, batches: Sequence[Batch]) -> list[Dispatch]:
    """What each rank runs, in the order of `batches` (one a rank), without microbatching."""
    own = [dispatcher.dispatch(batch) for batch in batches]
    if _weakest(own) is CUDAGraphMode.NONE:
        return [_eager(batch, found.num_active_loras) for batch, found in zip(batches, own, strict=True)]
    counts = {dispatcher.uniform_token_count(batch) for batch in batches}
    uniform = counts.pop() if len(counts) == 1 else None
    lengths = [dispatcher.longest_query(batch) for batch in batches]
    longest = None if None in lengths else max(length for length in lengths if length is not None)
    most = max(batch.num_tokens for batch in batches)
    return [dispatcher.select(most, b.num_reqs, uniform, longest, b.num_active_loras) for b in batches]


def _weakest(found: Sequence[Dispatch]) -> CUDAGraphMode:
    for mode in (CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE):
        if any(item.mode is mode for item in found):
            return mode
    return CUDAGraphMode.FULL


def _eager(batch: Batch, loras: int = 0) -> Dispatch:
    return Dispatch(CUDAGraphMode.NONE, batch.num_tokens, None, loras)
