"""All that is to be said of one launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import CgplanError
from ..inputs.launches.asked import Asked
from ..light_dataclass import dataclass
from ..resolve import Resolution
from . import beyond, capacity, resolved, starting
from .diagnostic import Diagnostic
from .limits import Most, most_requests
from .registry import SEVERITIES, run
from .stand_ins import holds_of_any_model
from .subject import subject_of
from .trial import usable

MOST_ALIKE = 20
"""Findings of one server that say the same of different places."""


@dataclass(frozen=True)
class Report:
    """What was found in a launch.

    Attributes:
        asked: the launch as it was read, with assumptions.
        diagnostics: by place in the text, then by severity.
        resolution: what vLLM makes of it; None where it does not start.
        problem: why there is none, where the line itself is accepted.
        most_requests: the largest max_num_seqs that starts, where a finding says that the one asked for does not.
        is_open: cgplan cannot tell whether it starts: the model is not known, or not modelled.
    """

    asked: Asked
    diagnostics: tuple[Diagnostic, ...]
    resolution: Resolution | None
    problem: CgplanError | None = None
    is_open: bool = False
    most_requests: Most | None = None


def check_launch(asked: Asked) -> Report:
    """Apply every rule to a launch."""
    from . import families  # noqa: F401  registers the checks

    subject = subject_of(asked)
    found: dict[tuple[object, ...], list[Diagnostic]] = {}
    others = [*starting.refusals(subject), *resolved.findings(subject), *run(subject)]
    others += _new(beyond.as_meant(subject, others), others)
    others = [*beyond.with_later_release(subject, others), *_new(beyond.others(subject), others)]
    together = beyond.spelling(others)
    for one in capacity.with_memory(subject, others):
        one = usable(subject, one, together)
        if asked.model_assumed and one.safe and one.edits and not holds_of_any_model(subject, one.code):
            one = replace(one, safe=False)  # another shape's facts change nobody's line
        same = found.setdefault((one.code, one.message, one.at.span if one.at is not None else None), [])
        if one not in same:  # an edit may hold a list, which has no hash
            same.append(one)
    is_open = starting.is_open(subject)
    ordered = sorted((one for same in found.values() for one in same), key=_order)
    most = most_requests(subject, ordered)
    return Report(asked, tuple(_first_of_those_alike(ordered)), subject.resolution, subject.problem, is_open, most)


def _new(found: Sequence[Diagnostic], others: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings that are not said already."""
    said = {(one.code, one.message) for one in others}
    return [one for one in found if (one.code, one.message) not in said]


def _first_of_those_alike(found: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings, of those with the same words the first MOST_ALIKE; the last of them says how many follow."""
    counts = Counter((one.code, one.message) for one in found)
    seen: Counter[tuple[str, str]] = Counter()
    for one in found:
        key = (one.code, one.message)
        seen[key] += 1
        left = counts[key] - MOST_ALIKE
        if seen[key] < MOST_ALIKE or (seen[key] == MOST_ALIKE and not left):
            yield one
        elif seen[key] == MOST_ALIKE:
            yield replace(one, message=f"{one.message}; so it is {left:,} times more")


def _order(one: Diagnostic) -> tuple[int, int, str]:
    start = one.at.span.start if one.at is not None else -1
    return start, -SEVERITIES.index(one.severity), one.code
