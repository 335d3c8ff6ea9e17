"""Fixtures of parser traps, repeats, flags and variables: each case fires, its twin is silent, its edits mend it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cgplan.check import (
    ConfigEdit,
    Context,
    Diagnostic,
    Report,
    TokenEdit,
    check_launch,
    environment,
    flags,
    lost_buckets,
    parser_traps,
    repeats,
)
from cgplan.check.launch_remarks import KINDS
from cgplan.inputs.launches import ConfigText, Launch, launch_of
from cgplan.inputs.launches.asked import ask
from cgplan.trace import Rule

pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "fixtures" / "check" / "traps"
CASES = [case for path in sorted(FOLDER.glob("*.json")) for case in json.loads(path.read_text(encoding="utf-8"))]
IDS = [f"{case['code']}-{index}" for index, case in enumerate(CASES)]


def launch_with(words: list[str], files: dict[str, str]) -> Launch:
    """A pasted line; only the file that it names is there."""
    used = {name: text for name, text in files.items() if any(name in word for word in words)}
    texts = {name: ConfigText(text, tuple(range(1, text.count("\n") + 2))) for name, text in used.items()}
    return replace(launch_of(words), files=texts)


def report_of(words: list[str], case: dict[str, Any], files: dict[str, str] | None = None) -> Report:
    launch = launch_with(words, case.get("files", {}) if files is None else files)
    return check_launch(ask(launch, Context(release=case.get("release"))))


def edited(launch: Launch, diagnostic: Diagnostic) -> tuple[list[str], dict[str, str]]:
    """The words and the files after the edits of one diagnostic."""
    words = launch.texts
    files = {name: config.text for name, config in launch.files.items()}
    for edit in sorted((e for e in diagnostic.edits if isinstance(e, TokenEdit)), reverse=True):
        words[edit.start : edit.end] = edit.texts
    for change in sorted((e for e in diagnostic.edits if isinstance(e, ConfigEdit)), key=lambda e: -e.line):
        name, text = next(iter(files.items()))
        lines = text.splitlines()
        assert lines[change.line - 1].startswith(f"{change.key}:")
        new = [] if change.new_key is None else [f"{change.new_key}: {json.dumps(change.new_value)}"]
        lines[change.line - 1 : change.line] = new
        files[name] = "\n".join(lines) + "\n"
    variables = [f"{one.name}={one.value}" for one in launch.env]
    return [*variables, *words], files


def test_every_rule_has_a_case() -> None:
    from_readers = {rule.code for rule, _ in KINDS.values()}  # test_launch_remarks
    modules = (environment, flags, lost_buckets, parser_traps, repeats)
    rules = {value.code for module in modules for value in vars(module).values() if isinstance(value, Rule)}
    assert rules - from_readers <= {case["code"] for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_it_fires(case: dict[str, Any]) -> None:
    found = report_of(shlex.split(case["fires"]), case).diagnostics
    assert case["code"] in [one.code for one in found]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_its_twin_is_silent(case: dict[str, Any]) -> None:
    found = report_of(shlex.split(case["silent"]), case).diagnostics
    assert case["code"] not in [one.code for one in found]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_edits_mend_it(case: dict[str, Any]) -> None:
    report = report_of(shlex.split(case["fires"]), case)
    mended = [one for one in report.diagnostics if one.code == case["code"] and one.edits]
    if not mended:
        return
    together = replace(mended[0], edits=tuple(edit for one in mended for edit in one.edits))
    words, files = edited(report.asked.launch, together)
    after = report_of(words, case, files).diagnostics
    left = [(one.code, one.message) for one in after]
    assert not [one for one in mended if (one.code, one.message) in left]
    before = {one.code for one in report.diagnostics if one.severity == "error"}
    assert {one.code for one in after if one.severity == "error"} <= before


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_safe_edits_keep_what_counted(case: dict[str, Any]) -> None:
    """An edit that drops what does not count changes no setting; one that joins or renames loses none."""
    report = report_of(shlex.split(case["fires"]), case)
    before = report.asked.args
    for one in report.diagnostics:
        if one.code not in ("CG924", "CG925", "CG926", "CG931", "CG935", "CG939") or not one.edits or before is None:
            continue
        after = report_of(*_pair(report.asked.launch, one, case)).asked.args
        assert after is not None
        assert (after.values, after.model) == (before.values, before.model)


def _pair(launch: Launch, one: Diagnostic, case: dict[str, Any]) -> tuple[list[str], dict[str, Any], dict[str, str]]:
    words, files = edited(launch, one)
    return words, case, files


def test_messages_are_one_line_and_places_are_in_the_text() -> None:
    for case in CASES:
        for one in report_of(shlex.split(case["fires"]), case).diagnostics:
            assert "\n" not in one.message
            assert "more tokens" not in one.message
            if one.at is not None:
                assert 0 <= one.at.span.start <= one.at.span.end <= len(one.at.source.text)
