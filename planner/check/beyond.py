"""Beyond a refusal: what else is to be said of a launch that does not start, and the release that takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import CgplanError
from ..input_rules import USAGE
from ..inputs.launches.asked import ask
from ..inputs.serve_args_history import EARLIER, SHORT_HERE
from ..releases import SUPPORTED
from . import capacity, resolved
from .diagnostic import Diagnostic, TokenEdit
from .places import SHORT, drop
from .registry import run
from .subject import Subject, subject_of
from .trial import EDITED, context_of, with_edits

SHARE = ("CG520", "CG524", "CG527", "CG528", "CG594")
"""Findings on the share of the GPU's memory: they need a configuration, and hold whatever it is."""
NEED_NO = {
    "CG3": ("CG1", "CG4", "CG5", "CG6"),
    "CG2": (*SHARE, "CG1", "CG4"),
    "CG1": (*SHARE, "CG2", "CG3"),
}
"""By family of the refusal: codes, or their beginnings, of findings that do not rest on the setting that is refused."""
BACKENDS = ("CG302", "CG303")
OF_BACKEND = (("attention_backend",), ("attention_backend", "kv_cache_dtype"))
"""Settings without which an attention backend may be found, fewest first."""
BY_RELEASE = (*BACKENDS, "CG137", "CG138", "CG139", "CG305", "CG417", "CG429")
"""Refusals of what a later release may have."""


def others(subject: Subject) -> list[Diagnostic]:
    """What holds of a launch whose configuration is refused, whatever stands in the place of the refused setting."""
    error = subject.problem
    if error is None or subject.rests_on_model:
        return []
    for dests in OF_BACKEND if error.code in BACKENDS else (_dests(error),):
        edits = [edit for edit in drop(subject, *dests) if isinstance(edit, TokenEdit)]
        found = with_edits(subject, edits) if edits else None
        if found is not None and found.problem is None and found.resolution is not None:
            return list(_kept(found, error, with_plan=error.code in BACKENDS and len(dests) == 1))
    return []


def as_meant(subject: Subject, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What holds of a launch with options that its release spells in another way, once they are spelled so."""
    spelled = [one for one in found if _is_spelled(one)]
    edits = spelling(found)
    if not edits:
        return []
    meant = with_edits(subject, edits)
    if len(meant.asked.refused) > len(subject.asked.refused) - len(spelled):
        return []
    says = [*resolved.findings(meant), *run(meant)]
    at = spelled[0].at
    return [
        replace(
            one, edits=(), safe=False,
            at=at if one.at is not None and one.at.span == EDITED else one.at,
            related=tuple(note for note in one.related if note.at.span != EDITED),
        )
        for one in says
    ]  # fmt: skip


def spelling(found: Sequence[Diagnostic]) -> list[TokenEdit]:
    """The edits that spell options as the release does. Drafts take several, which stand or fall together."""
    return [edit for one in found if _is_spelled(one) for edit in one.edits if isinstance(edit, TokenEdit)]


def _is_spelled(one: Diagnostic) -> bool:
    """Whether it writes a key of a section that the release has in the place of an option that it lacks."""
    if not one.safe or one.code != USAGE.code:
        return False
    texts = [text for edit in one.edits if isinstance(edit, TokenEdit) for text in edit.texts]
    return bool(texts) and texts[0].partition("=")[0] in (*EARLIER.values(), *SHORT_HERE.values())


def _dests(error: CgplanError) -> tuple[str, ...]:
    """The names under which the setting that is refused may stand in the line."""
    if not error.where or not error.where.startswith("-"):
        return ()
    option, _, key = error.where.split()[0].partition(".")
    dest = option.lstrip("-").replace("-", "_")
    return (key.replace("-", "_"), SHORT.get(option, dest)) if key else (dest,)


def _kept(found: Subject, error: CgplanError, with_plan: bool) -> Iterator[Diagnostic]:
    says = [*resolved.findings(found), *run(found)]
    if with_plan:
        says = capacity.with_memory(found, says)
    kept = NEED_NO.get(error.code[:3], SHARE)
    for one in says:
        if one.code.startswith(kept):
            # Its edits count the tokens of the line without the setting.
            yield replace(one, edits=(), safe=False)


def with_later_release(subject: Subject, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings; the refusal of what a later release takes names that release."""
    error = subject.problem
    if error is None or error.code not in BY_RELEASE or subject.rests_on_model or subject.asked.refused:
        return list(found)
    release = _first_that_takes(subject)
    if release is None:
        return list(found)
    short = release.rpartition(".")[0]
    later = f"vLLM {short} and later take it (--vllm {short})"
    return [
        replace(one, fix=f"{one.fix}; {later}" if one.fix else later) if _is_that(one, error) else one for one in found
    ]


def _is_that(one: Diagnostic, error: CgplanError) -> bool:
    return one.code == error.code and one.severity == "error"


def _first_that_takes(subject: Subject) -> str | None:
    """The first release behind the launch's own in which the very same launch starts."""
    context = context_of(subject.asked)
    for release in SUPPORTED[SUPPORTED.index(subject.release) + 1 :]:
        later = subject_of(ask(subject.launch, context._replace(release=release)))
        if later.problem is None and not later.asked.refused:
            return release
    return None
