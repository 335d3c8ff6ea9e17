"""What every help page has, and that an option of one name is the same thing in every command."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from cgplan.cli.app import COMMANDS, build, run
from cgplan.cli.renamed import OLD_NAMES, current

GROUP: Any = typer.main.get_command(build())
SAME = {
    "--json": "flag",
    "--markdown": "flag",
    "--output": "FILE",
    "--format": "FORM",
    "--gpu": "NAME",
    "--vllm": "RELEASE",
    "--model": "MODEL",
    "--profile": "FILE",
    "--fail-on": "SEVERITY",
    "--workload": "FILE",
    "--launch": "N",
}
"""What each of these takes, wherever it is. A value's name may go on: FILE[@WEIGHT]."""

UNLIKE = {("profile", "--json"): "FILE"}
"""--json of profile names the file; without one there is nothing to keep of a measurement."""

WRITES = ("--write", "--output", "--save", "--csv", "--measure", "--json FILE")


def page(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "100")
    assert run([*([command] if command else []), "--help"]) == 0
    return capsys.readouterr().out


def options(command: str) -> list[Any]:
    return [param for param in GROUP.commands[command].params if param.param_type_name == "option"]


def takes(param: Any) -> str:
    if param.is_flag:
        return "flag"
    return str(param.metavar or param.type.name.upper())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_page_has_examples_side_effects_and_exit_codes_in_this_order(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page(command, capsys, monkeypatch)
    parts = [re.search(pattern, text, re.M) for pattern in (r"^Examples?:$", r"^Side effects: ", r"^Exit codes:$")]
    assert all(parts)
    places = [part.start() for part in parts if part is not None]
    assert places == sorted(places)
    codes = re.findall(r"^  (\d+) ", text[places[-1] :], re.M)
    assert codes[0] == "0"
    assert "2" in codes
    assert codes == sorted(codes, key=int)
    assert "<str>" not in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_writes_is_named_under_side_effects(command: str) -> None:
    effects = _section(GROUP.commands[command].epilog)
    for param in options(command):
        for name in param.opts:
            shown = f"{name} {takes(param)}" if (command, name) in UNLIKE else name
            if shown in WRITES:
                assert name in effects


def _section(epilog: str) -> str:
    return epilog.partition("Side effects: ")[2].partition("\n\n")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_are_of_the_command_and_can_be_parsed(command: str) -> None:
    examples = re.findall(r"^  (.*\bcgplan .*)$", GROUP.commands[command].epilog, re.M)
    assert examples
    known = {name for param in options(command) for name in (*param.opts, *param.secondary_opts)}
    for line in examples:
        own = re.search(rf"cgplan {command}\b(.*)", line)
        assert own is not None, line
        words = shlex.split(re.split(r" \| | > |\)$", own[1])[0])
        words = words[: words.index("--")] if "--" in words else words
        given = {word.partition("=")[0].partition(".")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, line


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_means_the_same_everywhere(command: str) -> None:
    for param in options(command):
        for name in param.opts:
            if name in SAME:
                assert takes(param).startswith(UNLIKE.get((command, name), SAME[name])), name
        assert param.help, param.opts
        assert not param.help.endswith(" "), param.opts
        assert param.help[0].isupper() or param.help[0] in "abcdefghijklmnopqrstuvwxyz0123456789/", param.opts


def test_short_names_are_of_one_option() -> None:
    found: dict[str, set[str]] = {}
    for command in COMMANDS:
        for param in options(command):
            for name in param.opts:
                if not name.startswith("--"):
                    found.setdefault(name, set()).add(next(one for one in param.opts if one.startswith("--")))
    assert {name: whole for name, whole in found.items() if len(whole) > 1} == {}


def test_the_first_screen_has_three_lines_that_run_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    assert run([]) == 0
    text = capsys.readouterr().out
    lines = re.findall(r"^  \S.*?\s{2,}cgplan (.*)$", text, re.M)
    assert [line.split()[0] for line in lines] == ["check", "resolve", "plan"]
    for line in lines:
        assert run(line.split()) == 0
        assert capsys.readouterr().out
    assert "cgplan --help" in text
    assert "cgplan demo" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_line_without_a_command_is_told_to_have_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--", "vllm", "serve", "Qwen/Qwen3-8B"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error[CG905]: the command comes first, before -- [cgplan]; fix: cgplan check -- vllm serve ...\n"


def test_old_names_stand_for_names_of_today() -> None:
    for command, names in OLD_NAMES.items():
        known = {name for param in options(command) for name in param.opts}
        assert set(names.values()) <= known
        assert not set(names) & known
    assert current(["check", "--output=json", "x"]) == ["check", "--format=json", "x"]
    assert current(["check", "--output", "json"]) == ["check", "--format", "json"]
    assert current(["report", "--output", "r.md"]) == ["report", "--output", "r.md"]


def test_an_old_name_gives_what_the_new_one_gives(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    line = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "300"]
    answers = []
    for way in (["--output", "markdown"], ["--format", "markdown"], ["--markdown"]):
        assert run(["check", *way, *line]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0].startswith("#")
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    "line",
    [
        "plan --gpu h100", "diff --from 0.32", "logs --metrics x", "backends", "rules",
        "check -- vllm serve m", "tune --shape low",
    ],
)  # fmt: skip
def test_two_forms_on_one_stdout_are_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, rest = line.partition(" ")
    assert run([command, "--json", "--markdown", *rest.split()]) == 2
    assert "--json and --markdown exclude each other" in capsys.readouterr().err
