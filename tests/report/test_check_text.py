"""The screen of a check, line by line."""

from __future__ import annotations

from typing import Any

import pytest
from check_helpers import Related, Source, at, file_of, finding, outcome

from cgplan.errors import InputError
from cgplan.inputs.launches import Remark
from cgplan.report.check_results import FileResult, Origin
from cgplan.report.check_text import Style, screen, show, show_concise


def text(*files: FileResult, **style: Any) -> str:
    return "\n".join("".join(words for words, _ in line) for line in screen(files, Style(**style)))


def test_a_finding_has_its_place_its_line_and_its_fix() -> None:
    assert text(file_of()) == (
        "deploy.yaml:2: Deployment qwen, container vllm: FULL_AND_PIECEWISE, 86 graphs, vLLM 0.25.1,"
        " H100 80GB HBM3 (assumed)\n"
        "\n"
        "deploy.yaml:7:5: error CG905 there is no option --bogus\n"
        "7 |   - --bogus=1\n"
        "  |     ^^^^^^^^^\n"
        "  fix: drop it\n"
        "\n"
        "1 error"
    )


def test_the_corrected_flag_and_related_places_follow() -> None:
    source = file_of().source
    assert source is not None
    related = (Related(at(source, '"300"'), "this one counts"),)
    found = file_of(findings=[("--bogus=1", {"flag": "--max-num-seqs 304", "related": related, "fix": None})])
    assert "  = --max-num-seqs 304\n  deploy.yaml:6:5: this one counts\n" in text(found)
    assert "fix:" not in text(found)


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("--cudagraph-capture-sizes 1 2 100", False),
        ("--cudagraph-capture-sizes 1 2 101", True),
        ("--cudagraph-capture-sizes 100", True),
        ("--max-num-seqs 1 100", True),
    ],
)
def test_of_two_corrected_flags_the_fuller_one_is_shown(other: str, shown: bool) -> None:
    flags = "--cudagraph-capture-sizes=100", other
    lines = text(file_of(findings=[("--bogus=1", {"flag": flag}) for flag in flags])).splitlines()
    assert (f"  = {flags[0]}" in lines, f"  = {other}" in lines) == (shown, True)


def test_a_good_server_is_one_line() -> None:
    assert text(file_of(findings=())) == (
        "all good: FULL_AND_PIECEWISE, 86 graphs, vLLM 0.25.1, H100 80GB HBM3 (assumed)"
    )


def test_good_servers_are_a_line_each() -> None:
    both = text(file_of(findings=()), file_of(findings=(), name="other.yaml"))
    assert both.splitlines()[1].startswith("other.yaml:2: Deployment qwen")
    assert both.splitlines()[2:] == ["all good: 2 servers in 2 files"]


def test_quiet_says_findings_only() -> None:
    assert text(file_of(findings=()), quiet=True) == ""
    assert text(file_of(), quiet=True).startswith("deploy.yaml:7:5: error")
    assert text(file_of(), quiet=True).endswith("fix: drop it")


def test_assumptions_are_shown_once_when_asked_for() -> None:
    assert "assumed: GPU" not in text(file_of())
    long = text(file_of(findings=[("--bogus=1", {}), ('"300"', {})]), assumptions=True)
    assert long.count("  assumed: GPU: assumed.\n  not modelled: x is not modelled.") == 1


@pytest.mark.parametrize(
    ("starts", "words"), [(False, "does not start, vLLM 0.25.1"), (None, "cannot tell whether it starts, vLLM 0.25.1")]
)
def test_a_server_that_does_not_start_has_no_mode(starts: bool | None, words: str) -> None:
    shown = text(file_of(outcome=outcome(starts)))
    assert words in shown
    assert "FULL_AND_PIECEWISE" not in shown


def test_what_is_assumed_is_marked() -> None:
    found = outcome(vllm=Origin("0.33.0", "assumed"), gpu=Origin("h200", "given"), model=Origin("org/m", "assumed"))
    line = text(file_of(findings=(), outcome=found))
    assert line.endswith("vLLM 0.33.0 (assumed), h200, org/m (assumed)")
    line = text(file_of(findings=(), outcome=found._replace(stand_in="a dense 8B decoder")))
    assert line.endswith("vLLM 0.33.0 (assumed), h200, org/m as a dense 8B decoder (assumed)")


def test_counts() -> None:
    found = [("--bogus=1", {}), ('"300"', {"severity": "warning"}), ("", {"severity": "info"})]
    assert text(file_of(findings=found), file_of(name="b")).endswith(
        "2 errors, 1 warning, 1 info in 2 servers in 2 files"
    )
    fixable = file_of(findings=[("--bogus=1", {"edits": ("x",)}), ("--bogus=1", {"edits": ("x",), "safe": False})])
    assert text(fixable).endswith("2 errors\n1 of them can be mended by --fix")


def test_files_without_servers_and_files_that_cannot_be_read() -> None:
    empty = FileResult("a.yaml", Source("a.yaml", "x"), remarks=(Remark("no_launch", "no server is started here"),))
    assert text(empty) == "a.yaml: note no server is started here\nno vLLM server in 1 file"
    broken = FileResult("b.yaml", None, error=InputError("cut off"))
    assert text(file_of(findings=()), broken).endswith(
        "nothing to say of 1 server in 2 files, 1 file could not be read"
    )


def test_a_finding_without_a_place_names_its_file() -> None:
    assert "deploy.yaml: error CG905 there is" in text(file_of(findings=[("", {})]))


def test_long_lines_are_broken_on_a_screen_only() -> None:
    found = file_of(findings=[("--bogus=1", {"message": "word " * 30})])
    assert any(len(line) > 120 for line in text(found).splitlines())
    wrapped = text(found, wraps=True, width=60).splitlines()
    assert any(line.startswith("  word word") for line in wrapped)
    assert all(len(line) <= 60 for line in wrapped if "word" in line)


def test_concise_is_a_line_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    show_concise([file_of(findings=[("--bogus=1", {}), ('"300"', {"fix": None, "severity": "warning"})])])
    assert capsys.readouterr().out == (
        "deploy.yaml:7:5: error CG905 there is no option --bogus (fix: drop it)\n"
        "deploy.yaml:6:5: warning CG905 there is no option --bogus\n"
    )


class TestColour:
    def test_none_in_a_pipe(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        show([file_of()])
        assert "\x1b" not in capsys.readouterr().out

    def test_where_it_is_asked_for(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        show([file_of()])
        assert "\x1b[1;31merror\x1b[0m" in capsys.readouterr().out
        monkeypatch.setenv("NO_COLOR", "1")
        show([file_of()])
        assert "31m" not in capsys.readouterr().out


def test_names_cannot_move_the_cursor() -> None:
    assert "\x1b" not in text(file_of(name="a\x1b[2Jb.yaml", label="c\x1b[1m"))


def test_secrets_are_in_no_line() -> None:
    key = "s3cret-value-77"
    body = f"vllm serve m --api-key {key} --bogus=1"
    words = ("vllm", "serve", "m", "--api-key", key, "--bogus=1")
    found = file_of(
        body,
        words=words,
        findings=[("--bogus=1", {"message": f"not {key}", "fix": f"drop {key}", "flag": f"--x {key}"})],
        label=key,
    )
    shown = text(found, assumptions=True)
    assert key not in shown
    assert "--api-key *** --bogus=1" in shown
    assert finding(None).message in text(file_of())
