"""The kind of a crash, as `startup.crashes` names it."""

from __future__ import annotations

import importlib
from typing import Any


def classified(message: str) -> tuple[str, dict[str, Any]]:
    """Kind and numbers of an exception's line; "unknown" and none where no kind fits."""
    try:
        crashes = importlib.import_module("cgplan.startup.crashes")
    except ImportError:
        return "unknown", {}
    kind, values = crashes.classify(message)
    return kind or "unknown", dict(values or {})
