"""Memory that ran out after the start: wherever the line stands and however it was filtered, the server is dead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgplan.inputs.vllm_logs.tracebacks import out_of_memory
from cgplan.startup.record import StartupLog

from . import written
from .written import engine, line

Read = Callable[..., StartupLog]
OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB."
LISTENS = "(APIServer pid=1) INFO:     Application startup complete."
ENGINE = line("init engine (profile, create kv cache, warmup model) took 36.07 s")
ANSWERED = '(APIServer pid=1) INFO:     10.1.2.3:40112 - "POST /v1/completions HTTP/1.1" 200 OK'
HEADS = {
    "vLLM's own": "(EngineCore pid=242) ERROR 10-01 10:05:21 [core.py:1025] ",
    "without file": "ERROR 10-01 10:05:21 ",
    "without date": "ERROR [core.py:1025] ",
    "of a process": "(EngineCore pid=242) ",
    "none": "",
    "with words": "(EngineCore pid=242) ERROR 10-01 10:05:21 [core.py:1025] Exception in a step: ",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("up", [[ENGINE], [LISTENS], [ENGINE, LISTENS], [ENGINE, LISTENS, ANSWERED]])
def test_a_server_that_was_up_died_at_work(up: list[str], head: str, read: Read) -> None:
    (one,) = read([engine("0.30.0"), *up, head + OUT]).starts
    assert one.crash is not None
    assert (one.crash.kind, one.crash.step, one.crash.message) == ("out_of_memory", "serving", OUT)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_before_it_is_up_it_did_not_start(head: str, read: Read) -> None:
    (one,) = read([engine("0.30.0"), head + OUT]).starts
    assert one.crash is not None
    assert one.crash.step == ""


def test_startup_complete_wins_over_a_missing_line_of_the_engine(read: Read) -> None:
    fatal = line("EngineCore encountered a fatal error.", level="ERROR")
    (one,) = read([engine("0.30.0"), LISTENS, fatal, line(OUT, level="ERROR")]).starts
    assert one.crash is not None
    assert (one.ready, one.crash.step) == (True, "serving")


def test_a_server_that_goes_on_has_outlived_it(read: Read) -> None:
    lines = [*written.v2_start(), ENGINE, LISTENS, line(OUT, level="ERROR")]
    assert read([*lines, *(ANSWERED for _ in range(20))]).starts[0].crash is not None
    assert read([*lines, *(ANSWERED for _ in range(150))]).starts[0].crash is None


@pytest.mark.parametrize(
    "said",
    [
        line(OUT, level="WARNING"),
        line("ValueError: no adapter of that name", level="ERROR"),
        "(APIServer pid=1) ERROR 10-01 10:05:21 [serving.py:10] " + OUT,
    ],
)
def test_what_is_no_end(said: str, read: Read) -> None:
    """A warning, another exception, and one of the API server, which is of a request."""
    assert read([engine("0.30.0"), ENGINE, LISTENS, said]).starts[0].crash is None


def test_a_server_that_was_told_to_end(read: Read) -> None:
    told = "(APIServer pid=1) INFO:     Shutting down"
    assert read([engine("0.30.0"), ENGINE, LISTENS, told, line(OUT, level="ERROR")]).starts[0].crash is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"worker 3: {OUT}", OUT),
        ("x RuntimeError: CUDA error: out of memory", "RuntimeError: CUDA error: out of memory"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried", "torch.OutOfMemoryError: HIP out of memory. Tried"),
        ("Out of memory: Killed process 7", None),
        ("the host is out of memory", None),
    ],
)
def test_the_words_within_a_line(said: str, told: str | None) -> None:
    assert out_of_memory(said) == told


def test_a_line_of_the_source_in_a_traceback_is_no_error() -> None:
    frame = '    raise RuntimeError("CUDA out of memory in " + name)'
    assert out_of_memory(frame, is_bare=True) is None
    assert out_of_memory(frame.strip(), is_bare=True) is not None
