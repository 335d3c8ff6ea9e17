"""What the tests of other choices beside the sizes say often."""

from __future__ import annotations

from typing import Any

from workload_helpers import decode, mixed

from cgplan import CUDAGraphMode, Deployment, StartupError, gpu, load_model, resolve
from cgplan.memory.budget.measured_record import Profile, profile_of
from cgplan.workload.choices.candidate import Candidate
from cgplan.workload.choices.graph_modes import with_mode
from cgplan.workload.histogram import Batches, Workload, workload_of
from cgplan.workload.tune.tune import Tuning

DECODE_ONLY = CUDAGraphMode.FULL_DECODE_ONLY
BOTH = CUDAGraphMode.FULL_AND_PIECEWISE
MODEL, GPU = load_model("Qwen/Qwen3-8B"), gpu("h100")
FAST = {"1": 0.004, "512": 0.008}
MIDDLE = {"1": 0.006, "512": 0.010}
SLOW = {"1": 0.020, "8192": 0.300}


def deployment(mode: CUDAGraphMode | None = None, **fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 64)
    asked = Deployment(model=MODEL, gpu=GPU, **fields)
    return asked if mode is None else with_mode(asked, mode)


def steps(*batches: Batches) -> Workload:
    return workload_of(batches, "a test")


def through(given: dict[str, float]) -> dict[str, float]:
    """The same line with a size between, as times of two sizes price nothing."""
    if len(given) != 2:
        return given
    (low, first), (high, last) = ((int(size), value) for size, value in given.items())
    middle = (low + high) // 2
    return {str(low): first, str(middle): first + (last - first) * (middle - low) / (high - low), str(high): last}


def record(
    full: dict[str, float] = FAST, piecewise: dict[str, float] = MIDDLE, eager: dict[str, float] = SLOW
) -> Profile:
    said = {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3", "model": "Qwen/Qwen3-8B"}
    times = {"full": through(full), "piecewise": through(piecewise), "eager": through(eager)}
    document = {"schema_version": 1, "fingerprint": said, "measured": {}, "profile": {"cost_seconds": times}}
    return profile_of(document, "a test")


def candidates(found: Tuning) -> list[Candidate]:
    rows = (*found.others.modes.rows, *found.others.requests.rows, *found.others.largest.rows)
    return [row.found for row in rows if row.found is not None]


def mode_row(found: Tuning, asked: CUDAGraphMode) -> Candidate:
    (one,) = (row.found for row in found.others.modes.rows if row.asked is asked)
    assert one is not None
    return one


def ran_in(asked: Deployment) -> CUDAGraphMode | None:
    """The mode that vLLM makes of it; None: it does not start."""
    try:
        return resolve(asked).cudagraph_mode
    except StartupError:
        return None


USUAL = steps(decode(5, 4000), decode(30, 2000), mixed(100, 300), mixed(900, 200))
