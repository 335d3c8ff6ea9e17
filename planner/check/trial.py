"""Whether a line would still start with an edit made: what was lost before may be what vLLM refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..inputs.launches.asked import Asked, Context, ask
from ..inputs.launches.launch import Launch, LaunchToken
from .diagnostic import TokenEdit
from .subject import Subject, subject_of


def breaks(subject: Subject, edits: Sequence[TokenEdit]) -> bool:
    """Whether a line that starts no longer does, or is refused for more, once the edits are made."""
    if not edits:
        return False
    after = ask(_edited(subject.launch, edits), _context(subject.asked))
    if len(after.refused) > len(subject.asked.refused):
        return True
    return subject.problem is None and subject_of(after).problem is not None


def _edited(launch: Launch, edits: Sequence[TokenEdit]) -> Launch:
    tokens = list(launch.tokens)
    for edit in sorted(edits, reverse=True):
        span = tokens[min(edit.start, len(tokens) - 1)].span
        tokens[edit.start : edit.end] = [LaunchToken(text, span) for text in edit.texts]
    return replace(launch, tokens=tuple(tokens))


def _context(asked: Asked) -> Context:
    """Where and what the line was read for."""
    if asked.served is None:
        return Context(release=asked.release)
    found = asked.served.deployment
    return Context(asked.release, found.gpu, found.gpus_per_node, found.software, found.model, env=found.env)
