"""A closed stdout, a full disk, a closed stderr: one line or none, and a status that tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CGPLAN = f"{sys.executable} -m cgplan"
FULL = Path("/dev/full")
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


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_an_error_that_cannot_be_said_keeps_its_status() -> None:
    assert shell("resolve --gpu x 2>/dev/full").returncode == 2
