"""What the resolution finds: lowered modes, cliffs, sizes without use; each at the setting it speaks of."""

from __future__ import annotations

from collections.abc import Iterator

from .diagnostic import Diagnostic, Hit
from .places import place_of
from .registry import diagnostic
from .subject import Subject


def findings(subject: Subject) -> Iterator[Diagnostic]:
    """The findings of `resolve`, with their places."""
    if subject.resolution is None:
        return
    for finding in subject.resolution.findings:
        hit = Hit(finding.message, finding.fix, place_of(subject, finding.where))
        yield diagnostic(finding.code, finding.severity, hit)
