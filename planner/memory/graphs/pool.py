"""What the captured steps leave in the pool: one step's buffers in the order that vLLM's compiled code takes them.

The order was read off allocator events of captured steps of vLLM 0.25.1 on torch 2.11; `graph_allocator` lays the
buffers out. The largest size sets most of the pool. A smaller one adds to it where its buffers fall into another kind
of segment: below 10 MiB they share one of 20 MiB, up to 1 MiB one of 2 MiB.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .allocator import EMPTY, Block, Pool, PoolState
from .layers import LayerWidths

_FLOAT32 = 4
_LEAST = 128
"""Tokens below which a step's buffers find room in what larger ones left."""


class Splits(NamedTuple):
    """The split accumulators of one attention call: float32, [splits, heads, tokens, head_size] and sums beside it.

    Attributes:
        splits: at most; 1 and less: none are kept.
        heads, head_size: of the queries, on one rank.
        most_requests: batches of more requests are not split.
    """

    splits: int
    heads: int
    head_size: int
    most_requests: int

    def bytes_of(self, tokens: int) -> int:
        """Of the accumulator of the outputs."""
        return self.splits * self.heads * tokens * self.head_size * _FLOAT32 if self.splits > 1 else 0


class Step(NamedTuple):
    """What the buffers of a step depend on, but for its tokens."""

    hidden: int
    itemsize: int
    layers: tuple[LayerWidths, ...]
    float32_norm: bool = False


Captured = tuple[tuple[int, int], ...]
"""(tokens, requests) of the captured sizes, in capture order."""


@lru_cache(512)
def pool_bytes(step: Step, piecewise: Captured, full: Captured, splits: Splits | None, own_stream: int) -> int:
    """Bytes of all segments once both kinds are captured.

    Args:
        piecewise, full: captured sizes by mode; (): the mode has no graphs.
        own_stream: runner V2 until 0.28: FULL graphs cannot use what PIECEWISE ones have freed, and cuBLAS's
            workspace of this many bytes lies in the pool; 0: they can.
    """
    state = EMPTY
    for tokens, _ in _telling(piecewise):
        state = _after(state, step, tokens, None, 0)
    before = 0
    if own_stream:
        before, state = _reserved(state), EMPTY
    library = own_stream if full else 0
    for tokens, requests in _telling(full, splits.most_requests if splits is not None else 0):
        wanted = splits if splits is not None and requests <= splits.most_requests else None
        state = _after(state, step, tokens, wanted, library)
        library = 0
    return before + _reserved(state)


def _reserved(state: PoolState) -> int:
    return sum(size for blocks in state for size, _, _ in blocks)


def _telling(sizes: Captured, most_requests: int = 0) -> Captured:
    """The sizes that can add to the pool: the two largest, the first that attention splits, and one of each half."""
    if len(sizes) < 4:
        return sizes
    kept = list(sizes[:2])
    if most_requests and sizes[1][1] > most_requests:
        kept += [size for size in sizes if size[1] <= most_requests][:1]
    half = sizes[0][0] // 2
    for size in sizes[2:]:
        if size[0] <= half and size[0] >= _LEAST:
            kept.append(size)
            half //= 2
    return tuple(kept)


@lru_cache(4096)
def _after(state: PoolState, step: Step, tokens: int, splits: Splits | None, library: int) -> PoolState:
    """The pool once one step, embedding to final norm, went through it; but for the library's, all is given back.

    Deployments that differ in their sizes alone share most of their steps.
    """
    pool = Pool(state)
    run = _Run(pool, step, tokens, splits)
    run.embed(step.layers[0], library)
    for number, layer in enumerate(step.layers):
        following = step.layers[number + 1] if number + 1 < len(step.layers) else None
        run.layer(layer, following)
    run.finish()
    return pool.state


class _Run:
    """The buffers that are alive during one step."""

    def __init__(self, pool: Pool, step: Step, tokens: int, splits: Splits | None) -> None:
        self._pool = pool
        self._step = step
        self._tokens = tokens
        self._splits = splits
        self._unit = tokens * step.itemsize
        self._residual: Block | None = None
        self._normed: Block | None = None
        self._output: Block | None = None
        self._projected: Block | None = None

    def embed(self, first: LayerWidths, library: int) -> None:
        self._residual = self._take(self._step.hidden)
        self._normed = self._take(self._step.hidden)
        self._mix(first, None, library)

    def layer(self, layer: LayerWidths, following: LayerWidths | None) -> None:
        """From the op of `layer` to the op of `following`."""
        hidden = self._step.hidden
        if layer.keeps_projection:  # the gated norm of a state-space output
            core, gated = self._take(layer.output), self._take(layer.output)
            self._give(core)
            out = self._take(hidden)
            self._give(gated)
        else:
            out = self._take(hidden)
        normed = self._take(hidden)
        down = self._mlp(layer, normed)
        scratch = self._take(2 * hidden) if self._step.float32_norm else None
        residual = self._take(hidden)
        old_normed, self._normed = self._normed, self._take(hidden)
        self._give(old_normed)
        for block in (out, scratch):
            self._give(block)
        free_down: Block | None = down
        if following is not None and following.output == hidden and not (layer.has_experts or following.copies_query):
            free_down = None  # the compiler writes the next op's output where this layer's was
        self._give(free_down)
        old_residual, self._residual = self._residual, residual
        self._mix(following, down if free_down is None else None, 0, old_residual)

    def finish(self) -> None:
        for block in (self._residual, self._normed, self._output, self._projected):
            self._give(block)

    def _mix(
        self, layer: LayerWidths | None, output: Block | None, library: int, old_residual: Block | None = None
    ) -> None:
        """The input projection of `layer` and its op."""
        before, self._output = self._output, output
        if layer is None or not layer.has_mixer:
            for block in (before, old_residual):
                self._give(block)
            return
        projected = self._take(layer.projected)
        if library:
            self._pool.take(library)
        query = None
        if layer.copies_query or layer.keeps_projection:
            self._give(self._normed)
            self._normed = None
        key = self._take(layer.key) if layer.key else None
        if layer.copies_query:
            query = self._take(layer.output)
        if self._output is None:
            self._output = self._take(layer.output)
        for block in (before, self._projected, old_residual):
            self._give(block)
        self._projected = None
        self._attend()
        for block in (key, query, self._normed):
            self._give(block)
        self._normed = None
        if layer.keeps_projection:
            self._projected = projected
        else:
            self._give(projected)

    def _attend(self) -> None:
        splits = self._splits
        if splits is None or splits.splits <= 1:
            return
        rows = self._tokens * splits.heads * _FLOAT32
        sums = self._pool.take(rows)
        parts = self._pool.take(splits.bytes_of(self._tokens))
        part_sums = self._pool.take(rows * splits.splits)
        for block in (parts, sums, part_sums):
            self._pool.give(block)

    def _mlp(self, layer: LayerWidths, normed: Block) -> Block:
        """The MLP; gives `normed` back, and returns what comes out."""
        if layer.has_experts:
            return self._experts(layer, normed)
        if not layer.up:
            self._give(normed)
            return self._take(self._step.hidden)
        up = self._take(layer.up)
        self._give(normed)
        act = self._take(layer.act)
        if layer.up != layer.act:
            self._give(up)
        down = self._take(self._step.hidden)
        self._give(act)
        if layer.up == layer.act:
            self._give(up)
        return down

    def _experts(self, layer: LayerWidths, normed: Block) -> Block:
        shared = None
        if layer.shared_up:
            up, act = self._take(layer.shared_up), self._take(layer.shared_act)
            shared = self._take(self._step.hidden)
            self._give(act)
            self._give(up)
        out = self._take(self._step.hidden)
        buffers = [self._take(width) for width in layer.routed if width]
        for block in reversed(buffers):
            self._give(block)
        self._give(shared)
        self._give(normed)
        return out

    def _take(self, width: int) -> Block:
        return self._pool.take(width * self._unit)

    def _give(self, block: Block | None) -> None:
        if block is not None:
            self._pool.give(block)
