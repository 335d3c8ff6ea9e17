"""What the capture of CUDA graphs takes of one GPU's memory, predicted without a GPU.

Four things add up: the pool that all graphs share (`graph_pool`), attention's workspace in it (`graph_workspace`), what
the driver keeps for each graph and each node in it, and what libraries take for the capture stream. Figures are in
releases/graph_memory.toml; docs/graph-memory.md explains them and shows how far predictions were off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...resolve import Resolution
from ...resolve.graphs import Captures
from ...vocabulary import CUDAGraphMode, Runner
from ..estimates import Interval, between, exactly, total
from .estimate import Samples, SecondSegment, predict_estimate, second_segment, seen_samples
from .footprint import FULL_GRAPHS, PIECEWISE_GRAPHS, WORKSPACE, Footprint, best_parts, footprint
from .layers import Layers, layers_of
from .workspace import UNDERSTOOD

_HOPPER = 9
_PIECEWISE, _FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL

DRAFTER = "graphs of the drafter"
BUFFER = "FlashInfer's buffer"


@dataclass(frozen=True)
class GraphMemory:
    """The memory of one rank's CUDA graphs, bytes.

    Attributes:
        total: what capture takes: free memory before it less free memory after.
        parts: what `total` is made of, by name; parts that are 0 are left out.
        per_graph: what one more size costs in the driver, by mode.
        workspace: attention's share of the pool.
        estimate: what vLLM estimates before it sizes the KV cache; None: it estimates nothing.
        doubts: what was not modelled, in words.
        samples: what runner V1 will measure of each mode; {}: it is another, or measures nothing.
        second_segment: what makes the estimate an outlier; None: nothing.
    """

    total: Interval
    parts: Mapping[str, Interval]
    per_graph: Mapping[CUDAGraphMode, Interval]
    workspace: Interval
    estimate: Interval | None
    doubts: tuple[str, ...] = ()
    samples: Mapping[CUDAGraphMode, Samples] = field(default_factory=dict)
    second_segment: SecondSegment | None = None

    def in_driver(self, mode: CUDAGraphMode) -> int:
        """Bytes that the driver keeps for all graphs of a mode; 0: there are none."""
        part = self.parts.get({_PIECEWISE: PIECEWISE_GRAPHS, _FULL: FULL_GRAPHS}.get(mode, ""))
        return part.best if part is not None else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "total": self.total.as_dict(),
            "parts": {name: part.as_dict() for name, part in self.parts.items()},
            "per_graph": {str(mode): cost.as_dict() for mode, cost in self.per_graph.items()},
            "workspace": self.workspace.as_dict(),
            "estimate": None if self.estimate is None else self.estimate.as_dict(),
            "doubts": list(self.doubts),
        }


def predict_graph_memory(deployment: Deployment, resolution: Resolution) -> GraphMemory:
    """What capturing the graphs of `resolution` takes of each GPU, and what vLLM will estimate for it.

    Raises:
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    made = footprint(deployment, resolution)
    nothing = exactly(0, "no CUDA graphs")
    if not made.piecewise and not made.full:
        return GraphMemory(nothing, {}, {}, nothing, None)
    best = best_parts(made)
    doubts = _doubts(deployment, resolution, made)
    drafter = _drafter(deployment, resolution, made)
    parts = {name: _spread(size, made, doubts) for name, size in best.items() if size}
    if drafter:
        parts[DRAFTER] = between(0.5 * drafter, drafter, 2.0 * drafter, "estimated from the draft model's layers")
    if made.buffer.size:
        held = made.buffer.size if made.buffer.again else 0
        parts[BUFFER] = between(held, held, made.buffer.size, "allocated with the first FULL graph, from reading")
    workspace = parts.get(WORKSPACE, exactly(0, "attention keeps no workspace in the graphs"))
    estimate = predict_estimate(deployment, resolution, made, drafter, unknown=bool(doubts))
    samples_all = resolution.runner is Runner.V1
    return GraphMemory(
        total=_sum(parts, made, doubts),
        parts=parts,
        per_graph=_per_graph(made),
        workspace=workspace,
        estimate=estimate,
        doubts=doubts,
        samples=seen_samples(made) if estimate is not None and samples_all else {},
        second_segment=second_segment(made) if estimate is not None and samples_all else None,
    )


def _drafter(deployment: Deployment, resolution: Resolution, made: Footprint) -> int:
    """The drafter's own graphs: nodes and pieces of its layers. Its buffers fit into what the target's left."""
    drafter, options = resolution.drafter, deployment.speculative_config
    if drafter is None or not drafter.managers:
        return 0
    layers = _draft_layers(deployment, options.model if options is not None else None, made)
    size = layers.pieces * made.graph + layers.piece_nodes * made.node
    whole = made.graph + (layers.piece_nodes + layers.op_nodes) * made.node
    return round(sum(_count(c, _PIECEWISE) * size + _count(c, _FULL) * whole for c in drafter.managers.values()))


def _draft_layers(deployment: Deployment, model: ModelShape | None, made: Footprint) -> Layers:
    """The draft model's layers; without a model of its own, one layer like the target's."""
    if model is not None:
        alone = deployment.model_copy(update={"pipeline_parallel_size": 1})
        return layers_of(alone, model, made.known, False)
    layers = made.layers
    count = max(1, layers.mixers)
    return Layers(
        layers.hidden, False, layers.shown[:1], 1, layers.piece_nodes / count, layers.op_nodes / count, 0, False
    )


def _count(captures: Captures, mode: CUDAGraphMode) -> int:
    return len(captures.get(mode, ()))


def _per_graph(made: Footprint) -> dict[CUDAGraphMode, Interval]:
    found = {}
    source = "graphs and nodes in the driver, measured"
    if made.piecewise:
        size = made.piecewise_size(made.piecewise[-1][0])
        found[_PIECEWISE] = between(0.85 * size, size, 1.15 * size, source)
    if made.full:
        found[_FULL] = between(0.85 * made.full_size, made.full_size, 1.15 * made.full_size, source)
    return found


def _doubts(deployment: Deployment, resolution: Resolution, made: Footprint) -> tuple[str, ...]:
    """What no measurement stands behind."""
    found = []
    if not made.layers.is_sure:
        found.append("the model's matrices are not known; a dense decoder of its size was assumed")
    names = sorted({group.name for group in resolution.backend.groups} - set(UNDERSTOOD))
    if names:
        found.append(f"no capture with {', '.join(names)} was measured")
    if deployment.gpu.major != _HOPPER:
        found.append("captures were measured on Hopper GPUs alone")
    if deployment.enable_dbo:
        found.append(
            "microbatches (--enable-dbo): near their thresholds split and plain graphs are captured both, and the split"
            " ones were not measured; one report has 0.06 GiB and 2 s more"
        )
    if deployment.compilation_config.cudagraph_mm_encoder and deployment.model.is_multimodal_model:
        found.append("graphs of the vision encoder are not counted")
    return tuple(found)


def _spread(size: int, made: Footprint, doubts: tuple[str, ...]) -> Interval:
    low, high = _shares(made, doubts)
    return between((1 - low) * size, size, (1 + high) * size, "predicted from the model's shape")


def _shares(made: Footprint, doubts: tuple[str, ...]) -> tuple[float, float]:
    interval = made.known["interval"]
    experts = "experts_" if any(layer.has_experts for layer in made.layers.shown) else ""
    if doubts:
        return float(interval["unknown_low"]), float(interval[f"unknown_{experts}high"])
    return float(interval["low"]), float(interval[f"{experts}high"])


def _sum(parts: Mapping[str, Interval], made: Footprint, doubts: tuple[str, ...]) -> Interval:
    """The parts together. Their errors are not of one sign, so the bounds are shares of the sum, not sums of bounds."""
    source = "predicted from the model's shape and the captured sizes"
    best = total(parts.values(), source).best
    low, high = _shares(made, doubts)
    own = [parts[name] for name in (DRAFTER, BUFFER) if name in parts]
    down, up = (sum(part.best - part.low for part in own), sum(part.high - part.best for part in own))
    return between((1 - low) * best - down, best, (1 + high) * best + up, source)
