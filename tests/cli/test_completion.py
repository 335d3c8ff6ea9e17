"""Completion: what is offered, the protocol of the scripts, and the scripts in the shells that are here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cgplan.cli import complete
from cgplan.cli.app import COMMANDS, run
from cgplan.cli.complete import candidates
from cgplan.cli.completion import SHELLS
from cgplan.releases import SUPPORTED


def offered(*words: str, apart: bool = False) -> list[str]:
    return [candidate.word for candidate in candidates(words, apart)]


def needs(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


def test_commands() -> None:
    assert offered("") == [*COMMANDS, "--help", "--version"]
    assert offered("exp") == ["explain"]
    assert offered("nothing", "") == []


def test_options() -> None:
    found = offered("resolve", "--max-num")
    assert "--max-num-seqs" in found
    assert all(name.startswith("--max-num") for name in found)
    assert "--enforce-eager" in offered("resolve", "--en")
    assert "--no-enforce-eager" in offered("resolve", "--no-")
    assert "-cc" in offered("resolve", "-c")
    assert "-cc" not in offered("resolve", "--")


def test_an_option_that_was_given_is_not_offered_again() -> None:
    assert "--gpu" in offered("resolve", "--gp")
    assert "--gpu" not in offered("resolve", "--gpu", "h100", "--gp")
    assert "--env" in offered("resolve", "--env", "A=1", "--en")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("resolve", "--gpu", "h1"), "h100"),
        (("resolve", "--vllm", ""), SUPPORTED[0]),
        (("diff", "--from", "0.2"), "0.28.0"),
        (("resolve", "--model", "Qwen/Qwen3-8"), "Qwen/Qwen3-8B"),
        (("resolve", "qwen/qwen3-8"), "Qwen/Qwen3-8B"),
        (("resolve", "--backend", "FLASH"), "FLASHINFER"),
        (("resolve", "--attention-backend", "flash"), "FLASHINFER"),
        (("resolve", "--attention_backend", "flash"), "FLASHINFER"),
        (("resolve", "--cudagraph-mode", "FULL"), "FULL_DECODE_ONLY"),
        (("resolve", "--dtype", "b"), "bfloat16"),
        (("resolve", "--env", "VLLM_USE_V2"), "VLLM_USE_V2_MODEL_RUNNER="),
        (("resolve", "--software", "flash"), "flashinfer="),
        (("explain", "CG70"), "CG701"),
        (("schema", "res"), "resolve"),
        (("completion", ""), "fish"),
        (("check", "--select", "CG10"), "CG101"),
        (("check", "--select", "CG701,CG10"), "CG701,CG101"),
        (("check", "--select=CG701,CG10"), "--select=CG701,CG101"),
        (("resolve", "--gpu=h1"), "--gpu=h100"),
    ],
)
def test_values(words: tuple[str, ...], wanted: str) -> None:
    assert wanted in offered(*words)


def test_values_of_others_are_not_offered() -> None:
    assert "h100" not in offered("resolve", "--vllm", "")
    assert offered("resolve", "--max-num-seqs", "") == []
    assert "--gpu" not in offered("resolve", "--vllm", "")


def test_bash_takes_an_equals_sign_apart() -> None:
    assert "h100" in offered("resolve", "--gpu", "=", "h1", apart=True)
    assert "h100" in offered("resolve", "--gpu", "=", apart=True)
    assert "CG701,CG101" in offered("check", "--select", "=", "CG701,CG10", apart=True)
    assert "--gpu=h100" in offered("resolve", "--gpu=h1", apart=True)


def test_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy.yaml").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "a b.yaml").touch()
    for command in ("check", "resolve"):
        found = offered(command, "")
        assert {"deploy.yaml", "charts/"} <= set(found)
        assert ".hidden" not in found
    assert offered("check", "charts/") == ["charts/a b.yaml"]
    assert offered("check", ".h") == [".hidden"]
    assert offered("check", "nowhere/") == []
    assert "deploy.yaml" not in offered("explain", "")


def test_the_line_behind_the_dashes() -> None:
    assert offered("resolve", "--", "") == ["vllm"]
    assert offered("resolve", "--", "VLLM_USE_V2_MODEL_RUNNER=1", "vllm", "") == ["serve"]
    assert "--max-num-seqs" in offered("check", "--", "vllm", "serve", "x/y", "--max-num")
    assert "bfloat16" in offered("check", "--", "vllm", "serve", "x/y", "--dtype", "")
    assert "Qwen/Qwen3-8B" in offered("check", "--", "vllm", "serve", "Qwen/Qwen3-8")
    assert offered("check", "--", "ls", "-") == []


def test_flags_are_those_of_the_release() -> None:
    line = ("--", "vllm", "serve", "x/y", "--max-num-active")
    assert offered("check", "--vllm", "0.33.0", *line) == ["--max-num-active-seqs"]
    assert offered("check", "--vllm", "0.30.0", *line) == []


def test_a_shell_never_sees_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(words: object, apart: bool) -> list[complete.Candidate]:
        raise RuntimeError("no")

    monkeypatch.setattr(complete, "candidates", broken)
    assert complete.answer("zsh", ["resolve", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_what_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "candidates", lambda words, apart: [complete.Candidate("a b", "two\twords\n")])
    complete.answer("bash", ["check", ""])
    complete.answer("zsh", ["check", ""])
    assert capsys.readouterr().out == "a\\ b\ttwo words\na b\ttwo words\n"


def test_the_protocol() -> None:
    """The real program, as a script calls it."""
    for words, wanted in ((["resolve", "--gpu", "h100-"], "h100-nvl\t"), (["--ver"], "--version\t"), ([""], "check\t")):
        done = subprocess.run(
            [sys.executable, "-m", "cgplan", *words],
            capture_output=True, text=True, timeout=60, env={**os.environ, "_CGPLAN_COMPLETE": "zsh"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert wanted in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_read_by_their_shell(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_CGPLAN_COMPLETE=" + shell in script
    assert "VARIABLE" not in script
    path = tmp_path / "script"
    path.write_text(script)
    done = subprocess.run([needs(shell), "-n", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "zhs"]) == 2
    assert "did you mean zsh?" in capsys.readouterr().err


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`cgplan` as a program in a folder of its own."""
    path = tmp_path / "bin" / "cgplan"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cgplan "$@"\n')
    path.chmod(0o755)
    return path


def test_bash(program: Path, tmp_path: Path) -> None:
    (tmp_path / "a b.yaml").touch()
    script = f"""
        source <("{program}" completion bash)
        try() {{ COMP_WORDS=("{program}" "$@"); COMP_CWORD=$#; _cgplan; printf '%s\\n' "${{COMPREPLY[@]}}"; echo .; }}
        try resolve --gpu = h100-
        try expl
        try check a
        complete -p cgplan
    """
    done = subprocess.run(
        [needs("bash"), "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )  # fmt: skip
    assert done.stdout.split("\n.\n")[:3] == ["h100-pcie\nh100-nvl", "explain", "a\\ b.yaml"]
    assert "-F _cgplan cgplan" in done.stdout
    assert done.stderr == ""


def test_fish(program: Path) -> None:
    script = "cgplan completion fish | source; complete -C 'cgplan expl'; complete -C 'cgplan resolve --gpu h100-n'"
    done = subprocess.run(
        [needs("fish"), "--no-config", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split() == ["explain", "h100-nvl", "NVIDIA", "H100", "NVL"]
