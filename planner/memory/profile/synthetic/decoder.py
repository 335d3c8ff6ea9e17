"""The decoder: weights, cache and static buffers on one GPU, and the parts of a step between its attentions.

A step is `first`, then for each layer `attend`, and `after` it. A PIECEWISE graph is one of the
parts; a FULL graph is all of them with the attentions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .attention import paged_attention, triton_kernel
from .shape import BLOCK, CACHE_BLOCKS, CONTEXT, DecoderShape

_EPSILON = 1e-5


class Between(NamedTuple):
    """What one part of a step hands to the attention and to the next part."""

    residual: Any
    query: Any
    key: Any
    value: Any
    output: Any


class _Layer(NamedTuple):
    norm: Any
    qkv: Any
    bias: Any
    out: Any
    after_norm: Any
    up: Any
    down: Any
    router: Any
    shared_up: Any
    shared_down: Any
    keys: Any
    values: Any


class Decoder:
    """One rank's decoder with random weights.

    Args:
        shape: its widths.
        device: a torch device.
        reduce: sums a tensor over the ranks in place; None: there is one rank.
    """

    def __init__(self, shape: DecoderShape, device: Any, reduce: Any | None = None) -> None:
        import torch

        self.shape = shape
        self.torch = torch
        self.reduce = reduce
        self.kernel = triton_kernel()
        dtype = getattr(torch, shape.dtype)
        options = {"device": device, "dtype": dtype}
        self._random = torch.Generator(device=device)
        self._random.manual_seed(1)
        self.embedding = self._weight(shape.vocab, shape.hidden, options)
        self.norm = torch.ones(shape.hidden, **options)
        self.head = self._head(options)
        self.layers = [self._layer(number, options) for number in range(shape.layers)]
        tokens = shape.max_tokens
        whole = {"device": device, "dtype": torch.int64}
        self.ids = torch.randint(0, shape.vocab, (tokens,), generator=self._random, **whole)
        positions = torch.full((tokens,), CONTEXT - 1, **whole)
        angles = positions[:, None].float() * 10000.0 ** (
            -torch.arange(0, shape.head_size // 2, device=device).float() / max(1, shape.head_size // 2)
        )
        self.cos = torch.cos(angles).repeat(1, 2)[:, None, :].to(dtype)
        self.sin = torch.sin(angles).repeat(1, 2)[:, None, :].to(dtype)
        self.slots = torch.arange(tokens, **whole) % (CACHE_BLOCKS * BLOCK)
        blocks = torch.arange(tokens * (CONTEXT // BLOCK), device=device, dtype=torch.int32) % CACHE_BLOCKS
        self.table = blocks.view(tokens, CONTEXT // BLOCK)
        self.hidden = torch.zeros(tokens, shape.hidden, **options)
        self.logits = torch.zeros(tokens, shape.vocab, **options) if shape.head else None

    def _weight(self, rows: int, columns: int, options: dict[str, Any]) -> Any:
        weight = self.torch.empty(rows, columns, **options)
        return weight.normal_(0.0, columns**-0.5, generator=self._random) if rows and columns else weight

    def _head(self, options: dict[str, Any]) -> Any | None:
        """The output head's weight, where there is one."""
        if not self.shape.head:
            return None
        return self.embedding if self.shape.tied else self._weight(self.shape.vocab, self.shape.hidden, options)

    def _layer(self, number: int, options: dict[str, Any]) -> _Layer:
        torch, shape = self.torch, self.shape
        up = 2 if shape.gated else 1
        dense = shape.is_dense(number)
        cache = (CACHE_BLOCKS, BLOCK, shape.kv_heads, shape.head_size)
        if dense:
            wide = self._weight(up * shape.mlp, shape.hidden, options)
            back = self._weight(shape.hidden, shape.mlp, options)
            router = None
        else:
            wide = torch.empty(shape.experts, shape.hidden, up * shape.expert_mlp, **options)
            back = torch.empty(shape.experts, shape.expert_mlp, shape.hidden, **options)
            for weight in (wide, back):
                weight.normal_(0.0, shape.hidden**-0.5, generator=self._random)
            router = self._weight(shape.experts, shape.hidden, options)
        shared = not dense and shape.shared_mlp > 0
        return _Layer(
            torch.ones(shape.hidden, **options),
            self._weight(shape.qkv, shape.hidden, options),
            torch.zeros(shape.qkv, **options) if shape.bias else None,
            self._weight(shape.hidden, shape.heads * shape.head_size, options),
            torch.ones(shape.hidden, **options),
            wide,
            back,
            router,
            self._weight(up * shape.shared_mlp, shape.hidden, options) if shared else None,
            self._weight(shape.hidden, shape.shared_mlp, options) if shared else None,
            torch.zeros(cache, **options),
            torch.zeros(cache, **options),
        )

    def step(self, tokens: int) -> None:
        """A whole decode step of `tokens` requests."""
        between = self.first(tokens)
        for number in range(self.shape.layers):
            self.attend(number, between)
            between = self.after(number, between)

    def first(self, tokens: int) -> Between:
        """Embedding and the first layer's projection."""
        functional = self.torch.nn.functional
        return self._projected(0, functional.embedding(self.ids[:tokens], self.embedding))

    def attend(self, number: int, between: Between) -> None:
        """Write the new keys and values into the cache, and the attention into `between.output`."""
        layer, tokens = self.layers[number], between.query.shape[0]
        slots = self.slots[:tokens]
        layer.keys.view(-1, *layer.keys.shape[2:]).index_copy_(0, slots, between.key)
        layer.values.view(-1, *layer.values.shape[2:]).index_copy_(0, slots, between.value)
        table = self.table[:tokens]
        paged_attention(between.query, layer.keys, layer.values, table, CONTEXT, between.output, self.kernel)

    def after(self, number: int, between: Between) -> Between:
        """The rest of a layer, and the projection of the next; behind the last layer the final norm and the head."""
        torch, shape = self.torch, self.shape
        functional, layer = torch.nn.functional, self.layers[number]
        tokens = between.query.shape[0]
        mixed = functional.linear(between.output.view(tokens, -1), layer.out)
        if self.reduce is not None:
            self.reduce(mixed)
        residual = between.residual + mixed
        normed = functional.rms_norm(residual, (shape.hidden,), layer.after_norm, _EPSILON)
        widened = self._dense(layer, normed) if layer.router is None else self._mixture(layer, normed)
        if self.reduce is not None:
            self.reduce(widened)
        residual = residual + widened
        if number + 1 < shape.layers:
            return self._projected(number + 1, residual)
        normed = functional.rms_norm(residual, (shape.hidden,), self.norm, _EPSILON)
        self.hidden[:tokens].copy_(normed)
        if self.head is not None and self.logits is not None:
            torch.mm(normed, self.head.t(), out=self.logits[:tokens])
        return between

    def _projected(self, number: int, residual: Any) -> Between:
        torch, shape, layer = self.torch, self.shape, self.layers[number]
        functional, tokens = torch.nn.functional, residual.shape[0]
        normed = functional.rms_norm(residual, (shape.hidden,), layer.norm, _EPSILON)
        projected = functional.linear(normed, layer.qkv, layer.bias)
        turned, value = projected.view(tokens, -1, shape.head_size).split(
            [shape.heads + shape.kv_heads, shape.kv_heads], 1
        )
        half = shape.head_size // 2
        rotated = torch.cat((-turned[..., half:], turned[..., :half]), -1)
        turned = turned * self.cos[:tokens] + rotated * self.sin[:tokens]
        query, key = turned.split([shape.heads, shape.kv_heads], 1)
        output = torch.empty(tokens, shape.heads, shape.head_size, device=residual.device, dtype=residual.dtype)
        return Between(residual, query, key, value, output)

    def _gate(self, widened: Any) -> Any:
        functional = self.torch.nn.functional
        if not self.shape.gated:
            return functional.relu(widened)
        gate, up = widened.chunk(2, -1)
        return functional.silu(gate) * up

    def _dense(self, layer: _Layer, normed: Any) -> Any:
        functional = self.torch.nn.functional
        return functional.linear(self._gate(functional.linear(normed, layer.up)), layer.down)

    def _mixture(self, layer: _Layer, normed: Any) -> Any:
        """Experts in turn by a grouped matrix product: tokens sorted by expert, one launch for all experts."""
        torch, shape = self.torch, self.shape
        functional, tokens = torch.nn.functional, normed.shape[0]
        weights, chosen = torch.topk(functional.linear(normed, layer.router).softmax(-1), shape.experts_per_token)
        order = chosen.flatten().argsort()
        rows = normed[order // shape.experts_per_token]
        counts = torch.zeros(shape.experts, device=normed.device, dtype=torch.int32)
        counts.scatter_add_(0, chosen.flatten(), torch.ones_like(chosen.flatten(), dtype=torch.int32))
        ends = counts.cumsum(0, dtype=torch.int32)
        hidden = self._gate(torch._grouped_mm(rows, layer.up, offs=ends))
        back = torch._grouped_mm(hidden, layer.down, offs=ends)
        back = back * weights.flatten()[order, None].to(back.dtype)
        found = torch.zeros(tokens, shape.hidden, device=normed.device, dtype=normed.dtype)
        found.index_add_(0, order // shape.experts_per_token, back)
        if layer.shared_up is not None:
            shared = functional.linear(self._gate(functional.linear(normed, layer.shared_up)), layer.shared_down)
            found = found + shared
        return found
