"""Numbers of steps and tokens as people read them."""

from __future__ import annotations

from ..histogram import Range
from .tally import Bounds


def percent(part: float, whole: float) -> str:
    """A share; what is not quite 0 or all is not rounded to it."""
    share = part / whole if whole else 0.0
    if 0 < share < 0.0005:
        return "below 0.1%"
    if 0.9995 <= share < 1:
        return "above 99.9%"
    return f"{100 * share:.1f}%"


def percents(bounds: Bounds) -> str:
    """Shares 0 to 1."""
    low, high = percent(bounds.low, 1), percent(bounds.high, 1)
    return low if low == high else f"{low.removesuffix('%')}–{high}"


def number(value: float) -> str:
    """1234567 as 1,234,567; a share of a step with three digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


def numbers(bounds: Bounds) -> str:
    return number(bounds.low) if bounds.is_exact else f"{number(bounds.low)}–{number(bounds.high)}"


def tokens(value: Range) -> str:
    """ "1 token", "9–16 tokens"."""
    return "1 token" if value == (1, 1) else f"{value} tokens"
