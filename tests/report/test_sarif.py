"""SARIF 2.1.0: the document fits the standard, and its regions and fixes are the right ones.

The schema in fixtures/ is a part of the standard's, written anew; with CGPLAN_SARIF_SCHEMA set to the path of the
whole one, documents are held against that too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from check_helpers import Related, Source, TokenEdit, at, file_of
from hypothesis import given
from hypothesis import strategies as st
from json_schema import faults

from cgplan.errors import InputError
from cgplan.inputs.launches import Launch
from cgplan.report.check_results import FileResult
from cgplan.report.sarif import artifact, change, log

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
SCHEMAS = [FIXTURES / "sarif-2.1.0-subset.json"]
if "CGPLAN_SARIF_SCHEMA" in os.environ:
    SCHEMAS.append(Path(os.environ["CGPLAN_SARIF_SCHEMA"]))
SOURCE = Source("x y/é.yaml", "x\né𝄞 --bogus\n")


def drop(source: Source, launch: Launch, one: Any) -> str:
    """Leaves out what a finding stands at."""
    return source.text[: one.at.span.start] + source.text[one.at.span.end :]


EDITS = {"edits": (TokenEdit(5, 6),)}
FILES = {
    "nothing": [],
    "one": [file_of()],
    "all severities": [file_of(findings=[("--bogus=1", {"severity": s}) for s in ("error", "warning", "info")])],
    "no place": [file_of(findings=[("", {})])],
    "related": [file_of(findings=[("--bogus=1", {"related": (Related(at(SOURCE, "--bogus"), "here"),) * 2})])],
    "fix": [file_of(findings=[("--bogus=1", EDITS)])],
    "stdin": [file_of(name="-", findings=[("--bogus=1", EDITS)])],
    "line": [file_of(name="")],
    "unreadable": [file_of(), FileResult("b c.yaml", None, error=InputError("cut off", code="CG911", fix="mend it"))],
    "unknown code": [file_of(findings=[("--bogus=1", {"code": "CG099"})])],
}


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", FILES)
def test_documents_fit_the_standard(name: str, path: Path) -> None:
    document = json.loads(json.dumps(log(FILES[name], drop)))
    assert faults(document, json.loads(path.read_text(encoding="utf-8"))) == []


def test_the_schema_refuses_others() -> None:
    schema = json.loads(SCHEMAS[0].read_text(encoding="utf-8"))
    document = log([file_of()])
    document["runs"][0]["results"][0]["level"] = "fatal"
    document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"] = 0
    assert len(faults(document, schema)) == 2


def run(*files: FileResult, mender: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = log(files, mender)["runs"][0]
    return found


def test_rules_have_their_pages() -> None:
    found = run(file_of(findings=[("--bogus=1", {}), ("", {"code": "CG212"})]))
    rules = found["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["CG212", "CG905"]
    assert "Instead: " in rules[0]["help"]["text"]
    for one in found["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]


def test_columns_are_utf16() -> None:
    text = "é𝄞 --bogus"
    found = run(file_of(text, words=("--bogus",), findings=[("--bogus", {})]))
    assert found["columnKind"] == "utf16CodeUnits"
    assert found["results"][0]["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 12
    }  # fmt: skip


def test_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert artifact("a b/é#1.yaml") == {"uri": "a%20b/%C3%A9%231.yaml", "uriBaseId": "%SRCROOT%"}
    assert artifact(str(tmp_path / "x.yaml")) == {"uri": "x.yaml", "uriBaseId": "%SRCROOT%"}
    assert artifact("/elsewhere/x y.yaml") == {"uri": "file:///elsewhere/x%20y.yaml"}
    assert "uri" not in artifact("-")


def test_standard_input_has_a_logical_name() -> None:
    (found,) = run(file_of(name="-"))["results"]
    assert found["locations"][0]["logicalLocations"] == [{"name": "stdin", "kind": "resource"}]
    assert found["locations"][0]["physicalLocation"]["region"]["startLine"] == 7


def prints(file: FileResult) -> list[str]:
    return [one["partialFingerprints"]["cgplan/v1"] for one in run(file)["results"]]


def test_fingerprints_stay_where_lines_move() -> None:
    text = "a: 1\n- --bogus=1\n- --bogus=1\n"
    words = ("--bogus=1", "--bogus=1")
    here = prints(file_of(text, words=words, findings=[("--bogus=1", {})]))
    assert here == prints(file_of("\n\n" + text, words=words, findings=[("--bogus=1", {})]))
    assert here != prints(file_of(text, words=words, name="b", findings=[("--bogus=1", {})]))
    assert here != prints(file_of(text, words=words, findings=[("--bogus=1", {"code": "CG212"})]))
    twice = prints(file_of(text, words=words, findings=[("--bogus=1", {}), ("--bogus=1", {})]))
    assert len(set(twice)) == 2


def test_a_fix_is_one_replacement() -> None:
    (found,) = run(file_of(findings=[("--bogus=1", EDITS)]), mender=drop)["results"]
    (changed,) = found["fixes"][0]["artifactChanges"]
    assert changed["replacements"] == [
        {
            "deletedRegion": {"startLine": 7, "startColumn": 5, "endLine": 7, "endColumn": 14},
            "insertedContent": {"text": ""},
        }
    ]


@pytest.mark.parametrize(
    ("more", "mender"),
    [
        ({}, drop),
        (EDITS, None),
        (EDITS, lambda *_: None),
        (EDITS, lambda source, *_: source.text),
        (EDITS, lambda source, *_: source.text + "sk-0123456789abcdef"),
    ],
)
def test_no_fix(more: dict[str, Any], mender: Any) -> None:
    (found,) = run(file_of(findings=[("--bogus=1", more)]), mender=mender)["results"]
    assert "fixes" not in found


def test_a_file_that_cannot_be_read_is_a_notification() -> None:
    invocation = run(*FILES["unreadable"])["invocations"][0]
    assert invocation["executionSuccessful"] is False
    (said,) = invocation["toolExecutionNotifications"]
    assert said["message"]["text"] == "cut off\nfix: mend it"
    assert said["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b%20c.yaml"


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_a_change_makes_the_other_text(before: str, after: str) -> None:
    start, end, inserted = change(before, after)
    assert 0 <= start <= end <= len(before)
    assert before[:start] + inserted + before[end:] == after


def test_secrets_are_not_in_the_document() -> None:
    key = "s3cret-value-77"
    found = file_of(
        f"vllm serve --api-key {key}",
        words=("vllm", "serve", "--api-key", key),
        findings=[("--api-key", {"message": key, "fix": key, "flag": key, **EDITS})],
        label=key,
    )
    assert key not in json.dumps(log([found], drop))
