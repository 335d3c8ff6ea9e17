"""What a profile would do, without a GPU: the graphs it would capture and the memory it would need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...deployment import Deployment
from ...resolve import Resolution
from ...trace import Finding
from ..budget.budget import MemoryFlags
from ..budget.non_torch import total_bytes
from ..estimates import Interval
from ..graphs.memory import predict_graph_memory
from .descriptors import Descriptor, by_mode, counts, with_only
from .room import Captured, Fits, driver_costs, room_for_decoder, room_for_vllm
from .sampling import chosen as sampled


@dataclass(frozen=True)
class Needs:
    """Bytes of one GPU.

    Attributes:
        engine: of the profile.
        every, chosen: how many graphs there are, and are captured, by mode.
        captures: those that are captured, in order.
        weights_bytes, kv_bytes: of the model and its cache; None: not known before it is built.
        step_bytes: of the largest step at most; of vLLM the peak of its profile run.
        outside_bytes: of the process beside the model: CUDA's context, libraries, buffers.
        graphs: what vLLM's capture of all graphs is predicted to take; None: the graphs are not of vLLM's model.
        few: the same of the graphs that are captured.
        driver_bytes: of a callable: what the driver keeps for the graphs, and for each kernel node in them.
        gpu, gpu_bytes: the GPU it is for, and its memory, as CUDA has it.
        least_bytes, total_bytes: what is needed at least and at most; None: not known.
        fits: on that GPU; None: not known.
        problem: why it does not, or may not, and what to do.
        notes: what differs from vLLM's model.
        remarks: what is not known, and by which rules the rest is.
    """

    engine: str
    every: dict[str, int]
    chosen: dict[str, int]
    captures: tuple[Descriptor, ...]
    weights_bytes: int | None = None
    kv_bytes: int | None = None
    step_bytes: int | None = None
    outside_bytes: int | None = None
    graphs: Interval | None = None
    few: Interval | None = None
    driver_bytes: tuple[int, int] | None = None
    gpu: str = ""
    gpu_bytes: int = 0
    least_bytes: int | None = None
    total_bytes: int | None = None
    fits: Fits | None = None
    problem: Finding | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, list[int]]:
        """Tokens of the captured graphs, each once, by mode."""
        return {
            str(mode): list(dict.fromkeys(one.num_tokens for one in graphs))
            for mode, graphs in by_mode(self.captures).items()
        }

    def with_remarks(self, remarks: Sequence[str]) -> Needs:
        """With these before its own."""
        return replace(self, remarks=(*remarks, *self.remarks))

    def as_dict(self) -> dict[str, Any]:
        driver, problem = self.driver_bytes, self.problem
        return {
            "schema_version": 1,
            "engine": self.engine,
            "gpu": self.gpu,
            "graphs": self.every,
            "captured": self.chosen,
            "sizes": self.sizes,
            "captures": [
                {"mode": str(one.mode), **{name: value for name, value in one._asdict().items() if name != "mode"}}
                for one in self.captures
            ],
            "weights_bytes": self.weights_bytes,
            "kv_bytes": self.kv_bytes,
            "activation_bytes": self.step_bytes,
            "non_torch_bytes": self.outside_bytes,
            "graph_bytes": self.graphs.as_dict() if self.graphs is not None else None,
            "captured_graph_bytes": self.few.as_dict() if self.few is not None else None,
            "driver_bytes": None if driver is None else {"graphs": driver[0], "per_node": driver[1]},
            "least_bytes": self.least_bytes,
            "most_bytes": self.total_bytes,
            "total_bytes": self.gpu_bytes,
            "fits": self.fits,
            "problem": problem and {"code": problem.code, "message": problem.message, "fix": problem.fix},
            "notes": list(self.notes),
            "remarks": list(self.remarks),
        }


def needs(
    deployment: Deployment,
    resolution: Resolution,
    every: Sequence[Descriptor],
    chosen: Sequence[Descriptor],
    engine: str,
    lm_head: bool = False,
    *,
    times: Sequence[int] = (),
    flags: MemoryFlags | None = None,
) -> Needs:
    """What profiling with `engine` would need.

    Args:
        times: batch sizes to time; the decoder is built for the largest step.
        flags: of memory, for the engine `vllm`; None: its defaults.

    Raises:
        InputError: CG993, the synthetic engine cannot build the model.
        CgplanError: of the engine `vllm`, the deployment cannot be planned.
    """
    whole = total_bytes(deployment.gpu)
    base: dict[str, Any] = {
        "engine": engine,
        "every": counts(every),
        "chosen": counts(chosen),
        "captures": tuple(chosen),
        "gpu": deployment.gpu.name,
        "gpu_bytes": whole.best,
    }
    if engine == "callable":
        return Needs(
            **base,
            driver_bytes=driver_costs(deployment, len(chosen)),
            remarks=("the memory of the target, and the pool of its graphs, are not known before it is built",),
        )
    graphs = predict_graph_memory(deployment, resolution).total
    few = predict_graph_memory(deployment, with_only(resolution, chosen)).total
    if engine == "vllm":
        room = room_for_vllm(deployment, few, flags)
    else:
        two = predict_graph_memory(deployment, with_only(resolution, sampled(every, "two"))).total
        room = room_for_decoder(deployment, Captured(every, few, two, times), lm_head)
    return Needs(**base, graphs=graphs, few=few, **room._asdict())
