"""A page without what must not be shown: keys and passwords, control characters, texts without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...trace import Finding
from .blocks import MOST_TEXT, Page


def masked(page: Page, mask: Callable[[str], str]) -> Page:
    """`page` with every text of it put through `mask`, printable, and at most MOST_TEXT characters long."""

    def clean(text: str) -> str:
        shown = "".join(c if c.isprintable() else " " for c in mask(text))
        return shown if len(shown) <= MOST_TEXT else f"{shown[: MOST_TEXT - 1]}…"

    found: Page = _walk(page, clean)
    return found


def _walk(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Finding):
        texts = (value.code, value.severity, value.message, value.fix, value.where)
        return Finding(*(None if text is None else clean(text) for text in texts))  # type: ignore[arg-type]
    if isinstance(value, tuple):
        walked = [_walk(one, clean) for one in value]
        return type(value)(*walked) if hasattr(value, "_fields") else tuple(walked)
    return value
