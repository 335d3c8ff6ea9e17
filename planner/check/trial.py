"""Whether a line would still start with an edit made: what was lost before may be what vLLM refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import CgplanError
from ..inputs.launches.asked import Asked, Context, Located, ask
from ..inputs.launches.launch import Launch, LaunchToken, Span
from .diagnostic import Diagnostic, TokenEdit
from .places import place_of
from .subject import Subject, subject_of

OF_THE_LINE = "CG9"
"""Codes of what is written amiss; what other findings advise was tried as they were made."""
TAKEN_APART = "CG954"
"""Of an option and a value in one word: what is wrong with the two is said as well, whether or not they are apart."""
EDITED = Span(-1, -1, 0, 0)
"""Where the tokens of an edit that is tried stand: in no text."""


def breaks(subject: Subject, edits: Sequence[TokenEdit]) -> bool:
    """Whether a line that starts no longer does, or is refused for more, once the edits are made."""
    if not edits:
        return False
    after = with_edits(subject, edits)
    if len(after.asked.refused) > len(subject.asked.refused):
        return True
    return subject.problem is None and after.problem is not None


def refused_for(subject: Subject, edits: Sequence[TokenEdit]) -> CgplanError | None:
    """Why vLLM refuses what these edits write, where it did not say so before; None: it takes it."""
    after = with_edits(subject, edits)
    before = {(error.code, error.message) for error, _ in _refusals(subject)}
    for error, at in _refusals(after):
        if at is not None and at.span == EDITED and (error.code, error.message) not in before:
            return error
    return None


def usable(subject: Subject, one: Diagnostic, together: Sequence[TokenEdit] = ()) -> Diagnostic:
    """A finding without a change that vLLM would refuse for what it writes.

    Args:
        together: edits that are tried as one where the finding's are among them.
    """
    edits = [edit for edit in one.edits if isinstance(edit, TokenEdit)]
    if one.code == TAKEN_APART or not one.code.startswith(OF_THE_LINE) or not any(edit.texts for edit in edits):
        return one
    error = refused_for(subject, together if all(edit in together for edit in edits) else edits)
    if error is None:
        return one
    fix = f"as {one.flag} it is refused too: {error.message}" if one.flag else error.fix or one.fix
    return replace(one, edits=(), flag=None, fix=fix)


def _refusals(subject: Subject) -> Iterator[tuple[CgplanError, Located | None]]:
    yield from zip(subject.asked.refused, subject.asked.refused_at, strict=True)
    if subject.problem is not None and not subject.rests_on_model:
        yield subject.problem, place_of(subject, subject.problem.where)


def with_edits(subject: Subject, edits: Sequence[TokenEdit]) -> Subject:
    """The launch with the edits made. Tokens that stay keep their places; their indices move."""
    key = f"after {edits!r}"
    if key not in subject.cache:
        subject.cache[key] = subject_of(ask(_edited(subject.launch, edits), context_of(subject.asked)))
    found: Subject = subject.cache[key]
    return found


def _edited(launch: Launch, edits: Sequence[TokenEdit]) -> Launch:
    tokens = list(launch.tokens)
    for edit in sorted(edits, reverse=True):
        tokens[edit.start : edit.end] = [LaunchToken(text, EDITED) for text in edit.texts]
    return replace(launch, tokens=tuple(tokens))


def context_of(asked: Asked) -> Context:
    """Where and what the line was read for; what was looked up once is not again."""
    context = asked.context._replace(release=asked.release, here=None)
    if asked.served is None:
        return context
    found = asked.served.deployment
    gpu = None if asked.gpu_assumed else found.gpu
    return context._replace(gpu=gpu, gpus_per_node=found.gpus_per_node)
