"""Does the server start with the memory that is left, why not, and how far its limits can be raised.

vLLM stops at the first constraint that does not hold, minutes after the start. Here all of them are looked at, each
with the largest value that would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Literal

from ..deployment import Deployment
from ..errors import StartupError
from ..light_dataclass import dataclass
from ..resolve import Resolution, resolve
from ..resolve.downgrade import mamba_fix
from ..trace import Finding
from .budget.budget import Budget
from .budget.rules import FREE_MEMORY, MANUAL, NO_ROOM_TO_CAPTURE, WEIGHTS
from .kv.cache import KVCache, kv_cache
from .kv.capacity import OVERRIDE, KVCacheTooSmall
from .override_room import override_findings


@dataclass(frozen=True)
class Verdict:
    """Whether it starts.

    Attributes:
        starts: "yes" and "no" hold within the bounds of the budget; "unsure": its bounds differ.
        holds: whether every constraint holds by the best values.
        kv_cache: with the best estimate of the memory; None where there is none.
        findings: every constraint that does not hold, or may not.
        ends: codes of the findings that end the start by the best values; () where it holds.
    """

    starts: Literal["yes", "no", "unsure"]
    kv_cache: KVCache | None
    findings: tuple[Finding, ...] = ()
    holds: bool = True
    ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class RequestsOfLength:
    """How many requests of one length fit at once.

    Attributes:
        length: tokens of each request.
        requests: at once, as vLLM's log counts them; max_num_seqs is not looked at.
    """

    length: int
    requests: float


def check_start(deployment: Deployment, resolution: Resolution, made: Budget, *, auto_fit: bool = False) -> Verdict:
    """Whether `deployment` starts with the memory of `made`.

    Args:
        auto_fit: --max-model-len is -1 or auto.

    Raises:
        InputError: what the model's layers keep is not known.
    """
    loading = [finding for finding in made.findings if finding.code == WEIGHTS.code and finding.severity == "error"]
    if loading:
        # What comes after the weights never comes.
        first = [finding for finding in made.findings if finding.severity == "info" or finding.code == FREE_MEMORY.code]
        return Verdict("no", None, (*first, *loading), False, (WEIGHTS.code,))
    best = constraints(deployment, resolution, [kv.best for kv in made.kv_cache], auto_fit)
    made = replace(made, findings=(*made.findings, *override_findings(deployment, made, best.cache)))
    errors = [finding for finding in made.findings if finding.severity == "error"]
    if not best.broken:
        low = constraints(deployment, resolution, [kv.low for kv in made.kv_cache], auto_fit)
        unsure = [
            replace(finding, severity="warning", message=f"at the low end of the estimate {finding.message}")
            for finding in low.broken
        ]
        findings = (*made.findings, *unsure)
        warned = any(finding.severity == "warning" for finding in findings) or _may_be_taken_again(made)
        starts: Literal["yes", "no", "unsure"] = "no" if errors else "unsure" if warned else "yes"
        ends = tuple(finding.code for finding in broken_by_best(made))
        return Verdict(starts, best.cache, findings, not ends, ends)
    high = constraints(deployment, resolution, [kv.high for kv in made.kv_cache], auto_fit)
    certain = {finding.code for finding in high.broken}
    if certain and certain.isdisjoint(finding.code for finding in best.broken):
        # With more memory another constraint is the first that does not hold: what is said here is as sure.
        certain = {finding.code for finding in best.broken}
    broken = [f if f.code in certain else replace(f, severity="warning") for f in best.broken]
    ends = tuple(finding.code for finding in (*broken_by_best(made), *broken))
    return Verdict("no" if errors or certain else "unsure", best.cache, (*made.findings, *broken), False, ends)


def _may_be_taken_again(made: Budget) -> bool:
    """Whether the start rests on memory that others gave back while vLLM measured its graphs."""
    return any(stage.deducted.best < 0 and stage.unused.low < 0 for stage in made.stages)


def broken_by_best(made: Budget) -> tuple[Finding, ...]:
    """Findings of the budget that end the start by its best values, whatever its bounds allow."""
    codes = set()
    if made.requested.best > made.free.best:
        codes.add(FREE_MEMORY.code)
    if any(stage.weights.best > made.free.best for stage in made.stages):
        codes.add(WEIGHTS.code)
    if any(stage.held.best > 0 > stage.unused.best for stage in made.stages):
        codes |= {NO_ROOM_TO_CAPTURE.code, MANUAL.code, OVERRIDE.code}
    return tuple(found for found in made.findings if found.severity == "error" or found.code in codes)


@dataclass(frozen=True)
class Constraints:
    """What a given memory does not satisfy.

    Attributes:
        cache: the KV cache; where a request of the full length does not fit, that of the longest that does; or None.
        broken: a finding of severity "error" for each constraint that does not hold.
    """

    cache: KVCache | None
    broken: tuple[Finding, ...]


def constraints(
    deployment: Deployment, resolution: Resolution, available: Sequence[int], auto_fit: bool = False
) -> Constraints:
    """The constraints that do not hold with `available` bytes of KV cache, by pipeline stage."""
    broken: list[Finding] = []
    cache: KVCache | None = None
    try:
        cache = kv_cache(deployment, resolution, available, auto_fit=auto_fit)
    except KVCacheTooSmall as error:
        broken.append(_finding(error))
        # What else is wrong is seen with the length that fits.
        if error.estimated_max_model_len:
            shorter = replace(resolution, max_model_len=error.estimated_max_model_len)
            cache = _planned(deployment, shorter, available)
    except StartupError as error:
        broken.append(_finding(error))
    if cache is not None:
        if cache.plan.refusal is not None:
            broken.append(_finding(cache.plan.refusal))
        broken += _mamba_blocks(deployment, resolution, cache.plan.num_blocks)
    return Constraints(cache, tuple(broken))


def _planned(deployment: Deployment, resolution: Resolution, available: Sequence[int]) -> KVCache | None:
    try:
        return kv_cache(deployment, resolution, available)
    except StartupError:
        return None


def _mamba_blocks(deployment: Deployment, resolution: Resolution, num_blocks: int) -> list[Finding]:
    """Full graphs of Mamba layers need a block for each of max_num_seqs requests."""
    # With a block for every request and every size the number of blocks changes nothing.
    enough = num_blocks >= max(resolution.max_num_seqs, resolution.max_capture_size)
    if enough or not deployment.model.mamba_backends:
        return []
    try:
        resolve(deployment.model_copy(update={"num_gpu_blocks": num_blocks}))
    except StartupError as error:
        found = _finding(error)
        return [replace(found, fix=_fix_of(deployment, num_blocks))] if found.code == "CG501" else [found]
    return []


def _fix_of(deployment: Deployment, num_blocks: int) -> str:
    return mamba_fix(num_blocks, deployment.num_gpu_blocks_override is not None, deployment.enable_lora)


def _finding(error: StartupError) -> Finding:
    return Finding(error.code, "error", error.message, error.fix, error.where)


def largest_model_len(deployment: Deployment, resolution: Resolution, available: Sequence[int]) -> int:
    """The longest max_model_len that starts with `available` bytes of KV cache by pipeline stage, tokens; 0: none.

    Raises:
        InputError: what the model's layers keep is not known.
    """
    model = deployment.model
    longest = model.longest_model_len or model.max_model_len
    whole = replace(resolution, max_model_len=longest)
    try:
        plan = kv_cache(deployment.model_copy(update={"max_model_len": None}), whole, available, auto_fit=True).plan
    except StartupError:
        return 0
    return plan.max_model_len


def least_utilization(deployment: Deployment, resolution: Resolution, made: Budget) -> float | None:
    """The least --gpu-memory-utilization, in steps of 0.01, with which the lengths asked for fit at the low end of the
    estimate; None: none does.

    The rest of the budget does not depend on it.
    """
    best = [kv.low - made.requested.best for kv in made.kv_cache]

    def left(hundredth: int) -> list[int]:
        return [int(made.total.best * hundredth / 100 + off) for off in best]

    def starts(hundredth: int) -> bool:
        return not constraints(deployment, resolution, left(hundredth)).broken

    high = min(100, int(made.free.low * 100 / made.total.best))
    if high < 1 or not starts(high):
        return None
    # The search begins where one request of the full length fits, mostly the answer.
    found = _needs(deployment, resolution, len(best))
    guess = min(high, max(1, max(ceil((found - off) * 100 / made.total.best) for off in best)))
    if starts(guess):
        while guess > 1 and starts(guess - 1):
            guess -= 1
        return guess / 100
    low = guess + 1
    while low < high:
        middle = (low + high) // 2
        if starts(middle):
            high = middle
        else:
            low = middle + 1
    return high / 100


def _needs(deployment: Deployment, resolution: Resolution, stages: int) -> int:
    """About the bytes that one request of the full length needs; 0: not known."""
    try:
        kv_cache(deployment, resolution, [_LITTLE] * stages)
    except KVCacheTooSmall as error:
        return error.needed_bytes
    except StartupError:
        return 0
    return 0


_LITTLE = 256 << 20
"""Bytes that hold a block of any model, and no long request."""


def requests_by_length(
    deployment: Deployment, resolution: Resolution, available: Sequence[int], lengths: Sequence[int] = ()
) -> tuple[RequestsOfLength, ...]:
    """How many requests of each length fit at once with `available` bytes of KV cache by pipeline stage.

    Args:
        lengths: tokens; (): powers of two from 1,024 up to max_model_len, and that.

    Raises:
        InputError: what the model's layers keep is not known.
    """
    longest = resolution.max_model_len
    wanted = list(lengths) or [1 << n for n in range(10, 31) if 1 << n < longest] + [longest]
    found = []
    for length in wanted:
        plan = _planned(deployment, replace(resolution, max_model_len=length), available)
        fits = plan.plan.max_concurrency if plan is not None else None
        found.append(RequestsOfLength(length, fits or 0.0))
    return tuple(found)
