"""Servers that came up, served and died: which line is told, and of which step it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgplan.startup.record import Crash, StartupLog

from . import written
from .written import engine, line

Read = Callable[..., StartupLog]
SERVED = [
    '(APIServer pid=1) INFO:     10.1.2.3:40112 - "POST /v1/completions HTTP/1.1" 200 OK',
    line("Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 8.0 tokens/s", "APIServer", 1),
]
OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 MiB."
DEAD = (
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root"
    " cause."
)


def frame(path: str, name: str) -> str:
    return f'  File "/opt/venv/lib/python3.12/site-packages/{path}", line 7, in {name}'


STEP = (
    frame("vllm/v1/engine/core.py", "run_busy_loop"),
    frame("vllm/v1/engine/core.py", "_process_engine_step"),
    frame("vllm/v1/worker/gpu_worker.py", "execute_model"),
    frame("vllm/model_executor/layers/fla/ops/chunk_delta_h.py", "chunk_gated_delta_rule_fwd_h"),
    frame("torch/_tensor.py", "new_empty"),
)


def raised(exception: str, *frames: str, process: str = "EngineCore", pid: int = 242) -> list[str]:
    return [line(text, process, pid, "ERROR") for text in ("Traceback (most recent call last):", *frames, exception)]


def crash(log: StartupLog) -> Crash:
    (one,) = log.starts
    assert one.crash is not None
    return one.crash


FATAL = line("EngineCore encountered a fatal error.", level="ERROR")


def test_the_step_and_the_function_of_vllm_are_told(read: Read) -> None:
    found = crash(read([*written.v2_start(), *SERVED, FATAL, *raised(OUT, *STEP)]))
    assert (found.message, found.step, found.function) == (OUT, "serving", "chunk_gated_delta_rule_fwd_h")


def test_frames_tell_it_where_no_line_says_that_it_served(read: Read) -> None:
    found = crash(read([engine("0.30.0"), FATAL, *raised(OUT, *STEP)]))
    assert found.step == "serving"


def test_a_warm_up_runs_the_model_as_well(read: Read) -> None:
    """The frames of a step within those of the start are of the start."""
    inside = (frame("vllm/v1/worker/gpu_worker.py", "compile_or_warm_up_model"), *STEP[2:])
    found = crash(read([engine("0.30.0"), line("EngineCore failed to start.", level="ERROR"), *raised(OUT, *inside)]))
    assert (found.step, found.function) == ("start-up", "chunk_gated_delta_rule_fwd_h")


def test_a_profile_run_is_none_of_serving(read: Read) -> None:
    inside = (frame("vllm/v1/worker/gpu_model_runner.py", "profile_run"), *STEP[2:])
    assert crash(read([engine("0.30.0"), *raised(OUT, *inside)])).step == "profiling"


def test_the_exception_of_a_worker_goes_before_those_that_report_it(read: Read) -> None:
    told = "RuntimeError: Worker failed with error 'CUDA out of memory', please check the stack trace above"
    worker = [line("WorkerProc hit an exception.", "Worker_TP1", 9, "ERROR")]
    worker += raised(OUT, STEP[2], process="Worker_TP1", pid=9)
    log = read(
        [
            *written.v2_start(),
            *SERVED,
            *worker,
            FATAL,
            *raised(told, *STEP[:2]),
            *raised(DEAD, process="APIServer", pid=1),
        ]
    )
    found = crash(log)
    assert (found.message, found.rank, found.step) == (OUT, "TP1", "serving")
    assert found.chain == (OUT, told, DEAD)


def test_the_engine_is_gone_and_nothing_says_why(read: Read) -> None:
    found = crash(read([*written.v2_start(), *SERVED, *raised(DEAD, process="APIServer", pid=1)]))
    assert (found.kind, found.step, found.message) == ("wrapper", "serving", DEAD)


def test_a_process_that_was_killed_goes_before_what_reports_it(read: Read) -> None:
    died = line("Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", level="ERROR")
    found = crash(read([*written.v2_start(), *SERVED, died, *raised(DEAD, process="APIServer", pid=1)]))
    assert (found.kind, found.step, found.values["exit_code"]) == ("process_died", "serving", -9)


@pytest.mark.parametrize("stop", ["Shutting down", "[shutdown] MPClient: start timeout=5s"])
def test_a_server_that_was_told_to_end_has_not_crashed(stop: str, read: Read) -> None:
    died = line("Engine core proc EngineCore died unexpectedly, shutting down client.", level="ERROR")
    told = f"(APIServer pid=1) INFO:     {stop}" if stop == "Shutting down" else line(stop, "APIServer", 1)
    assert (
        read([*written.v2_start(), *SERVED, told, died, *raised(DEAD, process="APIServer", pid=1)]).starts[0].crash
        is None
    )
    assert read([*written.v2_start(), *SERVED, died, told]).starts[0].crash is not None


def test_an_exception_that_the_engine_outlived_is_not_its_end(read: Read) -> None:
    early = raised("ValueError: no adapter of that name", frame("vllm/lora/worker_manager.py", "add_adapter"))
    lines = [*written.v2_start(), *SERVED, *early, *(SERVED[0] for _ in range(1200)), FATAL, *raised(OUT, *STEP)]
    assert crash(read(lines)).chain == (OUT,)
    near = [*written.v2_start(), *SERVED, *early, *SERVED, FATAL, *raised(OUT, *STEP)]
    assert len(crash(read(near)).chain) == 2


def test_an_exception_of_a_request_is_no_end(read: Read) -> None:
    log = read([*written.v2_start(), *SERVED, *raised("ValueError: prompt too long", process="APIServer", pid=1)])
    assert log.starts[0].crash is None


def test_requests_of_a_server_before_are_not_of_the_next_start(read: Read) -> None:
    """A log that begins at the end of one server and goes on with the next."""
    failed = raised("ValueError: No available memory for the cache blocks.")
    log = read([*SERVED, *written.banner("0.30.0", pid=7), engine("0.30.0", pid=8), *failed])
    assert log.starts[-1].crash is not None
    assert log.starts[-1].crash.step == ""


def test_words_of_a_prompt_are_not_read(read: Read) -> None:
    asked = (
        "INFO 09-30 12:00:00 [logger.py:40] Received request cmpl-1: prompt: 'EngineCore encountered a fatal error.'"
    )
    log = read([*written.v2_start(), f"(APIServer pid=1) {asked}"])
    assert log.starts[0].crash is None


def test_the_platform_of_a_plugin(read: Read) -> None:
    said = "INFO 09-30 12:00:00 [__init__.py:217] Platform plugin acme_npu is activated"
    assert read([said, *written.v2_start()[6:]]).starts[0].platform_plugin == "acme_npu"
    assert read(written.v2_start()).starts[0].platform_plugin is None


def test_a_server_that_answers_was_ready(read: Read) -> None:
    log = read([line("something to know", level="WARNING"), *SERVED])
    assert log.starts[0].ready
    assert not read([line("something to know", level="WARNING")]).starts[0].ready
