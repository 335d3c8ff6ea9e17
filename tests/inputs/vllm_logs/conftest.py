from __future__ import annotations

import io
from collections.abc import Callable, Iterable

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.startup.record import StartupLog


@pytest.fixture
def read() -> Callable[[Iterable[str] | bytes], StartupLog]:
    """Reads lines, or bytes, as a log."""

    def reading(log: Iterable[str] | bytes) -> StartupLog:
        data = log if isinstance(log, bytes) else "".join(f"{line}\n" for line in log).encode()
        return read_log(io.BytesIO(data))

    return reading
