"""`cgplan demo`: each step shows what its line prints, and nothing else."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from conftest import hears_interrupts

from cgplan.cli import demo
from cgplan.cli.app import COMMANDS, run
from cgplan.demo import FILES, STEPS, Step, step_of, text_of
from cgplan.report.demo_text import cut

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No GPU, no settings of this folder, no network."""
    import socket

    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def refuse(*words: object, **more: object) -> None:
        raise AssertionError("the tour asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = run(["demo", *argv])
    out, err = capsys.readouterr()
    return status, out, err


def alone(step: Step, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """What the step's line says when it is typed."""
    if step.reads is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text_of(step.reads).encode()), "utf-8"))
    status = run(list(step.words))
    return status, capsys.readouterr().out


def test_the_tour_runs_in_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    begun = time.process_time()
    status, out, err = answer(capsys)
    assert (status, err) == (0, "")
    assert time.process_time() - begun < 10
    assert [line for line in out.splitlines() if line.startswith("$ ")] == [f"$ {demo.line_of(step)}" for step in STEPS]
    for number, step in enumerate(STEPS, 1):
        assert f"{number} of {len(STEPS)}  {step.shows[:40]}" in out
    assert "cgplan --help" in out.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_shows_what_its_line_prints(
    step: Step, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, typed = alone(step, capsys, monkeypatch)
    assert status == step.status
    assert step.words[0] == step.name
    assert step.name in COMMANDS
    _, full, _ = answer(capsys, "--step", step.name, "--full")
    assert f"\n\n{typed}" in full
    _, short, _ = answer(capsys, "--step", step.name)
    shown = short.partition("\n\n")[2].splitlines()
    left = next((line for line in shown if line.startswith("… ")), None)
    if left is None:
        assert full == short
        return
    end = shown.index(left)
    assert shown[:end] == typed.splitlines()[:end]
    assert left == f"… {len(typed.splitlines()) - end} more lines: cgplan demo --step {step.name} --full"


@pytest.mark.parametrize(
    ("step", "texts"),
    [
        ("check", ["CG921", "cudagraph_mode is lost", "exit status 1"]),
        ("resolve", ["FULL 1–96 · PIECEWISE 97–100", "98 decode requests   PIECEWISE  104 tokens", "CG705"]),
        ("plan", ["It starts.", "KV cache", "--max-num-seqs"]),
        (
            "logs",
            [
                "Did not start: CUDA out of memory",
                "CG509",
                "fix: --gpu-memory-utilization 0.92",
                "graphs, capture takes",
            ],
        ),
        ("tune", ["fewer tokens than with vLLM's default", "--cudagraph-capture-sizes ", "chosen"]),
        ("diff", ["FULL 1–100", "CG111", "To keep what 0.28.0 did"]),
    ],
)
def test_a_step_shows_what_it_says(step: str, texts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "--step", step)[1]
    for text in texts:
        assert text in out


def test_every_step_has_a_test_of_its_words() -> None:
    assert [step.name for step in STEPS] == ["check", "resolve", "plan", "logs", "tune", "diff"]


def test_the_list_has_the_steps_and_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "--list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines() if line[:1].isalpha()] == [step.name for step in STEPS]
    for name in FILES:
        assert f"--print {name}" in out


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "--print", name)
    assert (status, out) == (0, text_of(name))
    assert out.isascii()
    assert len(out) < 10_000


def test_the_log_is_lines_of_a_real_one() -> None:
    whole = (ROOT / "fixtures" / "logs" / "B01.txt").read_text(encoding="utf-8").splitlines()
    rest = iter(whole)
    assert all(line in rest for line in text_of("crash.log").splitlines())


def test_the_folder_has_no_other_files() -> None:
    found = {one.name for one in files("cgplan.demo").iterdir() if not one.name.startswith("__")}
    assert found == {"tour.py", *FILES}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--step plam", "the tour has no step plam [--step]; fix: did you mean plan?"),
        ("--step x", "fix: give one of check, resolve, plan, logs, tune, diff"),
        ("--print crash", "did you mean crash.log?"),
        ("--list --step plan", "--list and --step exclude each other"),
    ],
)
def test_wrong_usage(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, *shlex.split(line))
    assert (status, out) == (2, "")
    assert message in err


def test_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = answer(capsys, "--step", "plan")[1]
    assert max(len(line) for line in out.splitlines() if not line.startswith("$ ")) <= 60


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("plain", [True, False])
def test_colours_are_those_of_a_terminal(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if plain:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    assert run(["demo", "--step", "check"]) == 0
    assert ("\x1b[3" in screen.getvalue()) is not plain


@pytest.mark.parametrize(("keys", "steps"), [("\n\n\n\n\n", 6), ("\nq\n", 2), ("", 1)])
def test_pause_waits_for_enter(keys: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen: Any = Terminal()
    answers = Terminal(keys)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stdin", answers)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["demo", "--pause"]) == 0
    assert screen.getvalue().count("m$ cgplan ") + screen.getvalue().count("\n$ cgplan ") == steps


def test_pause_without_a_terminal_does_not_wait(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *words: pytest.fail("asked"))
    assert answer(capsys, "--pause")[0] == 0


@pytest.mark.parametrize("number", [0, 2, 5])
def test_ctrl_c_in_a_step_ends_the_tour(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, begun = demo._run, []

    def run_one(step: Step) -> tuple[int, list[str]]:
        begun.append(step)
        if step is not STEPS[number]:
            return kept(step)
        with monkeypatch.context() as patch:
            patch.setattr("cgplan.cli.app._invoke", interrupted)
            return kept(step)

    def interrupted(*words: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_run", run_one)
    status, out, err = answer(capsys)
    assert (status, err) == (130, "interrupted\n")
    assert begun == list(STEPS[: number + 1])
    assert "cgplan --help" not in out


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("shown", [1, 3])
def test_ctrl_c_is_heard_while_a_step_runs(shown: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cgplan", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, preexec_fn=hears_interrupts,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"{shown} of "):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert "cgplan --help" not in out


def test_a_step_that_ends_otherwise_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Step("gpus", "A step that cannot end so.", ("gpus",), status=1)
    monkeypatch.setattr("cgplan.demo.step_of", lambda name: broken)
    assert answer(capsys, "--step", "gpus")[0] == 1


def test_step_names_ignore_case() -> None:
    assert step_of(" Plan ").name == "plan"


def test_cut_leaves_no_blank_end_and_no_crumbs() -> None:
    assert cut(["a", "b", "c", "d"], 2) == (["a", "b", "c", "d"], 0)
    assert cut(["a", "", "c", "d", "e"], 2) == (["a"], 4)
