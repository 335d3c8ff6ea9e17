"""Parts of a start whose seconds no line says: the time between two lines; and what the parts add up to."""

from __future__ import annotations

import io

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.inputs.vllm_logs.clock import seconds_between
from cgplan.report.logs_words import phases, sum_line
from cgplan.startup.record import Start


def at(time: str, message: str, process: str = "EngineCore pid=9") -> str:
    return f"({process}) INFO {time} [core.py:1] {message}"


def read(*lines: str) -> Start:
    (found,) = read_log(io.BytesIO("".join(f"{text}\n" for text in lines).encode())).starts
    return found


BANNER = at("05-05 10:00:00", " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.27.1", "APIServer pid=1")
PROFILING = "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)"
ESTIMATED = "Estimated CUDA graph memory: 0.27 GiB total"
INIT = "init engine (profile, create kv cache, warmup model) took {} s (compilation: 10.78 s)"
READY = "Starting vLLM server on http://0.0.0.0:8000"


def parts(start: Start) -> dict[str, float]:
    return {phase.name: round(phase.seconds, 2) for phase in phases(start)}


@pytest.mark.parametrize(
    ("first", "last", "seconds"),
    [
        ("05-05 10:00:20", "05-05 10:00:52", 32.0), ("05-05 23:59:50", "05-06 00:00:10", 20.0),
        ("12-31 23:59:50", "01-01 00:00:10", 20.0), ("02-29 23:59:59", "03-01 00:00:00", 1.0),
        ("05-05 10:00:20", "05-05 10:00:19", None), ("05-05 10:00:20", "05-07 10:00:20", None),
        ("", "05-05 10:00:20", None), ("13-01 10:00:00", "13-01 10:00:01", None),
    ],
)  # fmt: skip
def test_the_time_between_two_stamps(first: str, last: str, seconds: float | None) -> None:
    assert seconds_between(first, last) == seconds


class TestTheEstimate:
    def test_a31_is_the_time_between_its_lines(self) -> None:
        found = read(BANNER, at("05-05 10:00:20", PROFILING), at("05-05 10:00:52", ESTIMATED))
        assert parts(found) == {"graph estimate": 32.0}

    def test_is_of_one_process(self) -> None:
        found = read(
            BANNER,
            at("05-05 10:00:20", PROFILING, "Worker_TP0 pid=2"),
            at("05-05 10:00:30", PROFILING, "Worker_TP1 pid=3"),
            at("05-05 10:00:34", ESTIMATED, "Worker_TP1 pid=3"),
            at("05-05 10:00:52", ESTIMATED, "Worker_TP0 pid=2"),
        )
        assert [(one.rank, one.seconds) for one in found.phases] == [("TP1", 4.0), ("TP0", 32.0)]

    def test_without_its_first_line_is_not_known(self) -> None:
        assert parts(read(BANNER, at("05-05 10:00:52", ESTIMATED))) == {}

    @pytest.mark.parametrize(("release", "profile"), [("0.26.0", 6.0), ("0.27.1", 38.0)])
    def test_is_within_the_profile_run_until_0_26(self, release: str, profile: float) -> None:
        end = "total consumed (from mem_get_info): 4.0GiB" if release == "0.27.1" else "non-torch forward increase memory: 0.1GiB"  # fmt: skip  # noqa: E501
        usage = f"Memory profiling takes 48.00 seconds. Total non KV cache memory: 4.0GiB; torch peak memory increase: 1.0GiB; {end}; weights memory: 3.0GiB."  # fmt: skip  # noqa: E501
        found = read(
            BANNER.replace("0.27.1", release), at("05-05 10:00:10", "torch.compile took 10.00 s in total"),
            at("05-05 10:00:20", PROFILING), at("05-05 10:00:52", ESTIMATED), at("05-05 10:00:52", usage),
        )  # fmt: skip
        assert parts(found)["profile"] == profile


class TestTheSum:
    ENGINE = (
        at("05-05 10:00:08", "Model loading took 2.50 GiB memory and 5.000000 seconds"),
        at("05-05 10:00:12", "Dynamo bytecode transform time: 4.00 s"),
        at("05-05 10:00:20", "torch.compile took 10.00 s in total"),
        at("05-05 10:00:30", "Graph capturing finished in 3 secs, took 0.30 GiB"),
        at("05-05 10:00:31", INIT.format("20.00")),
    )

    def test_the_engines_time_and_the_load(self) -> None:
        found = read(BANNER, *self.ENGINE)
        assert parts(found) == {"load": 5.0, "dynamo": 4.0, "compile": 6.0, "capture": 3.0, "not in the log": 7.0}
        assert sum_line(found) == "in all 25.0 s: the engine's own 20.0 s, and load 5.0 s"

    def test_until_the_server_listens(self) -> None:
        found = read(BANNER, *self.ENGINE, at("05-05 10:00:58", READY, "APIServer pid=1"))
        assert found.seconds == 58.0
        assert parts(found)["not in the log"] == 40.0
        assert sum(parts(found).values()) == 58.0
        assert sum_line(found) == "in all 58.0 s: from the first line until the server listened"

    def test_parts_that_add_up_have_no_rest(self) -> None:
        found = read(BANNER, self.ENGINE[2], at("05-05 10:00:31", INIT.format("10.20")))
        assert parts(found) == {"compile": 10.0}

    def test_is_not_said_where_the_log_does_not(self) -> None:
        found = read(BANNER, *self.ENGINE[:3])
        assert "not in the log" not in parts(found)
        assert sum_line(found) == ""
