"""The shape of one CUDA graph, and of the answer to "which graph runs this batch?"."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InputError, shorten
from ..vocabulary import CUDAGraphMode


class Graph(NamedTuple):
    """One CUDA graph: vLLM's batch descriptor. Token and request counts.

    Attributes:
        num_tokens: tokens that the graph holds; a batch is padded up to it.
        num_reqs: requests that it holds, or None: any number.
        uniform_query_len: every request has exactly this many tokens, or None: no such demand.
        max_query_len: no request has more tokens than this (varlen decode), or None.
        num_active_loras: adapters in the batch that it serves; 0 is a batch without LoRA.
        num_ubatches: microbatches that the batch is split into; 1 is no split.
    """

    num_tokens: int
    num_reqs: int | None = None
    uniform_query_len: int | None = None
    max_query_len: int | None = None
    num_active_loras: int = 0
    num_ubatches: int = 1


class Batch(NamedTuple):
    """One step's batch, before padding.

    Attributes:
        num_tokens: scheduled tokens of the whole batch.
        num_reqs: requests.
        max_query_len: most tokens of one request.
        num_active_loras: distinct adapters in the batch.
        has_prefill: some request is in prefill; only runner V2 looks at it.
    """

    num_tokens: int
    num_reqs: int
    max_query_len: int
    num_active_loras: int = 0
    has_prefill: bool = False

    @property
    def is_uniform(self) -> bool:
        """Every request has the same number of tokens."""
        return self.num_reqs > 0 and self.num_tokens == self.max_query_len * self.num_reqs


class Dispatch(NamedTuple):
    """What a batch runs in: FULL or PIECEWISE with the graph, or NONE (eager, unpadded) without one.

    Attributes:
        mode: run-time mode.
        num_tokens: tokens that the step computes, padding included.
        graph: the graph that is replayed, or None.
        num_active_loras: the captured adapter count that the batch is served as.
    """

    mode: CUDAGraphMode
    num_tokens: int
    graph: Graph | None
    num_active_loras: int = 0

    def waste(self, batch_tokens: int) -> float:
        """Share of the padded batch that is padding, 0 to below 1."""
        return (self.num_tokens - batch_tokens) / self.num_tokens if self.num_tokens else 0.0


Captures = dict[CUDAGraphMode, tuple[Graph, ...]]
"""Graphs by run-time mode, each in capture order; a mode with no graph has no key."""


def check_batch(num_tokens: object, num_reqs: object, max_query_len: object, num_active_loras: object) -> None:
    """Refuse what is no batch; one without tokens is an idle step."""
    for name, value, least in (
        ("num_tokens", num_tokens, 0),
        ("num_reqs", num_reqs, 0),
        ("max_query_len", max_query_len, 0),
        ("num_active_loras", num_active_loras, 0),
    ):
        if value is None and name in ("num_reqs", "max_query_len"):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(
                f"{name}: {shorten(repr(value), 40)} is no count of {least} or more",
                code="CG903",
                where=name,
                fix="give a whole number",
            )
    if isinstance(num_reqs, int) and isinstance(num_tokens, int) and num_reqs > num_tokens:
        raise InputError(
            f"num_reqs: {num_reqs} requests have no {num_tokens} tokens",
            code="CG903",
            where="num_reqs",
            fix="give one token a request at least",
        )
