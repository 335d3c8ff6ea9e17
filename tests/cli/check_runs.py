"""Runs of `cgplan check` in an empty folder, for tests."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cgplan.cli.app import run


class Done(NamedTuple):
    status: int
    out: str
    err: str


Check = Callable[..., Done]
GOOD = "vllm serve Qwen/Qwen3-8B --max-num-seqs 256"
BAD = "vllm serve Qwen/Qwen3-8B --bogus 1 --max-num-seqs 256"
WARNING = "vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --max-num-seqs 256"


def checker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Runs `cgplan check` in an empty folder: words of the command, and of a line behind `--`."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(words: str = "", line: str | None = None, stdin: str | None = None) -> Done:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        argv = ["check", *words.split(), *(["--", *line.split()] if line is not None else [])]
        return Done(run(argv), *capsys.readouterr())

    return call


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
