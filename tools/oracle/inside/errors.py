"""Errors, warnings and lists as a record holds them: short, and free of the paths of this machine."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any

LONGEST_ERROR, LONGEST_WARNING = 700, 220
LONGEST_LIST, HEAD, TAIL = 130, 24, 8


class Errors:
    """Describes errors of one process."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = str(workdir)

    def describe(self, error: BaseException, stage: str) -> dict[str, str]:
        """Stage, type and text. pydantic's help link and the value it was given are left out of the text."""
        text = self.clean(str(error))
        text = re.sub(r"\n\s*For further information visit \S+", "", text)
        text = re.sub(r"\[type=(\w+), input_value=.*?, input_type=\w+\]", r"[type=\1]", text, flags=re.DOTALL)
        return {"stage": stage, "type": type(error).__name__, "message": text[:LONGEST_ERROR]}

    def clean(self, text: str) -> str:
        return text.replace(self.workdir, "<workdir>")


class Log(logging.Handler):
    """Collects vLLM's warnings, and what it says about CUDA graphs."""

    def __init__(self, errors: Errors) -> None:
        super().__init__()
        self.errors = errors
        self.lines: list[str] = []

    def attach(self) -> None:
        """Take the place of vLLM's own handlers."""
        logger = logging.getLogger("vllm")
        logger.setLevel(logging.INFO)
        logger.handlers[:] = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        warning = record.levelno >= logging.WARNING
        if warning or re.search(r"cuda ?graph", text, re.IGNORECASE):
            line = ("W: " if warning else "I: ") + self.errors.clean(text)[:LONGEST_WARNING]
            if line not in self.lines:
                self.lines.append(line)

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines


def row(values: list[Any], defaults: list[Any]) -> list[Any]:
    """A descriptor without the default values at its end."""
    kept = list(values)
    while len(kept) > 1 and kept[-1] == defaults[len(kept) - 1]:
        kept.pop()
    return kept


def fold(captures: Any) -> None:
    """Replace each long list in a nested mapping by its count, digest, head and tail."""
    if not isinstance(captures, dict):
        return
    for key, value in captures.items():
        if isinstance(value, dict):
            fold(value)
        elif isinstance(value, list) and len(value) > LONGEST_LIST:
            digest = hashlib.sha1(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
            captures[key] = {"n": len(value), "sha1": digest, "head": value[:HEAD], "tail": value[-TAIL:]}
