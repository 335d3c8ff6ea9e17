"""Annotations for GitHub: escaped as its runner unescapes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_helpers import file_of
from hypothesis import given
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.report.check_results import FileResult
from cgplan.report.github import _data, _property, commands


def test_a_finding() -> None:
    assert list(commands([file_of()])) == [
        "::error file=deploy.yaml,line=7,endLine=7,col=5,endColumn=14,title=CG905::"
        "there is no option --bogus%0Afix: drop it"
    ]


@pytest.mark.parametrize(("severity", "level"), [("error", "error"), ("warning", "warning"), ("info", "notice")])
def test_levels(severity: str, level: str) -> None:
    (line,) = commands([file_of(findings=[("", {"severity": severity})])])
    assert line == f"::{level} file=deploy.yaml,title=CG905::there is no option --bogus%0Afix: drop it"


def test_columns_are_of_one_line_only() -> None:
    (line,) = commands([file_of(findings=[('"300"\n  - --bogus=1', {})])])
    assert "line=6,endLine=7,title" in line


def test_what_is_no_file_is_named_in_the_message() -> None:
    assert list(commands([file_of(name="-", findings=[("--bogus=1", {"fix": None})])])) == [
        "::error title=CG905::stdin: there is no option --bogus"
    ]


def test_paths_are_relative_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = commands([file_of(name=str(tmp_path / "a, b:c" / "d.yaml"))])
    assert line.startswith("::error file=a%2C b%3Ac/d.yaml,line=7")


def test_a_file_that_cannot_be_read() -> None:
    broken = FileResult("a.yaml", None, error=InputError("cut\noff 100%", fix="write it", code="CG911"))
    assert list(commands([broken])) == ["::error file=a.yaml,title=CG911::cut off 100%25%0Afix: write it"]


@given(st.text())
def test_escapes_can_be_undone(text: str) -> None:
    escaped = _property(text)
    assert not set(escaped) & set("\r\n:,")
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        escaped = escaped.replace(code, char)
    assert escaped == text
    assert "\n" not in _data(text)


def test_secrets_are_not_annotated() -> None:
    key = "s3cret-value-77"
    found = file_of(
        f"vllm serve --api-key {key}",
        words=("vllm", "serve", "--api-key", key),
        findings=[("", {"message": key, "fix": key, "flag": key})],
    )
    assert key not in "".join(commands([found]))
