"""Whether a variant of a deployment starts, without the rest of its plan: what every search asks."""

from __future__ import annotations

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, resolve
from .budget.rules import WEIGHTS
from .kv.capacity import DOES_NOT_FIT, NO_MEMORY, NOTHING_TO_FIT
from .limits import Verdict, check_start, constraints
from .override_room import override_in
from .request import MemoryRequest, make_budget

TOO_LITTLE = (NO_MEMORY.code, DOES_NOT_FIT.code, NOTHING_TO_FIT.code, WEIGHTS.code)
"""Findings of a KV cache that does not hold one request."""
LOADING_FAILS = ("CG615", "CG143")
"""Findings that `resolve` notes and that end the start: the configuration passes, and the worker raises."""


def verdict_of(deployment: Deployment, request: MemoryRequest) -> Verdict:
    """The verdict that a plan of `deployment` gives.

    Raises:
        InputError: something of the model is not known.
        StartupError: vLLM would refuse before it looks at memory.
    """
    resolution = resolve(deployment)
    if request.kv_bytes is not None:
        return in_given_bytes(deployment, request, resolution)
    made, _ = make_budget(deployment, resolution, request)
    return with_loading(check_start(deployment, resolution, made, auto_fit=request.auto_fit), resolution)


def in_given_bytes(deployment: Deployment, request: MemoryRequest, resolution: Resolution) -> Verdict:
    """The verdict where the bytes of the KV cache were given: nothing is estimated, so it is sure."""
    assert request.kv_bytes is not None
    available = [request.kv_bytes] * deployment.pipeline_parallel_size
    held = constraints(deployment, resolution, available, request.auto_fit)
    broken = (*override_in(deployment, available, held.cache), *held.broken)
    ends = tuple(finding.code for finding in broken)
    verdict = Verdict("no" if broken else "yes", held.cache, broken, not broken, ends)
    return with_loading(verdict, resolution)


def with_loading(verdict: Verdict, resolution: Resolution) -> Verdict:
    """The verdict with what ends the start while the model is loaded."""
    fails = tuple(finding for finding in resolution.noted if finding.code in LOADING_FAILS)
    if not fails:
        return verdict
    ends = (*(finding.code for finding in fails), *verdict.ends)
    return Verdict("no", verdict.kv_cache, (*fails, *verdict.findings), False, ends)


def surely_starts(deployment: Deployment, request: MemoryRequest) -> bool:
    """Whether it starts within the bounds of every estimate; what vLLM refuses does not."""
    found = verdict_or_none(deployment, request)
    return found is not None and found.starts == "yes"


def fits_by_best(deployment: Deployment, request: MemoryRequest) -> bool:
    """Whether the KV cache holds a request of the full length by the best estimates, whatever else is wrong."""
    found = verdict_or_none(deployment, request)
    return found is not None and (found.holds or not any(f.code in TOO_LITTLE for f in found.findings))


def verdict_or_none(deployment: Deployment, request: MemoryRequest) -> Verdict | None:
    """The same; None: vLLM refuses before it looks at memory, or something of the model is not known."""
    try:
        return verdict_of(deployment, request)
    except CgplanError:
        return None
