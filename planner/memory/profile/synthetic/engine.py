"""The engine `synthetic`: FULL and PIECEWISE graphs of a Decoder in one shared pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....vocabulary import CUDAGraphMode
from ..cuda_graphs import kernel_nodes, new_graph, recorded
from ..descriptors import Descriptor
from ..device import CONTEXT_BYTES
from ..engine import Made, Prepared
from .decoder import Between, Decoder
from .shape import DecoderShape


class SyntheticEngine:
    """Builds and captures a decoder of a given shape.

    Args:
        shape: of this rank.
        notes: what the shape leaves out.
        device: index of the GPU.
        reduce: sums over the ranks in place, or None.
    """

    name = "synthetic"

    def __init__(
        self, shape: DecoderShape, notes: tuple[str, ...], device: int = 0, reduce: Callable[[Any], None] | None = None
    ) -> None:
        self.shape = shape
        self.notes = notes
        self.device = device
        self.reduce = reduce
        self.decoder: Decoder | None = None
        self.pool: Any = None
        self.full: dict[int, Any] = {}
        self.pieces: dict[int, tuple[list[Any], list[Between]]] = {}

    def needs_bytes(self) -> int:
        return self.shape.weights_bytes + self.shape.kv_bytes + self.shape.step_bytes + CONTEXT_BYTES

    def prepare(self) -> Prepared:
        import torch

        device = torch.device("cuda", self.device)
        torch.cuda.set_device(device)
        before = torch.cuda.memory_allocated()
        with torch.inference_mode():
            self.decoder = Decoder(self.shape, device, self.reduce)
        held = torch.cuda.memory_allocated() - before
        self.pool = torch.cuda.graph_pool_handle()
        notes = (
            self.notes if self.decoder.kernel is not None else (*self.notes, "attention copies its blocks: no Triton")
        )
        return Prepared(held - self.shape.kv_bytes, self.shape.kv_bytes, notes)

    def warm_up(self, descriptor: Descriptor) -> None:
        self.eager(descriptor.num_tokens)

    def eager(self, num_tokens: int) -> None:
        import torch

        with torch.inference_mode():
            self._model.step(num_tokens)

    def capture(self, descriptor: Descriptor) -> Made:
        import torch

        with torch.inference_mode():
            if descriptor.mode is CUDAGraphMode.FULL:
                graph = new_graph()
                with recorded(graph, self.pool) as recording:
                    self._model.step(descriptor.num_tokens)
                self.full[descriptor.num_tokens] = graph
                return Made(1, kernel_nodes(graph), recording.instantiate_seconds)
            return self._capture_pieces(descriptor.num_tokens)

    def _capture_pieces(self, tokens: int) -> Made:
        """One graph for each part between two attentions. Their buffers stay in the pool; only views are kept."""
        model, graphs, views = self._model, [], []
        graph = new_graph()
        with recorded(graph, self.pool) as recording:
            between = model.first(tokens)
        graphs.append(graph)
        seconds = recording.instantiate_seconds
        for number in range(self.shape.layers):
            views.append(_views(between))
            model.attend(number, between)
            graph = new_graph()
            with recorded(graph, self.pool) as recording:
                between = model.after(number, between)
            graphs.append(graph)
            seconds += recording.instantiate_seconds
        self.pieces[tokens] = (graphs, views)
        return Made(len(graphs), sum(map(kernel_nodes, graphs)), seconds)

    def replay(self, descriptor: Descriptor) -> None:
        import torch

        if descriptor.mode is CUDAGraphMode.FULL:
            self.full[descriptor.num_tokens].replay()
            return
        graphs, views = self.pieces[descriptor.num_tokens]
        with torch.inference_mode():
            graphs[0].replay()
            for number, graph in enumerate(graphs[1:]):
                self._model.attend(number, views[number])
                graph.replay()

    def release(self) -> None:
        for graph in [*self.full.values(), *(graph for graphs, _ in self.pieces.values() for graph in graphs)]:
            graph.reset()
        self.full.clear()
        self.pieces.clear()
        self.decoder = None
        self.pool = None

    def fingerprint(self) -> dict[str, Any]:
        return {
            "engine": self.name,
            "context_tokens": 128,
            "attention": "paged, one query token a request",
            "lm_head": self.shape.head,
        }

    @property
    def _model(self) -> Decoder:
        if self.decoder is None:
            raise RuntimeError("prepare() was not called")
        return self.decoder


def _views(between: Between) -> Between:
    """The same memory without a claim to it, so that later parts may use it again, as vLLM's weak references do."""
    from ..cuda_graphs import without_claim

    return Between(None, *(without_claim(tensor) for tensor in between[1:]))
