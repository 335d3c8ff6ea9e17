"""The fixes of findings, made in files of every kind: the finding is gone, and no error is new."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cgplan.check import ConfigEdit, Context, Report, TokenEdit, check_launch
from cgplan.inputs.launches import ConfigText, Launch, Reading, Source, launch_of, read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.edit.rewrite import rewritten, target_of
from cgplan.inputs.launches.edit.tokens import texts_after

FIXTURES = Path(__file__).parents[2] / "fixtures"
TRAPS = [
    case
    for path in sorted((FIXTURES / "check" / "traps").glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
]
LINES = [case for case in TRAPS if "files" not in case]
PUBLIC = sorted(path for path in (FIXTURES / "launches" / "public").iterdir() if path.suffix != ".json")


def as_script(words: list[str]) -> str:
    env = [word for word in words if re.match(r"[A-Za-z_]\w*=", word)]
    rest = " \\\n  ".join(shlex.quote(word) for word in words[len(env) + 3 :])
    front = " ".join(shlex.quote(word) for word in words[: len(env) + 3])
    return f"#!/bin/sh\n# kept\n{front}{f' {chr(92)}{chr(10)}  ' if rest else ''}{rest}\necho kept\n"


def as_manifest(words: list[str]) -> str:
    env = [word.partition("=") for word in words if re.match(r"[A-Za-z_]\w*=", word)]
    lines = "".join(f"        - {json.dumps(word)}  # own\n" for word in words[len(env) :])
    variables = "".join(f"        - {{name: {name}, value: {json.dumps(value)}}}\n" for name, _, value in env)
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}  # kept\nspec:\n  containers:\n    - name: vllm\n"
        f"      image: example/image:1\n      command:\n{lines}" + (f"      env:\n{variables}" if variables else "")
    )


def as_dockerfile(words: list[str]) -> str:
    env = [word for word in words if re.match(r"[A-Za-z_]\w*=", word)]
    variables = "".join(f"ENV {word}\n" for word in env)
    return f"FROM example/image:1\n# kept\n{variables}CMD {json.dumps(words[len(env) :])}\n"


KINDS: dict[str, tuple[str, Callable[[list[str]], str]]] = {
    "script": ("a.sh", as_script),
    "manifest": ("a.yaml", as_manifest),
    "dockerfile": ("Dockerfile", as_dockerfile),
}


def report_of(launch: Launch, case: dict[str, Any]) -> Report:
    return check_launch(ask(launch, Context(release=case.get("release"))))


def errors(report: Report) -> set[str]:
    return {one.code for one in report.diagnostics if one.severity == "error"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", LINES, ids=lambda case: f"{case['code']}")
def test_a_fix_of_the_command_mends_the_file(case: dict[str, Any], kind: str) -> None:
    words = shlex.split(case["fires"])
    name, write = KINDS[kind]
    source = Source(name, write(words))
    launches = read(source).launches
    assert len(launches) == 1
    before = report_of(launches[0], case)
    fixable = [one for one in before.diagnostics if one.edits and one.code == case["code"]]
    edits = [edit for one in fixable for edit in one.edits]
    assert all(isinstance(edit, TokenEdit) for edit in edits)
    made = rewritten(source, [(launches[0], edits)])
    assert made.skipped == ()
    (launch,) = read(Source(name, made.text)).launches
    assert launch.texts == texts_after(launches[0], [edit for edit in edits if isinstance(edit, TokenEdit)])
    after = report_of(launch, case)
    gone = {(one.code, one.message) for one in fixable}
    assert not gone & {(one.code, one.message) for one in after.diagnostics}
    assert errors(after) <= errors(before)
    assert [line for line in made.text.split("\n") if "kept" in line] == [
        line for line in source.text.split("\n") if "kept" in line
    ]


@pytest.mark.parametrize("case", [case for case in TRAPS if "files" in case], ids=lambda case: f"{case['code']}")
def test_a_fix_of_a_file_of_config_mends_it(case: dict[str, Any]) -> None:
    words = shlex.split(case["fires"])
    files = {
        name: Source(name, f"# kept\n{text}\n# kept at the end\n")
        for name, text in case["files"].items()
        if any(name in word for word in words)
    }
    line = Source("a.sh", as_script(words))
    (launch,) = read(line).launches

    def with_files(one: Launch, texts: dict[str, Source]) -> Launch:
        return replace(one, files={
            name: ConfigText(source.text, tuple(range(1, source.text.count("\n") + 2)), source)
            for name, source in texts.items()
        })  # fmt: skip

    launch = with_files(launch, files)
    before = report_of(launch, case)
    fixable = [one for one in before.diagnostics if one.edits and one.code == case["code"]]
    edits = [edit for one in fixable for edit in one.edits]
    texts = {line.name: line, **files}
    for name, source in list(texts.items()):
        own = [edit for edit in edits if target_of(launch, edit) == source]
        reread: Callable[[Source], Reading] = lambda again: Reading()  # noqa: E731
        made = rewritten(source, [(launch, own)], None if source == line else reread)
        assert made.skipped == ()
        texts[name] = Source(name, made.text)
        if any(isinstance(edit, ConfigEdit) for edit in own):
            assert made.text.startswith("# kept\n")
            assert made.text.endswith("\n# kept at the end\n")
    (again,) = read(texts["a.sh"]).launches
    after = report_of(with_files(again, {name: texts[name] for name in files}), case)
    gone = {(one.code, one.message) for one in fixable}
    assert not gone & {(one.code, one.message) for one in after.diagnostics}
    assert errors(after) <= errors(before)


def test_there_are_fixes_to_test() -> None:
    fixable = [
        case for case in LINES
        if any(one.edits for one in report_of(launch_of(shlex.split(case["fires"])), case).diagnostics)
    ]  # fmt: skip
    assert len(fixable) > 20


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_all_fixes_of_a_file_together(path: Path) -> None:
    """What is made reads as the edited tokens; the second time there is nothing left of it."""
    source = Source(str(path), path.read_bytes().decode("utf-8"))
    launches = read(source).launches
    reports = [check_launch(ask(launch)) for launch in launches]
    changes = [
        (launch, [edit for one in report.diagnostics for edit in one.edits])
        for launch, report in zip(launches, reports, strict=True)
    ]
    made = rewritten(source, changes)
    assert made.made + len(made.skipped) == sum(len(edits) for _, edits in changes)
    again = read(Source(str(path), made.text)).launches
    assert len(again) == len(launches)
    skipped = [(id(one.launch), one.edit) for one in made.skipped]
    for launch, after, report, (_, edits) in zip(launches, again, reports, changes, strict=True):
        done = [e for e in edits if (id(launch), e) not in skipped and isinstance(e, TokenEdit)]
        assert after.texts == texts_after(launch, done)
        if len(done) == len(edits):
            # A file of --config that is now read may not be there.
            assert errors(check_launch(ask(after))) <= errors(report) | {"CG910"}
