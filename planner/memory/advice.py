"""What to change where a server does not surely start: every fix was planned, and starts.

A fix is one change, or several that are needed together; where there are two fixes, each does alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..resolve.downgrade import MAMBA_BLOCKS
from ..trace import Finding
from . import levers
from .budget.budget import Budget
from .budget.rules import FREE_MEMORY, MANUAL, NO_ROOM_TO_CAPTURE, WARM_UP, WEIGHTS
from .estimates import GIB
from .kv.capacity import DOES_NOT_FIT, NO_MEMORY, NOTHING_TO_FIT, OVERRIDE
from .levers import LENGTH_WITH_MORE_GPUS, MOST_GPUS, Lever, Setting
from .reach import longest_model_len
from .request import MemoryRequest
from .verdict import problems

ALTERNATIVES = 2
_CHANGES = 3
_LENGTH = re.compile(r"--max-model-len ([0-9]+)(?=$|,)")

_FIRST: dict[str, tuple[tuple[Lever, ...], tuple[str, ...]]] = {
    FREE_MEMORY.code: ((levers.smaller_share,), (FREE_MEMORY.code, NO_ROOM_TO_CAPTURE.code, WARM_UP.code)),
    MANUAL.code: ((levers.fewer_bytes,), (MANUAL.code, WARM_UP.code)),
    OVERRIDE.code: ((levers.fewer_blocks,), (OVERRIDE.code,)),
    NO_ROOM_TO_CAPTURE.code: ((levers.smaller_share,), (NO_ROOM_TO_CAPTURE.code, WARM_UP.code)),
    WARM_UP.code: ((levers.smaller_share, levers.fewer_bytes, levers.fewer_requests), (WARM_UP.code,)),
    DOES_NOT_FIT.code: ((levers.shorter,), (DOES_NOT_FIT.code, NO_MEMORY.code)),
    MAMBA_BLOCKS.code: ((levers.fewer_requests,), (MAMBA_BLOCKS.code,)),
    NO_MEMORY.code: ((levers.fewer_requests,), (NO_MEMORY.code,)),
}
"""Code to what mends it, in the order in which findings are mended, and the codes that must then be gone."""

_MORE: tuple[Lever, ...] = (levers.larger_share, levers.more_bytes, levers.more_blocks)
_TOO_LITTLE = (NO_MEMORY.code, DOES_NOT_FIT.code, NOTHING_TO_FIT.code)
_ALSO: dict[str, tuple[Lever, ...]] = {
    OVERRIDE.code: (levers.no_override,),
    DOES_NOT_FIT.code: _MORE,
    NOTHING_TO_FIT.code: _MORE,
    NO_MEMORY.code: _MORE,
    MAMBA_BLOCKS.code: (levers.larger_share, levers.piecewise),
}
"""What else mends it, if it does so alone."""

CODES = (*_FIRST, NOTHING_TO_FIT.code, WEIGHTS.code)


def with_fixes(
    deployment: Deployment, request: MemoryRequest, findings: Sequence[Finding], budget: Budget | None
) -> tuple[Finding, ...]:
    """The findings of a plan that does not surely start, each with what to change."""
    setting = Setting(deployment, request)
    # Notes that do not keep it from starting have the code of one that does.
    stops = set(problems(deployment, request) or ())
    found = []
    for finding in findings:
        if finding not in stops or finding.code not in CODES:
            found.append(finding)
            continue
        if finding.code == NO_MEMORY.code and budget is not None:
            finding = replace(finding, message=_nothing_left(budget, finding.message))
        fix = _fix(setting, finding.code)
        if finding.code == DOES_NOT_FIT.code:
            # The length that vLLM names need not start: its buffers and the bounds are not in it.
            finding = replace(finding, message=finding.message.partition("; ")[0])
            fix = _with_uncertain_length(setting, fix)
        found.append(replace(finding, fix=fix))
    return tuple(found)


def _with_uncertain_length(setting: Setting, fix: str) -> str:
    """The sure length first, and after it how far the best estimate goes."""
    found = _LENGTH.match(fix)
    if found is None:
        return fix
    best = longest_model_len(setting.deployment, setting.request)
    if not int(found[1]) < best < setting.resolution.max_model_len:
        return fix
    return f"{found[0]} surely starts, up to {best} may{fix[found.end() :]}"


def _nothing_left(budget: Budget, message: str) -> str:
    if budget.is_manual:
        return message
    stage = budget.tightest
    taken = budget.requested.best - stage.kv_cache.best
    return f"{message}: {taken / GIB:.2f} GiB are taken of the {budget.requested.best / GIB:.2f} GiB asked for"


def _fix(setting: Setting, code: str) -> str:
    sure = _alternatives(setting, code)
    if sure:
        return ", or ".join(one.words for one in sure)
    more = _more_gpus(setting)
    by_best = _alternatives(replace(setting, surely=False), code)
    return f"{by_best[0].words} starts by the best estimate, not surely; else {more}" if by_best else more


def _alternatives(setting: Setting, code: str) -> list[Setting]:
    """Changes on the same GPUs, each of which does alone."""
    if code == WEIGHTS.code:
        return []
    first, codes = _FIRST.get(code, ((), (code,)))
    found: list[Setting] = []
    if code != NO_MEMORY.code:
        found += _kept(_mended(setting, lever, codes) for lever in first)
    for lever in _ALSO.get(code, ()):
        if len(found) < ALTERNATIVES:
            changed = lever(setting, _TOO_LITTLE if code in _TOO_LITTLE else (code,))
            found += [changed] if changed is not None and changed.starts else []
    if not found and code == NO_MEMORY.code:
        found += _kept(_mended(setting, lever, codes) for lever in (*first, levers.shorter))
    return found[:ALTERNATIVES]


def _kept(found: Iterable[Setting | None]) -> list[Setting]:
    return [one for one in found if one is not None]


def _mended(setting: Setting, lever: Lever, codes: Sequence[str], changes: int = _CHANGES) -> Setting | None:
    """The setting with `lever` moved, and with what is then still needed; None: it does not get it to start."""
    changed = lever(setting, codes)
    return None if changed is None else _finished(changed, changes - 1)


def _finished(setting: Setting, changes: int) -> Setting | None:
    left = problems(setting.deployment, setting.request, setting.surely)
    if left is None:
        return None
    if not left:
        return setting if setting.starts else None
    code = next((code for code in _FIRST if any(finding.code == code for finding in left)), None)
    if code is None or changes < 1:
        return setting if setting.starts else None
    first, codes = _FIRST[code]
    return next(iter(_kept(_mended(setting, lever, codes, changes) for lever in first)), None)


def _more_gpus(setting: Setting) -> str:
    """The fewest GPUs that start, with a shorter length where that of the model is out of reach."""
    tried = False
    for more in levers.layouts(setting):
        tried = True
        found = more if more.starts else _finished(more, 2)
        if found is None:
            continue
        length = found.resolution.max_model_len
        if length >= min(LENGTH_WITH_MORE_GPUS, setting.resolution.max_model_len):
            gpus = found.deployment.tensor_parallel_size * found.deployment.pipeline_parallel_size
            return f"{found.words} ({gpus} GPUs are the fewest that start)"
    if tried:
        return f"take GPUs with more memory: {MOST_GPUS} of these do not do"
    return "spread the model over more GPUs, or take GPUs with more memory"
