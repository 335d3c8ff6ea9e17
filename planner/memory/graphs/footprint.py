"""What a capture is made of: sizes, pool, graphs, nodes and libraries. Prediction and vLLM's estimate start from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from ...deployment import Deployment
from ...env_switches import int_switch
from ...light_dataclass import dataclass
from ...releases import canonical, facts
from ...resolve import Resolution
from ...resolve.graphs import Graph
from ...vocabulary import CUDAGraphMode, Runner
from ..estimates import MIB
from .layers import Layers, layers_of
from .pool import Captured, Splits, Step, pool_bytes
from .workspace import AttentionBuffer, attention_buffer, splits_of

_HOPPER = 9
_ITEM_BYTES = {"float32": 4}
_LARGE_SEGMENT = 20 * MIB
_OWN_SEGMENT = 10 * MIB
_PIECEWISE, _FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL

LIBRARIES = "libraries on the capture stream"
ACTIVATIONS = "activations in the pool"
WORKSPACE = "attention workspace in the pool"
SECOND_STREAM = "second stream of shared experts"
PIECEWISE_GRAPHS = "PIECEWISE graphs in the driver"
FULL_GRAPHS = "FULL graphs in the driver"


@dataclass(frozen=True)
class Footprint:
    """Everything that prediction and vLLM's estimate are worked out from; best values, bytes.

    Attributes:
        known: facts of the topic `graph_memory`.
        step, splits, own_stream: what the pool is worked out from.
        piecewise, full: captured sizes by mode.
        libraries: what is taken outside the pool.
        node: what the driver keeps for a node.
        layers: of the rank.
        forked: tokens up to which shared experts use a second stream; 0: never.
        buffer: what attention allocates with the first FULL graph, beside the pool.
    """

    known: Mapping[str, Any] = field(repr=False)
    step: Step
    splits: Splits | None
    own_stream: int
    piecewise: Captured
    full: Captured
    libraries: int
    layers: Layers
    forked: int
    node: int
    buffer: AttentionBuffer = AttentionBuffer(0, again=False)

    @property
    def graph(self) -> int:
        """What the driver keeps for a graph of one branch, without its nodes."""
        return int(self.known["driver"]["graph"])

    def pool(self, piecewise: Captured, full: Captured, splits: Splits | None) -> int:
        return pool_bytes(self.step, piecewise, full, splits, self.own_stream)

    def piecewise_size(self, tokens: int) -> int:
        """What the driver keeps for one PIECEWISE size: a graph for each piece, and their nodes."""
        layers = self.layers
        branches = layers.forks * int(self.known["driver"]["branch"]) if tokens <= self.forked else 0
        return round(layers.pieces * self.graph + layers.piece_nodes * self.node + branches)

    @property
    def piecewise_total(self) -> int:
        """What the driver keeps for all PIECEWISE sizes. They cost one of two amounts: with a second stream, or not."""
        forked = sum(tokens <= self.forked for tokens, _ in self.piecewise)
        plain = len(self.piecewise) - forked
        return forked * self.piecewise_size(self.forked) + plain * self.piecewise_size(self.forked + 1)

    @property
    def full_size(self) -> int:
        """What the driver keeps for one FULL size."""
        return round(self.graph + (self.layers.piece_nodes + self.layers.op_nodes) * self.node)

    def second_stream(self, sizes: Captured, what: str) -> int:
        """Segments of the stream that shared experts use in small batches."""
        used = self.layers.forks and any(tokens <= self.forked for tokens, _ in sizes)
        return int(self.known["streams"][what]) if used else 0


def footprint(deployment: Deployment, resolution: Resolution) -> Footprint:
    """What the captures of `resolution` are made of.

    Raises:
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    known = facts("graph_memory", canonical(deployment.vllm))
    layers = layers_of(deployment, deployment.model, known, resolution.lora is not None)
    streams = known["streams"]
    cublas = int(streams["cublas_hopper" if deployment.gpu.major >= _HOPPER else "cublas"])
    is_v2 = resolution.runner is Runner.V2
    own = cublas if is_v2 and streams["v2_own_stream"] else 0
    item = _ITEM_BYTES.get(str(resolution.config.get("dtype", "bfloat16")), 2)
    kept = _outputs(resolution, layers.hidden * item) if own else 0
    no_fork = int_switch(deployment.env, "VLLM_DISABLE_SHARED_EXPERTS_STREAM")
    return Footprint(
        known=known,
        step=Step(layers.hidden, item, layers.shown, layers.float32_norm),
        splits=splits_of(deployment, resolution, known),
        own_stream=own,
        piecewise=_sizes(resolution.captures.get(_PIECEWISE, ())),
        full=_sizes(resolution.captures.get(_FULL, ())),
        libraries=cublas + int(streams["left_over"]) + kept,
        layers=layers,
        forked=0 if no_fork else int(streams["shared_tokens"]),
        node=int(known["driver"]["node" if deployment.gpu.major >= _HOPPER else "node_before_hopper"]),
        buffer=attention_buffer(deployment, resolution),
    )


def best_parts(made: Footprint) -> dict[str, int]:
    """The parts of a capture of the target model, best values."""
    activations = made.pool(made.piecewise, made.full, None)
    with_splits = made.pool(made.piecewise, made.full, made.splits) if made.splits is not None else activations
    second = made.second_stream(made.piecewise, "shared_piecewise") + made.second_stream(made.full, "shared_full")
    return {
        ACTIVATIONS: activations,
        WORKSPACE: with_splits - activations,
        PIECEWISE_GRAPHS: made.piecewise_total,
        FULL_GRAPHS: made.full_size * len(made.full),
        LIBRARIES: made.libraries,
        SECOND_STREAM: second,
    }


def _sizes(graphs: Iterable[Graph]) -> Captured:
    return tuple((graph.num_tokens, graph.num_reqs or graph.num_tokens) for graph in graphs)


def _outputs(resolution: Resolution, row: int) -> int:
    """Segment of the hidden states that runner V2 keeps for the largest size, outside the pool."""
    size = resolution.max_capture_size * row
    if size <= MIB:
        return 0
    return _LARGE_SEGMENT if size < _OWN_SEGMENT else size
