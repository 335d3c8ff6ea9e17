"""Settings of all tests: hypothesis profiles, and the way to tools/."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))


def hears_interrupts() -> None:
    """In a new process: a shell that runs the tests in the background has it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("dev", max_examples=150, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE, database=None
)
settings.register_profile("deep", max_examples=1500, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command line: (exit status, stdout, stderr)."""
    from cgplan.cli.app import run

    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call
