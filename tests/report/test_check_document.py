"""The JSON document of a check fits its schema, whatever was found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from check_helpers import Related, Source, at, file_of, outcome
from json_schema import faults

from cgplan.errors import InputError
from cgplan.inputs.launches import Remark
from cgplan.report.check_document import as_document
from cgplan.report.check_results import FileResult, Origin
from cgplan.report.check_schema import CheckDocument, json_schema

SOURCE = Source("deploy.yaml", "x\ny --bogus\n")
FILES = {
    "nothing": [],
    "one": [file_of()],
    "good": [file_of(findings=())],
    "without a place": [file_of(findings=[("", {"fix": None})])],
    "related": [
        file_of(findings=[("--bogus=1", {"related": (Related(at(SOURCE, "--bogus"), "here"),), "flag": "-x"})])
    ],
    "unreadable": [FileResult("a", None, error=InputError("cut off", where="a:1"))],
    "remarks": [FileResult("-", SOURCE, remarks=(Remark("no_launch", "none", SOURCE.span(2, 3)), Remark("x", "y")))],
    "a line": [file_of(name="", label="")],
    "unknown": [file_of(outcome=outcome(None, gpu=Origin(None, "assumed"), model=Origin(None, "file")))],
}


@pytest.mark.parametrize("name", FILES)
def test_documents_fit_the_schema(name: str) -> None:
    document = json.loads(json.dumps(as_document(FILES[name])))
    assert faults(document, json_schema()) == []
    CheckDocument.model_validate(document)


@pytest.mark.parametrize(
    "broken",
    [
        {"schema_version": 2},
        {"more": 1},
        {"files": [{"path": "a"}]},
        {"files": None},
    ],
)
def test_the_schema_refuses_others(broken: dict[str, Any]) -> None:
    assert faults({**as_document([file_of()]), **broken}, json_schema())


def test_a_finding() -> None:
    (found,) = as_document([file_of(findings=[("--bogus=1", {"edits": ("x",), "safe": False})])])["files"]
    (launch,) = found["launches"]
    assert (launch["line"], launch["kind"], launch["starts"]) == (2, "kubernetes", True)
    assert (launch["gpu"], launch["gpu_from"]) == ("NVIDIA H100 80GB HBM3", "assumed")
    assert launch["resolution"]["graphs"]["total"] == 86
    (one,) = launch["diagnostics"]
    assert one == {
        "code": "CG905",
        "severity": "error",
        "message": "there is no option --bogus",
        "why": "because",
        "fix": "drop it",
        "flag": None,
        "file": "deploy.yaml",
        "line": 7,
        "column": 5,
        "end_line": 7,
        "end_column": 14,
        "fixable": "unsafe",
        "related": [],
    }


def test_the_summary_counts() -> None:
    document = as_document([*FILES["one"], *FILES["unreadable"]])
    assert document["summary"] == {
        "errors": 1, "warnings": 0, "infos": 0, "files": 2, "servers": 1, "unreadable": 1, "fixable": 0,
        "passed_over": 0,
    }  # fmt: skip


def test_secrets_are_in_no_field() -> None:
    key = "s3cret-value-77"
    text = {"message": key, "fix": key, "flag": key, "why": key}
    found = file_of(f"vllm serve --api-key {key}", words=("vllm", "serve", "--api-key", key), findings=[("", text)])
    found = found._replace(error=InputError(key, where=key, fix=key), remarks=(Remark("x", key, None, key),))
    assert key not in json.dumps(as_document([found]))
