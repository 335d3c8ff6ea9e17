"""Launches that do not start: what the parser, the configuration or the reader refuses, under the code of its rule."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CgplanError
from .diagnostic import Diagnostic, Hit
from .places import place_of
from .registry import diagnostic
from .subject import Subject


def refusals(subject: Subject) -> Iterator[Diagnostic]:
    """Why vLLM does not start."""
    for error, at in zip(subject.asked.refused, subject.asked.refused_at, strict=True):
        yield _of(error, Hit(error.message, error.fix, at or place_of(subject, error.where)))
    if subject.problem is not None:
        error = subject.problem
        yield _of(error, Hit(error.message, error.fix, place_of(subject, error.where)))


def _of(error: CgplanError, hit: Hit) -> Diagnostic:
    return diagnostic(error.code, "error", hit)
