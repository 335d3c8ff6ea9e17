"""Dry runs of `cgplan profile`, for tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.memory.profile.needs_schema import DryRun

MODEL = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h200", "--vllm", "0.25.1")


def shown_by(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    assert run(["profile", *words]) == status
    return " ".join(capsys.readouterr().out.split())


def dry_run(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert run(["profile", *words, "--dry-run", "--json", "-"]) == status
    return DryRun.model_validate_json(capsys.readouterr().out).model_dump()


def applied(words: tuple[str, ...], way: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The dry run with a way out put on its line."""
    if way.startswith("--engine synthetic"):
        way = "--engine synthetic -tp 8"  # it says which are too few
    more, _, without = way.partition(" without ")
    more = more.replace(" with ", " ")
    line = list(words)
    split = line.index("--") if "--" in line else len(line)
    own = line[:split]
    for flag in [without, *(word for word in more.split() if word.startswith("-"))]:
        while flag in own:
            at = own.index(flag)
            del own[at : at + 2]
    run(["profile", *own, *more.split(), "--dry-run", "--json", "-", *line[split:]])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
