"""How the tests of the checks ask: one line, by the rules of one release."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import cgplan.check.families  # noqa: F401
from cgplan.check import Context, Diagnostic, Report, TokenEdit, check_launch
from cgplan.inputs.launches import launch_of
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.launch import Hints
from cgplan.releases.gpus import gpu


def report(
    line: str, release: str = "0.33.0", on: str | None = None, hints: Hints | None = None, **more: Any
) -> Report:
    """What is said of `vllm serve` with these words, or of a whole line that starts otherwise."""

    words = shlex.split(line if "vllm serve" in line else f"vllm serve {line}")
    launch = launch_of(words)
    if hints is not None:
        launch = replace(launch, hints=hints)
    return check_launch(ask(launch, Context(release=release, gpu=gpu(on) if on else None, **more)))


def told(line: str, code: str, release: str = "0.33.0", on: str | None = None, **more: Any) -> Diagnostic | None:
    """The diagnostic of that code, or None."""
    found = [one for one in report(line, release, on, **more).diagnostics if one.code == code]
    assert len(found) < 2, found
    return found[0] if found else None


def codes(line: str, release: str = "0.33.0", on: str | None = None, **more: Any) -> list[str]:
    """Codes and severities, "CG701 info", by code."""
    return sorted(f"{one.code} {one.severity}" for one in report(line, release, on, **more).diagnostics)


def mended(line: str, code: str, release: str = "0.33.0", on: str | None = None) -> str:
    """The line after the edits of the diagnostic of that code."""
    words = shlex.split(line if "vllm serve" in line else f"vllm serve {line}")
    one = told(line, code, release, on)
    assert one is not None
    edits = [edit for edit in one.edits if isinstance(edit, TokenEdit)]
    assert edits, "no edit"
    for edit in sorted(edits, reverse=True):
        words[edit.start : edit.end] = edit.texts
    return shlex.join(words[2:])


def drafts(count: int, method: str = "ngram") -> str:
    """The option for so many draft tokens."""
    return f'--speculative-config \'{{"method": "{method}", "num_speculative_tokens": {count}}}\''


def pointed_at(one: Diagnostic | None) -> str:
    """The text that a diagnostic points at."""
    assert one is not None
    assert one.at is not None
    return one.at.source.text[one.at.span.start : one.at.span.end]
