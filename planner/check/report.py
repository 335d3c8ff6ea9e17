"""All that is to be said of one launch."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CgplanError
from ..inputs.launches.asked import Asked
from ..resolve import Resolution
from . import resolved, starting
from .diagnostic import Diagnostic
from .registry import SEVERITIES, run
from .subject import subject_of
from .trial import usable


@dataclass(frozen=True)
class Report:
    """What was found in a launch.

    Attributes:
        asked: the launch as it was read, with assumptions.
        diagnostics: by place in the text, then by severity.
        resolution: what vLLM makes of it; None where it does not start.
        problem: why there is none, where the line itself is accepted.
        is_open: cgplan cannot tell whether it starts: the model is not known, or not modelled.
    """

    asked: Asked
    diagnostics: tuple[Diagnostic, ...]
    resolution: Resolution | None
    problem: CgplanError | None = None
    is_open: bool = False


def check_launch(asked: Asked) -> Report:
    """Apply every rule to a launch."""
    from . import families  # noqa: F401  registers the checks

    subject = subject_of(asked)
    found: list[Diagnostic] = []
    for one in (*starting.refusals(subject), *resolved.findings(subject), *run(subject)):
        one = usable(subject, one)
        if one not in found:  # an edit may hold a list, which has no hash
            found.append(one)
    is_open = starting.is_open(subject)
    return Report(asked, tuple(sorted(found, key=_order)), subject.resolution, subject.problem, is_open)


def _order(one: Diagnostic) -> tuple[int, int, str]:
    start = one.at.span.start if one.at is not None else -1
    return start, -SEVERITIES.index(one.severity), one.code
