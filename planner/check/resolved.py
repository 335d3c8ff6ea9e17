"""What the resolution finds: lowered modes, cliffs, sizes without use; each at the setting it speaks of.

A family of checks says more about some of them: `says_more` registers who does, by code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..resolve.other_backend import cost_of_lower_mode
from ..trace import Finding
from .diagnostic import Diagnostic, Hit
from .places import place_of
from .registry import diagnostic
from .subject import Subject

MODE = "-cc.cudagraph_mode"

Teller = Callable[[Subject, Finding], Hit | None]

TELLERS: dict[str, Teller] = {}


def says_more(*codes: str) -> Callable[[Teller], Teller]:
    """Register who words the findings of these codes. None from it: a check of its own says it all."""

    def register(tell: Teller) -> Teller:
        for code in codes:
            if code in TELLERS:
                raise ValueError(f"two functions word {code}")
            TELLERS[code] = tell
        return tell

    return register


def findings(subject: Subject) -> Iterator[Diagnostic]:
    """The findings of `resolve`, with their places."""
    if subject.resolution is None or subject.deployment is None:
        return
    mode_is_lost = _mode_is_lost(subject)
    cost = cost_of_lower_mode(subject.deployment, subject.resolution)
    resolution = replace(subject.resolution, mode_cost=cost) if cost else subject.resolution
    for finding in resolution.findings:
        if mode_is_lost and finding.where == MODE:
            continue
        tell = TELLERS.get(finding.code, plain)
        hit = tell(subject, finding)
        if hit is not None:
            yield diagnostic(finding.code, finding.severity, hit)


def _mode_is_lost(subject: Subject) -> bool:
    """Whether the mode stands in a part of the line that vLLM refuses: what is resolved is that of the rest."""
    asked = subject.asked
    lost = set(range(len(subject.launch.tokens))) - set(asked.kept) if asked.refused else set()
    return any("cudagraph_mode" in subject.launch.tokens[index].text for index in lost)


def plain(subject: Subject, finding: Finding) -> Hit:
    """A finding as `resolve` words it."""
    return Hit(finding.message, finding.fix, place_of(subject, finding.where))


def has_finding(subject: Subject, *codes: str) -> Finding | None:
    """The first finding of these codes, or None."""
    found = subject.resolution.findings if subject.resolution is not None else ()
    return next((finding for finding in found if finding.code in codes), None)
