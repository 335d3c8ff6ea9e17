"""A plan by the rules of a release for one that is older than every release that cgplan knows."""

from __future__ import annotations

import re
from dataclasses import replace

from ..trace import Finding
from .budget.rules import FREE_MEMORY
from .capacity_plan import CapacityPlan

_RELEASE = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?")
CHECK_SEEN = "0.9.1"
"""The oldest release in whose public logs the check of free memory was seen."""
TIMED = "0.19.0"
"""The oldest release whose capture is timed."""


def for_release(made: CapacityPlan, wanted: str | None) -> CapacityPlan:
    """The plan without a refusal that `wanted`, a release, is not known to have.

    Args:
        wanted: what was asked for beside --assume-release; None or no release: the plan stays as it is.
    """
    if wanted is None or made.budget is None or not _is_before(wanted, CHECK_SEEN):
        return made
    if all(found.code != FREE_MEMORY.code for found in made.findings):
        return made
    findings = tuple(_said(made, one, wanted) if one.code == FREE_MEMORY.code else one for one in made.findings)
    ends = tuple(code for code in made.ends if code != FREE_MEMORY.code)
    errors = any(one.severity == "error" for one in findings)
    return replace(made, findings=findings, ends=ends, fits=made.fits or not ends, starts="no" if errors else "unsure")


def captured_by(made: CapacityPlan, wanted: str | None) -> CapacityPlan:
    """The plan with wider bounds of the time of capture where `wanted` is older than the releases that were timed."""
    return replace(made, is_older=True) if wanted is not None and _is_before(wanted, TIMED) else made


def _said(made: CapacityPlan, finding: Finding, wanted: str) -> Finding:
    asked = finding.message.rpartition(": ")[0]
    rules = made.resolution.vllm_version
    text = (
        f"{asked}: {wanted} is not known to look at that when it starts, as {rules} does (first seen in {CHECK_SEEN});"
        " CUDA may run out of memory, for the graphs come on top of --gpu-memory-utilization"
    )
    return replace(finding, severity="warning", message=text)


def _is_before(release: str, other: str) -> bool:
    numbers = _RELEASE.match(release)
    if numbers is None:
        return False
    return tuple(int(part or 0) for part in numbers.groups()) < tuple(map(int, other.split(".")))
