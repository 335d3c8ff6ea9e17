"""The extremes of a ratio of two sums, where each term is one of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

Terms = Sequence[tuple[float, float]]
"""What a term may be: (numerator, denominator); the denominator is never below 0, and 0 only with numerator 0."""

ROUNDS = 60


def extreme_ratio(given: Sequence[tuple[float, Terms]], pick: Callable[..., tuple[float, float]]) -> float:
    """The least (`pick` min) or largest (max) ratio of the sums of weight x numerator and weight x denominator.

    Dinkelbach: for a ratio r, each term is the one that is best for numerator - r x denominator; the ratio of these is
    the next r. It moves one way only, and ends at the extreme after as many rounds as there are choices at most.

    Args:
        given: (weight above 0, what the term may be), each chosen independently of the others.

    Returns:
        The ratio; 0 where all denominators are 0.
    """
    chosen = [(weight, max(terms, key=lambda one: one[1])) for weight, terms in given]
    ratio = _ratio(chosen)
    if ratio is None:
        return 0.0
    for _ in range(ROUNDS):
        chosen = [(weight, pick(terms, key=lambda one: one[0] - ratio * one[1])) for weight, terms in given]
        found = _ratio(chosen)
        if found is None or abs(found - ratio) <= 1e-12 * max(1.0, abs(ratio)):
            break
        ratio = found
    return ratio


def _ratio(chosen: Sequence[tuple[float, tuple[float, float]]]) -> float | None:
    below = fsum(weight * one[1] for weight, one in chosen)
    return fsum(weight * one[0] for weight, one in chosen) / below if below else None
