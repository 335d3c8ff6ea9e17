"""What a plan of the memory says against a start, where the GPU and the model are known.

A plan is made only then: it takes longer than all other checks. What comes of estimates that leave it open is no
warning, and what another check of memory says already is left to that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError, StartupError
from .diagnostic import ConfigEdit, Diagnostic, Hit, TokenEdit
from .memory import BYTES, UTILIZATION, gpu_is_known
from .places import place_of
from .registry import diagnostic
from .subject import Subject
from .what_if import number_flag

if TYPE_CHECKING:
    from ..memory.capacity_plan import CapacityPlan
    from ..memory.request import MemoryRequest
    from ..trace import Finding

PLAN = "plan"
"""Name in a subject's cache of the plan that was made."""
SUPERSEDED = ("CG511",)
"""What is said of a start whose memory is not known."""
TOLD = {"CG507": ("CG520", "CG521", "CG522"), "CG509": ("CG520", "CG521", "CG522")}
"""Findings of a plan, and the checks that give the same reason; the advice is the plan's."""


def with_memory(subject: Subject, others: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What was found in a launch, and why its memory does not do, or may not."""
    if not _is_known(subject):
        return list(others)
    codes = frozenset(one.code for one in others)
    try:
        made = plan_of_launch(subject)
    except StartupError as error:
        if error.code in codes:
            return list(others)
        place = place_of(subject, error.where)
        return [*others, diagnostic(error.code, "error", Hit(error.message, error.fix, place))]
    except InputError:
        return list(others)  # of the model is not known what a plan needs
    subject.cache[PLAN] = made
    kept = [_advised(subject, one, made) for one in others if one.code not in SUPERSEDED]
    return [*kept, *_of_plan(subject, made, codes)]


def _advised(subject: Subject, one: Diagnostic, made: CapacityPlan) -> Diagnostic:
    """The finding with what the plan advises for the same reason: its values were planned."""
    for finding in made.findings:
        if one.code in TOLD.get(finding.code, ()) and finding.fix is not None:
            flag, edits = _first_flag(subject, finding.fix)
            return replace(one, fix=finding.fix, flag=flag, edits=edits, safe=not edits)
    return one


_NUMBER_ALONE = re.compile(
    r"(--gpu-memory-utilization|--max-num-seqs|--max-model-len) ([0-9.]+)"
    r"(?: \([0-9]+ at most\)| surely starts, up to [0-9]+ may| or less)?(?=$|, or )"
)
"""Advice whose first way out is one flag with a number."""


def _first_flag(subject: Subject, fix: str | None) -> tuple[str | None, tuple[TokenEdit | ConfigEdit, ...]]:
    """The flag that the advice begins with, ready to paste, and its edit."""
    found = _NUMBER_ALONE.match(fix or "")
    if found is None:
        return None, ()
    value = float(found[2]) if "." in found[2] else int(found[2])
    return number_flag(subject, found[1], value)


def _of_plan(subject: Subject, made: CapacityPlan, others: frozenset[str]) -> Iterator[Diagnostic]:
    for finding in made.findings:
        severity = _severity(made, finding)
        told = any(code in others for code in (finding.code, *TOLD.get(finding.code, ())))
        if severity is not None and (severity == "error" or not told):
            place = place_of(subject, finding.where)
            best = severity != finding.severity and severity == "error"
            message = f"{finding.message}; it does not start by the best estimate" if best else finding.message
            flag, edits = _first_flag(subject, finding.fix)
            hit = Hit(message, finding.fix, place, flag, edits, safe=not edits)
            yield diagnostic(finding.code, severity, hit)


def _is_known(subject: Subject) -> bool:
    d = subject.deployment
    if d is None or subject.resolution is None or not gpu_is_known(subject):
        return False
    named = subject.asked.served.model if subject.asked.served is not None else None
    if named is not None and named.is_relative:
        return False  # what does not fit may fit the model that is meant
    # A shape that stands in has weights where its name says how they are stored.
    return d.gpu.platform == "cuda" and d.model.weights is not None and d.model.runner_type == "generate"


def _severity(made: CapacityPlan, finding: Finding) -> str | None:
    """None: it is not said here. What ends the start by the best values is an error, as the plan's exit code says; a
    start that only the bounds leave open is an information."""
    from ..memory.budget.estimate_rules import GDN_PREFILL

    if finding.severity == "error":
        return "error"
    if finding.code == GDN_PREFILL.code and finding.severity == "warning" and made.fits:
        return "warning"  # the server starts, and a prefill may end it
    if finding.severity == "info" or finding.code not in _against_a_start():
        return None
    if finding.code in made.ends:
        return "error"
    return "warning" if not made.fits else "info"


def _against_a_start() -> frozenset[str]:
    from ..memory.budget import rules as of_budgets
    from ..memory.kv import capacity as of_caches
    from ..resolve.downgrade import MAMBA_BLOCKS

    of_caches_too_small = (of_caches.NO_MEMORY, of_caches.DOES_NOT_FIT, of_caches.NOTHING_TO_FIT, of_caches.OVERRIDE)
    of_start = (of_budgets.FREE_MEMORY, of_budgets.NO_ROOM_TO_CAPTURE, of_budgets.MANUAL, of_budgets.WARM_UP)
    return frozenset(rule.code for rule in (*of_start, of_budgets.WEIGHTS, *of_caches_too_small, MAMBA_BLOCKS))


def plan_of_launch(subject: Subject) -> CapacityPlan:
    """The plan of a launch whose GPU and model are known.

    Raises:
        InputError: what the plan needs is not known.
        StartupError: vLLM would refuse before it looks at memory.
    """
    from ..memory.plan import plan_of

    assert subject.deployment is not None
    request = _request(subject)
    deployment = subject.deployment
    if request.auto_fit:
        deployment = deployment.model_copy(update={"max_model_len": None})
    return plan_of(deployment, request)


def _request(subject: Subject) -> MemoryRequest:
    from ..memory.budget.budget import MemoryFlags, reserve_of
    from ..memory.request import MemoryRequest

    share: Any = subject.get(UTILIZATION) if subject.is_given(UTILIZATION) else None
    kv_cache: Any = subject.get(BYTES)
    reserve = reserve_of(subject.get("mm_ipc_gpu_memory_gb"))
    auto_fit = str(subject.get("max_model_len")).strip().lower() in ("auto", "-1")
    return MemoryRequest(MemoryFlags(share, kv_cache or None, reserve), auto_fit=auto_fit)
