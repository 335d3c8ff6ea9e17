"""Lines of logs, and `cgplan logs` over them, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import ROOT

from cgplan.report.logs_schema import LogsDocument

Run = Callable[..., tuple[int, str, str]]
LOGS = ROOT / "fixtures" / "logs"


def document(cgplan: Run, *words: str, status: int = 0) -> dict[str, Any]:
    found, out, err = cgplan("logs", *words, "--json")
    assert (found, err) == (status, "")
    parsed: dict[str, Any] = json.loads(out)
    LogsDocument.model_validate(parsed)
    return parsed


def line(message: str, process: str = "EngineCore pid=9", level: str = "INFO") -> str:
    return f"({process}) {level} 09-30 12:00:00 [core.py:1] {message}\n"


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


BANNER = line(" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.30.0", "APIServer pid=1")


def arguments(**given: Any) -> str:
    return line(f"non-default args: {given!r}", "APIServer pid=1")
