"""A closed stdout, a full disk, a closed stderr: one line or none, and a status that tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import hears_interrupts

CGPLAN = f"{sys.executable} -m cgplan"
FULL = Path("/dev/full")
QWEN = "--model Qwen/Qwen3-8B --gpu h100"
COMMANDS = ("resolve --gpu h100", "resolve --json --gpu h100", "--help", "--version", "schema", "models", "gpus")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", f"{CGPLAN} {line}"], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", COMMANDS)
class TestStdout:
    def test_closed(self, command: str) -> None:
        done = shell(f"{command} >&-")
        assert (done.returncode, done.stderr) == (74, "cannot write output: Bad file descriptor\n")

    @pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
    def test_full(self, command: str) -> None:
        done = shell(f"{command} >/dev/full")
        assert (done.returncode, done.stderr) == (74, "cannot write output: No space left on device\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("resolve --gpu x 2>&-", 2),
        ("resolve --gpu x >&-", 2),
        ("resolve --gpu x >&- 2>&-", 2),
        ("resolve --gpu h100 2>&-", 0),
        ("resolve --gpu h100 <&- >&- 2>&-", 74),
        ("resolve --json --gpu x >&-", 74),
    ],
)
def test_what_is_closed_does_not_change_the_status_of_the_rest(line: str, status: int) -> None:
    done = shell(line)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    "line", ["logs -", "check -", "check", "plan -", f"tune {QWEN} --workload -", f"plan {QWEN} --profile -"]
)
def test_a_closed_stdin_is_an_empty_one(line: str) -> None:
    done = shell(f"{line} <&-")
    assert done.returncode == 2
    assert "error[CG" in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_an_error_that_cannot_be_said_keeps_its_status() -> None:
    assert shell("resolve --gpu x 2>/dev/full").returncode == 2


SMALL_DISK = [
    f"report {QWEN} --output r.md",
    "sweep grid.toml --output r.jsonl --jobs 1",
    "sweep grid.toml --csv r.csv --jobs 1",
    "check --fix --write launch.sh --gpu h100",
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
@pytest.mark.parametrize("line", SMALL_DISK)
def test_a_file_that_takes_no_more_is_the_same_everywhere(line: str, tmp_path: Path) -> None:
    grid = {"max_num_seqs": list(range(1, 40))}
    options = "\n".join(f"{name} = {value}" for name, value in grid.items())
    (tmp_path / "grid.toml").write_text(f'[base]\nmodel = "Qwen/Qwen3-8B"\ngpu = "h100"\n[grid]\n{options}\n')
    twice = "vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --max-num-seqs 256\n"
    (tmp_path / "launch.sh").write_text("#!/bin/sh\n" + "# as it was\n" * 500 + twice)
    # Files end at 4 KiB, as on a disk that has no more: EFBIG.
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 8; PYTHONDONTWRITEBYTECODE=1 {CGPLAN} {line}"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 74, (done.stdout, done.stderr)
    said = [one for one in done.stderr.splitlines() if one.startswith("error[CG910]: ")]
    assert len(said) == 1, done.stderr
    assert "cannot be written: file too large" in said[0].casefold()
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_name_that_is_wrong_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('[base]\nmodel = "Qwen/Qwen3-8B"\ngpu = "h100"\n[grid]\nmax_num_seqs = [8]\n')
    for line in (
        f"report {QWEN} --output none/r.md",
        "sweep grid.toml -o none/r.jsonl",
        "sweep grid.toml --csv none/r",
    ):
        done = subprocess.run(
            ["sh", "-c", f"{CGPLAN} {line}"], capture_output=True, text=True, timeout=60, cwd=tmp_path
        )
        assert (done.returncode, done.stderr[:13]) == (2, "error[CG910]:"), line


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_device_is_no_place_for_records(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('[base]\nmodel = "Qwen/Qwen3-8B"\ngpu = "h100"\n[grid]\nmax_num_seqs = [8]\n')
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v 4000000; {CGPLAN} sweep grid.toml -o /dev/full"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, "error[CG910]: /dev/full cannot be written: it is no regular file; fix: name a file that can be written\n"
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "line", [f"tune {QWEN} --workload", f"report {QWEN} --markdown --workload", "logs", "check --gpu h100 --json"]
)
def test_ctrl_c_is_one_line(line: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "cgplan", *line.split(), str(pipe)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_interrupts
    )
    with pipe.open("w"):  # opens when the other end is read
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
