"""How the tool that lists environment variables tells the ways of reading them apart."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

tool: Any = importlib.import_module("build_env_variables")


@pytest.mark.parametrize(
    ("reader", "kind", "on"),
    [
        (lambda: bool(int(os.getenv("X", "0"))), "bool", ["1", "2"]),
        (lambda: os.getenv("X", "0") == "1", "bool", ["1"]),
        (lambda: os.getenv("X", "").lower() in ("1", "true"), "bool", ["1", "true", "True", "TRUE"]),
        (lambda: int(os.getenv("X", "0")), "int", None),
        (lambda: float(os.getenv("X", "0")), "float", None),
        (lambda: os.getenv("X"), "text", None),
    ],
)
def test_ways_of_reading(reader: Callable[[], Any], kind: str, on: list[str] | None) -> None:
    row = tool.row_of("X", reader)
    assert row["kind"] == kind
    assert row.get("on") == on
    assert "X" not in os.environ


def test_names_read_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "a.py").write_text('os.environ.get("VLLM_A")\nos.getenv("VLLM_B", "1")\nx = "VLLM_C"\n')
    assert tool.read_elsewhere(tmp_path) == ["VLLM_A", "VLLM_B"]
