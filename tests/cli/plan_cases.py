"""Runs of `cgplan plan`, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cgplan.memory.document_schema import PlanDocument

Run = Callable[..., tuple[int, str, str]]
QWEN = ["plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100"]


def document(cgplan: Run, *words: str, status: int = 0) -> dict[str, Any]:
    found, out, _ = cgplan(*words, "--json")
    assert found == status
    read: dict[str, Any] = json.loads(out)
    PlanDocument.model_validate(read)
    return read
