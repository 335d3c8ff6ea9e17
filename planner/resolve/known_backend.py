"""What is known of an attention backend by its name alone: where it runs, and which FULL graphs it supports."""

from __future__ import annotations

from ..vocabulary import AttentionCGSupport
from .backends.facts import catalogue


def runs_on(name: str, release: str, capability: tuple[int, int]) -> bool:
    """Whether a backend of that name, as --attention-backend has it, runs on a compute capability; True: not known."""
    backend = catalogue(release).backends.get(name.upper())
    if backend is None:
        return True
    above = backend.lowest is None or capability >= backend.lowest
    below = backend.highest is None or capability <= backend.highest
    return above and below and (backend.majors is None or capability[0] in backend.majors)


def fixed_level(name: str, release: str) -> AttentionCGSupport | None:
    """The level that a backend supports on every GPU and for every model; None: it depends on them, or is not known."""
    backend = catalogue(release).backends.get(name.upper())
    if backend is None or backend.level not in AttentionCGSupport.__members__:
        return None
    return AttentionCGSupport[backend.level]
