"""Which exception a start ended with, out of all that its processes printed about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgplan.startup.record import StartupLog

from . import written
from .written import engine, line

Read = Callable[..., StartupLog]
NO_ROOM = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."


def traceback(exception: str, process: str = "EngineCore", pid: int = 242, level: str = "ERROR") -> list[str]:
    frames = (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3/vllm/v1/engine/core.py", line 1108, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, **kwargs)",
        "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    )
    return [line(text, process, pid, level) for text in (*frames, *exception.split("\n"))]


API = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"


def test_the_root_is_told_and_not_what_reports_it(read: Read) -> None:
    log = read([engine("0.25.1"), *traceback(NO_ROOM), *traceback(API, "APIServer", 1)[1:]])
    (start,) = log.starts
    assert start.crash is not None
    assert (start.crash.message, start.crash.rank) == (NO_ROOM, "EngineCore")
    assert start.crash.place.line == 7
    assert start.crash.chain == (NO_ROOM, API)
    assert [message.text for message in start.messages] == ["EngineCore failed to start.", NO_ROOM, API]


def test_a_worker_is_nearer_to_the_root_than_its_engine(read: Read) -> None:
    wrapped = "Exception: WorkerProc initialization failed due to an exception in a background process."
    out = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 1 has 79.19 GiB"
    log = read(
        [
            engine("0.25.1", tensor_parallel_size=2),
            *traceback(out, "Worker_TP1", 12),
            *traceback(wrapped),
            f"(APIServer pid=1) {API}",
        ]
    )
    crash = log.starts[0].crash
    assert crash is not None
    assert (crash.message, crash.rank, len(crash.chain)) == (out, "TP1", 3)


@pytest.mark.parametrize(
    "exception",
    [
        "AssertionError",
        "AssertionError: Error in memory profiling. Initial free memory 70.0 GiB, current free memory 71.0 GiB.",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        "[rank0]: ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (161).",
        "KeyboardInterrupt",
    ],
)
@pytest.mark.parametrize("with_prefix", [True, False])
def test_exceptions_by_their_last_line(exception: str, with_prefix: bool, read: Read) -> None:
    told = traceback(exception)[1:] if with_prefix else ["Traceback (most recent call last):", "  File x", exception]
    crash = read([engine("0.25.1"), *told]).starts[0].crash
    assert crash is not None
    assert crash.message == exception.removeprefix("[rank0]: ")


def test_an_exception_that_the_process_outlives_is_no_crash(read: Read) -> None:
    log = read(
        [
            engine("0.25.1"),
            line("NVLink detection failed.", level="ERROR"),
            *traceback("pynvml.NVMLError: Not Supported")[1:],
            line("Available KV cache memory: 1.0 GiB"),
        ]
    )
    assert log.starts[0].crash is None
    assert [message.text for message in log.starts[0].messages] == [
        "NVLink detection failed.",
        "pynvml.NVMLError: Not Supported",
    ]


def test_an_error_of_a_request_is_no_crash(read: Read) -> None:
    log = read([*written.v2_start(), *traceback("ValueError: prompt too long", "APIServer", 1)[1:]])
    assert log.starts[0].crash is None
    assert [message.text for message in log.starts[0].messages] == ["ValueError: prompt too long"]


def test_an_engine_that_dies_while_it_serves_has_crashed(read: Read) -> None:
    died = [line("EngineCore encountered a fatal error.", level="ERROR"), *traceback("RuntimeError: CUDA error")[1:]]
    crash = read([*written.v2_start(), *died]).starts[0].crash
    assert crash is not None
    assert crash.message == "RuntimeError: CUDA error"


def test_the_crash_belongs_to_its_start(read: Read) -> None:
    log = read([*written.banner("0.25.1"), engine("0.25.1"), *traceback(NO_ROOM), *written.v2_start()])
    assert [start.crash is None for start in log.starts] == [False, True]


def test_what_is_printed_often_is_counted(read: Read) -> None:
    said = [line("Unknown vLLM environment variable detected: VLLM_X", f"Worker_TP{n}", n, "WARNING") for n in range(8)]
    (message,) = read(said).starts[0].messages
    assert (message.count, message.rank, message.place.line) == (8, "TP0", 1)


def test_a_crash_loop_keeps_its_first_and_its_last_starts(read: Read) -> None:
    loop = [text for _ in range(300) for text in (engine("0.25.1", pid=_ + 1000), *traceback(NO_ROOM, pid=_ + 1000))]
    log = read(loop)
    assert len(log.starts) == 200
    assert log.starts[0].first_line == 1
    assert log.starts[-1].last_line == log.lines
    assert log.remarks == ("100 starts between the first 20 and the last were left out",)
