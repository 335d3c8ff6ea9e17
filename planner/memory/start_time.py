"""How long the parts of a start beside capture take, as they took in public logs."""

from __future__ import annotations

from typing import NamedTuple

from ..releases import table
from ..vocabulary import CompilationMode
from .capacity_plan import CapacityPlan, CaptureTime, capture_time, vllm_estimate
from .estimates import GIB

BLACKWELL = 10
"""Major compute capability from which FP4 kernels were seen to be tuned at the start for minutes."""

Seconds = tuple[float, float, float]
"""Low, best and high."""


class StartTime(NamedTuple):
    """How long the parts of a start took elsewhere, seconds.

    Attributes:
        load: the weights of one GPU.
        compiling: torch.compile with Dynamo, nothing in its cache; None: nothing is compiled.
        profiling: the run that measures memory, without the next two.
        states: what its first run takes more where Triton compiles the kernels of states; None: the model has none.
        estimating: the graphs that vLLM captures as samples for its estimate; None: it takes none.
        tuning: warm-up and autotune of FP4 kernels on Blackwell, where that took minutes; None: none of these.
        basis: what it is from.
    """

    load: Seconds
    compiling: Seconds | None
    profiling: Seconds
    states: Seconds | None
    estimating: Seconds | None
    tuning: Seconds | None
    basis: str

    def parts(self) -> list[tuple[str, Seconds]]:
        """The parts by name, in the order of the start."""
        named = (
            ("the weights of a GPU", self.load),
            ("torch.compile with Dynamo", self.compiling),
            ("the profile run", self.profiling),
            ("the Triton kernels of the model's states", self.states),
            ("the graphs that are sampled for the estimate", self.estimating),
            ("warm-up and autotune of FP4 kernels", self.tuning),
        )
        return [(name, seconds) for name, seconds in named if seconds is not None]


def start_time(made: CapacityPlan) -> StartTime | None:
    """How long the parts of a start beside capture take; None: the budget is not planned."""
    if made.budget is None:
        return None
    known = table("capture_time")
    model, card = made.deployment.model, made.deployment.gpu
    # Of mixed checkpoints the method does not say that experts are FP4; their names do.
    named = f"{made.deployment.quantization} {model.quantization} {model.name}".lower()
    is_fp4 = model.is_nvfp4_quantized or "fp4" in named
    size = max(stage.weights.best for stage in made.budget.stages) / GIB
    layers = model.num_hidden_layers / made.deployment.pipeline_parallel_size
    compiled = made.resolution.compilation_mode is not CompilationMode.NONE
    estimate = vllm_estimate(made)
    is_sampled = estimate is not None and estimate.best > 0 and bool(made.resolution.graph_count())
    return StartTime(
        load=_times(known["load_seconds_a_gib"], size),
        compiling=_times(known["compile_seconds_a_layer"], layers) if compiled else None,
        profiling=_times(known["profile_seconds"]),
        states=_times(known["states_seconds"]) if model.is_hybrid else None,
        estimating=_times(known["estimate_seconds"]) if is_sampled else None,
        tuning=_times(known["tune_seconds"]) if is_fp4 and card.capability[0] >= BLACKWELL else None,
        basis=known["before_basis"],
    )


def longest(made: CapacityPlan) -> tuple[str, float] | None:
    """The longest part of a start by the best values, capture among them, and its seconds; None: not known."""
    found = start_time(made)
    if found is None:
        return None
    capture: CaptureTime | None = capture_time(made)
    named = [(name, seconds[1]) for name, seconds in found.parts()]
    named += [("capture", capture.best)] if capture is not None else []
    return max(named, key=lambda one: one[1])


def _times(values: list[float], factor: float = 1.0) -> Seconds:
    least, middle, most = (value * factor for value in values)
    return least, middle, most
