"""Numbers of a plan as its screens write them."""

from __future__ import annotations

from ..memory.estimates import GIB, MIB
from ..memory.what_if import Outcome


def gib(size: float) -> str:
    """Bytes as GiB with two digits; a little is not nothing."""
    text = f"{size / GIB:.2f}"
    return "0.00" if text == "-0.00" else text


def signed(size: int) -> str:
    """A difference, in GiB, or MiB where it is small."""
    if abs(size) < GIB // 10:
        return f"{size / MIB:+.0f} MiB"
    return f"{size / GIB:+.2f} GiB"


def number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def seconds(one: Outcome) -> str:
    """How long capture takes; "" without graphs."""
    if one.capture_seconds is None:
        return ""
    return f"{one.capture_seconds:.0f}" if one.capture_seconds >= 1 else "<1"
