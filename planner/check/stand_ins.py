"""Whether a finding rests on the model, where its shape is not known: other shapes are tried in its place."""

from __future__ import annotations

from dataclasses import replace

from ..errors import CgplanError
from .other_shapes import others
from .registry import CHECKS
from .subject import Subject
from .trying import resolved


def holds_of_any_model(subject: Subject, code: str) -> bool:
    """Whether a finding of the resolution, or of a check, is there whatever the model; what is written amiss is."""
    served = subject.asked.served
    found = {finding.code for finding in subject.resolution.findings} if subject.resolution is not None else set()
    if served is None or (code not in found and code not in CHECKS):
        return True
    for shape in others(served.deployment):
        deployment = served.deployment.model_copy(update={"model": shape})
        try:
            resolution = resolved(deployment)
        except CgplanError:
            continue  # vLLM refuses that one: nothing would be changed
        if code in found:
            if all(finding.code != code for finding in resolution.findings):
                return False
            continue
        asked = replace(subject.asked, served=served._replace(deployment=deployment))
        if not any(CHECKS[code].find(Subject(asked, resolution))):
            return False
    return True
