"""The release of vLLM that an image's tag, or --vllm, names, where cgplan does not know it."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import shorten
from ..input_rules import OWN
from ..inputs.launches.asked import Located
from ..releases import SUPPORTED
from ..trace import Rule
from .diagnostic import Hit
from .registry import check
from .subject import Subject

UNKNOWN_RELEASE = Rule(
    "CG955",
    title="The image, or --vllm, names a release or a build of vLLM that cgplan does not know.",
    why="Options, defaults and graphs change from release to release; the rules of the nearest one known are a guess.",
    example="vllm/vllm-openai:v0.10.2 is read by the rules of 0.19.1, --vllm 0.22.0 by those of 0.22.1.",
    instead="Name the release whose rules are to be taken with --vllm, or check with a cgplan that knows it.",
    source=OWN,
)


@check(UNKNOWN_RELEASE, "info")
def find_unknown_release(subject: Subject) -> Iterator[Hit]:
    if not subject.asked.release_assumed:
        return
    hints = subject.launch.hints
    named = subject.asked.context.said_release
    said = shorten(named or hints.release or "", 40)
    span = hints.release_span if named is None else None
    at = Located(subject.launch.source, span) if span is not None else subject.start
    yield Hit(
        f"vLLM {said} is not known to cgplan; the line is read by the rules of {subject.release}, the nearest",
        f"--vllm names the release whose rules are to be taken: {SUPPORTED[0]} to {SUPPORTED[-1]}",
        at,
    )
