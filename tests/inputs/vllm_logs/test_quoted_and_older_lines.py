"""Lines of older releases, and lines that were quoted without their date."""

from __future__ import annotations

import io

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.inputs.vllm_logs.quoted import is_words
from cgplan.startup.record import Start

DATED = "INFO 07-30 07:10:58 "
BARE = "INFO "


def read(*lines: str) -> Start:
    (one,) = read_log(io.StringIO("".join(f"{line}\n" for line in lines))).starts
    return one


def seconds(one: Start) -> dict[str, float]:
    return {phase.name: phase.seconds for phase in one.phases}


class TestCompilation:
    RANGES = (
        f"{DATED}[backends.py:390] Compiling a graph for compile range (1, 8192) takes 70.00 s",
        f"{DATED}[backends.py:390] Compiling a graph for compile range (8193, 16384) takes 10.00 s",
    )

    def test_the_ranges_stand_in_for_a_total_that_is_not_there(self) -> None:
        assert seconds(read(*self.RANGES)) == {"compile": 80.0}

    def test_with_dynamos_time(self) -> None:
        found = read(f"{DATED}[backends.py:1] Dynamo bytecode transform time: 5.00 s", *self.RANGES)
        assert seconds(found) == {"dynamo": 5.0, "compile": 85.0}

    def test_the_total_counts_where_it_is_there(self) -> None:
        total = f"{DATED}[monitor.py:53] torch.compile took 91.50 s in total"
        assert seconds(read(*self.RANGES, total)) == {"compile": 91.5}

    @pytest.mark.parametrize(
        "words", ["torch.compile takes 85.00 s in total", "Compiling a graph for general shape takes 85.00 s"]
    )
    def test_older_wordings(self, words: str) -> None:
        assert seconds(read(f"{DATED}[monitor.py:34] {words}")) == {"compile": 85.0}

    def test_dynamo_alone_is_no_compilation(self) -> None:
        assert seconds(read(f"{DATED}[backends.py:1] Dynamo bytecode transform time: 5.00 s")) == {"dynamo": 5.0}


class TestWithoutTheDate:
    ADVICE = (
        "[gpu_worker.py:470] In v0.19, CUDA graph memory profiling will be enabled by default"
        " (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1), which more accurately accounts for CUDA graph memory during KV"
        " cache allocation. To try it now, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 and increase"
        " --gpu-memory-utilization from 0.9000 to 0.9690 to maintain the same effective KV cache size."
    )
    KV = "[gpu_worker.py:436] Available KV cache memory: 6.90 GiB"

    @pytest.mark.parametrize("head", [DATED, BARE, "(EngineCore pid=79) INFO "])
    def test_they_say_the_same(self, head: str) -> None:
        (rank,) = read(f"{head}{self.ADVICE}", f"{head}{self.KV}").ranks
        assert (rank.utilization, rank.raised_utilization, rank.kv_bytes) == (0.9, 0.969, round(6.9 * 2**30))

    def test_another_programs_line_is_no_head(self) -> None:
        log = read_log(io.StringIO("INFO [proxy:1] Available KV cache memory: 6.90 GiB\n"))
        assert not log.starts or not any(rank.places for one in log.starts if not one.is_part for rank in one.ranks)


class TestKernels:
    LINE = (
        f"{DATED}[flashinfer.py:822] FlashInfer resolved query dtypes: prefill=torch.float8_e4m3fn,"
        " decode=torch.float16, decode_backend=xqa, kv_cache_dtype=torch.float8_e4m3fn, arch=sm90"
    )

    def test_of_decode(self) -> None:
        assert read(self.LINE, f"{DATED}[a.py:1] Available KV cache memory: 1.00 GiB").decode_kernels == "xqa"

    def test_a_torn_line_gives_none(self) -> None:
        torn = self.LINE.replace("decode_backend=xqa, ", "")
        assert read(torn, f"{DATED}[a.py:1] Available KV cache memory: 1.00 GiB").decode_kernels is None


def test_a_warning_that_was_quoted_once_is_counted_once() -> None:
    said = "WARNING cudagraph_mode FULL is not supported with FlashInfer backend; setting cudagraph_mode=PIECEWISE"
    (message,) = read_log(io.StringIO(said)).starts[0].messages
    assert message.count == 1
    twice = read_log(io.StringIO(f"{said}\n{said}")).starts[0].messages
    assert [one.count for one in twice] == [2]


@pytest.mark.parametrize(
    ("name", "are"),
    [
        ("torch.cuda.OutOfMemoryError", True),
        ("No available memory for the cache blocks", True),
        ("Killed", False),
        ("OutOfMemoryError.log", False),
        ("logs/ValueError", False),
    ],
)
def test_what_is_taken_for_the_words_of_an_error(name: str, are: bool) -> None:
    assert is_words(name) == are
