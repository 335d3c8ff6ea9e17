"""What a plan of the memory says against a start, where the GPU and the model are known.

A plan is made only then: it takes longer than all other checks. What comes of estimates that leave it open is no
warning, and what another check of memory says already is left to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, StartupError
from .diagnostic import Diagnostic, Hit
from .memory import BYTES, UTILIZATION, gpu_is_known
from .places import place_of
from .registry import diagnostic
from .subject import Subject

if TYPE_CHECKING:
    from ..memory.plan import CapacityPlan
    from ..memory.request import MemoryRequest
    from ..trace import Finding

SUPERSEDED = ("CG511",)
"""What is said of a start whose memory is not known."""
TOLD = {"CG507": ("CG520", "CG521", "CG522"), "CG509": ("CG520", "CG521", "CG522")}
"""Findings of a plan, and the checks that give the same reason and the same advice."""


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
    return [*(one for one in others if one.code not in SUPERSEDED), *_of_plan(subject, made, codes)]


def _of_plan(subject: Subject, made: CapacityPlan, others: frozenset[str]) -> Iterator[Diagnostic]:
    for finding in made.findings:
        severity = _severity(made, finding)
        told = any(code in others for code in (finding.code, *TOLD.get(finding.code, ())))
        if severity is not None and (severity == "error" or not told):
            place = place_of(subject, finding.where)
            yield diagnostic(finding.code, severity, Hit(finding.message, finding.fix, place))


def _is_known(subject: Subject) -> bool:
    d = subject.deployment
    if d is None or subject.resolution is None or not gpu_is_known(subject) or subject.asked.model_assumed:
        return False
    return d.gpu.platform == "cuda" and d.model.weights is not None and d.model.runner_type == "generate"


def _severity(made: CapacityPlan, finding: Finding) -> str | None:
    """None: it is not said here. A start that the bounds leave open is an information."""
    if finding.severity == "error":
        return "error"
    if finding.severity == "info" or finding.code not in _against_a_start():
        return None
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
    from ..memory.budget.budget import MemoryFlags
    from ..memory.estimates import GIB
    from ..memory.request import MemoryRequest

    share: Any = subject.get(UTILIZATION) if subject.is_given(UTILIZATION) else None
    kv_cache: Any = subject.get(BYTES)
    reserve = int(float(subject.get("mm_ipc_gpu_memory_gb") or 0) * GIB)
    auto_fit = str(subject.get("max_model_len")).strip().lower() in ("auto", "-1")
    return MemoryRequest(MemoryFlags(share, kv_cache or None, reserve), auto_fit=auto_fit)
