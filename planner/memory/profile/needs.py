"""What a profile would do, without a GPU: the graphs it would capture and the memory it would need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...deployment import Deployment
from ...resolve import Resolution
from ..estimates import Interval
from ..graphs.memory import predict_graph_memory
from .descriptors import Descriptor, by_mode, counts
from .device import CONTEXT_BYTES


@dataclass(frozen=True)
class Needs:
    """Bytes of one GPU.

    Attributes:
        every, chosen: how many graphs there are, and are captured, by mode.
        sizes: tokens of the captured ones, by mode.
        weights_bytes, kv_bytes, step_bytes: of the decoder; None: the engine builds no decoder of its own.
        graphs: what vLLM's capture of all graphs is predicted to take.
        notes: what differs from vLLM's model.
    """

    every: dict[str, int]
    chosen: dict[str, int]
    sizes: dict[str, list[int]]
    weights_bytes: int | None
    kv_bytes: int | None
    step_bytes: int | None
    graphs: Interval
    notes: tuple[str, ...]

    @property
    def total_bytes(self) -> int | None:
        """Weights, cache, the largest step, the process's own memory, and the graphs at most, twice.

        The decoder launches more kernels than vLLM's compiled model, and timing captures a second time.
        """
        if self.weights_bytes is None or self.kv_bytes is None or self.step_bytes is None:
            return None
        return self.weights_bytes + self.kv_bytes + self.step_bytes + CONTEXT_BYTES + 2 * self.graphs.high

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "graphs": self.every,
            "captured": self.chosen,
            "sizes": self.sizes,
            "weights_bytes": self.weights_bytes,
            "kv_bytes": self.kv_bytes,
            "step_bytes": self.step_bytes,
            "graph_bytes": self.graphs.as_dict(),
            "total_bytes": self.total_bytes,
            "notes": list(self.notes),
        }


def needs(
    deployment: Deployment,
    resolution: Resolution,
    every: Sequence[Descriptor],
    chosen: Sequence[Descriptor],
    engine: str,
) -> Needs:
    """What profiling with `engine` would need.

    Raises:
        InputError: CG993, the synthetic engine cannot build the model.
    """
    weights = kv = step = None
    notes: tuple[str, ...] = ()
    if engine == "synthetic":
        from .synthetic.shape import shape_of

        shape, notes = shape_of(deployment, max(one.num_tokens for one in every))
        weights, kv, step = shape.weights_bytes, shape.kv_bytes, shape.step_bytes
    return Needs(
        counts(every),
        counts(chosen),
        {str(mode): [one.num_tokens for one in graphs] for mode, graphs in by_mode(chosen).items()},
        weights,
        kv,
        step,
        predict_graph_memory(deployment, resolution).total,
        notes,
    )
