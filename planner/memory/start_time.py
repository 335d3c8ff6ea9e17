"""How long a start takes until capture, as it took in public logs."""

from __future__ import annotations

from typing import NamedTuple

from ..releases import table
from ..vocabulary import CompilationMode
from .estimates import GIB
from .plan import CapacityPlan


class StartTime(NamedTuple):
    """How long the parts of a start before capture took elsewhere: seconds, low, best and high.

    Attributes:
        load: the weights of one GPU.
        compiling: torch.compile with Dynamo; None: nothing is compiled.
        profiling: the rest of the run that measures memory and estimates the graphs.
        basis: what it is from.
    """

    load: tuple[float, float, float]
    compiling: tuple[float, float, float] | None
    profiling: tuple[float, float, float]
    basis: str


def start_time(made: CapacityPlan) -> StartTime | None:
    """How long the weights and the profile run take; None: the budget is not planned."""
    if made.budget is None:
        return None
    known = table("capture_time")
    size = max(stage.weights.best for stage in made.budget.stages) / GIB
    least, middle, most = (size * seconds for seconds in known["load_seconds_a_gib"])
    compiled = made.resolution.compilation_mode is not CompilationMode.NONE
    compiling = tuple(known["compile_seconds"]) if compiled else None
    return StartTime((least, middle, most), compiling, tuple(known["profile_seconds"]), known["before_basis"])
