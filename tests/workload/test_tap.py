"""Listening to a log as it passes: the same steps however the bytes are cut and wrapped."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_helpers import METRICS, row, table

from cgplan.workload.gathered import Gathered
from cgplan.workload.sources.tables import read_tables
from cgplan.workload.sources.tap import LONGEST, StepTap

TABLES = (METRICS / "tables-two-engines.log").read_bytes()
ITERATIONS = (METRICS / "iterations.log").read_bytes()


def heard(data: bytes, size: int = 1 << 18) -> Gathered | None:
    tap = StepTap()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(tap.through(pieces)) == data
    return tap.finish()


WHOLE = heard(TABLES)


@given(st.integers(1, 3000))
def test_where_pieces_are_cut_does_not_matter(size: int) -> None:
    assert heard(TABLES, size) == WHOLE


def test_both_engines_are_heard() -> None:
    assert WHOLE is not None
    assert [(part.name, part.workload.steps) for part in WHOLE.parts] == [("engine 0", 462), ("engine 1", 331)]


@pytest.mark.parametrize("wrap", ["docker", "cri", "compose", "colour", "json"])
def test_wrapped(wrap: str) -> None:
    lines = TABLES.decode().replace("\r\n", "\n").splitlines()
    forms = {
        "docker": lambda x: json.dumps({"log": x + "\r\n", "stream": "stdout", "time": "2026-11-30T05:00:00Z"}),
        "cri": lambda x: f"2026-11-30T05:00:00.1Z stdout F {x}",
        "compose": lambda x: f"web-1  | {x}",
        "colour": lambda x: f"\x1b[36m{x[:22]}\x1b[0;0m{x[22:]}",
        "json": lambda x: json.dumps({"asctime": "x", "levelname": "INFO", "message": x}),
    }
    found = heard("\n".join(forms[wrap](line) for line in lines).encode() + b"\n")
    assert found is not None
    assert WHOLE is not None
    assert [part.workload for part in found.parts] == [part.workload for part in WHOLE.parts]


def test_a_whole_table_in_one_json_line() -> None:
    message = "\n".join(table(row(7, 8, "FULL", 212)))
    line = json.dumps({"levelname": "INFO", "processName": "APIServer", "process": 5, "message": message})
    found = heard(line.encode())
    assert found is not None
    assert found.parts[0].workload.steps == 212


def test_iteration_lines_by_engine() -> None:
    found = heard(ITERATIONS)
    assert found is not None
    steps = {
        part.name: {(b.kind, b.tokens.low, b.query_len): b.count for b in part.workload.batches} for part in found.parts
    }
    assert steps == {
        "engine 1": {
            ("decode", 8, 1): 5,
            ("mixed", 218, None): 2,
            ("decode", 9, 1): 3,
            ("decode", 20, 4): 1,
            ("mixed", 18, None): 1,
        },
        "engine 0": {("decode", 3, 1): 4},
    }


def test_iterations_do_not_count_the_steps_of_tables_again() -> None:
    found = heard(TABLES + ITERATIONS)
    assert found is not None
    workload = found.together()
    assert workload is not None
    assert workload.steps == 793


def test_a_log_without_steps() -> None:
    assert heard(b"INFO 11-30 05:00:00 [core.py:1] nothing | here\n" * 50) is None


def test_endless_lines_are_dropped() -> None:
    found = heard(b"x" * (3 * LONGEST) + b"\n" + TABLES, size=1 << 18)
    assert found is not None
    assert found.parts == (WHOLE.parts if WHOLE else ())


def test_the_engine_is_named_in_an_earlier_piece() -> None:
    lines = TABLES.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b"Engine 001" in line)
    tap = StepTap()
    tap.feed(b"".join(lines[: at + 1]))
    tap.feed(b"".join(lines[at + 1 :]))
    assert tap.finish() == WHOLE


def test_a_long_log_without_tables_costs_little() -> None:
    piece = b'(APIServer pid=4) INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 3000
    tap = StepTap()
    begin = time.process_time()
    for _ in range(100):
        tap.feed(piece)
    assert time.process_time() - begin < 1.0  # 24 MB


def test_the_quick_way_reads_what_the_slow_way_reads() -> None:
    slow = read_tables(TABLES.decode().splitlines())
    assert WHOLE is not None
    assert WHOLE.parts == slow.parts
