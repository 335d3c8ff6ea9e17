"""A sweep that was interrupted and goes on is one sweep; processes and the order of options change nothing."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_helpers import BASE, SMALL, grid, records_of

from cgplan.errors import CgplanError
from cgplan.sweep import evaluate, local
from cgplan.sweep.record_file import RecordFile
from cgplan.sweep.run import Sweep

WHOLE = records_of(SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps")


def swept(path: Path, most: int | None = None, document: dict[str, Any] = SMALL) -> int:
    """Sweep into `path`, up to so many chunks. Returns the number of records worked out."""
    done = 0
    with RecordFile(str(path)) as file:
        for number, more in enumerate(Sweep(grid(document), file).run(), 1):
            done += more
            if number == most:
                break
    return done


@settings(max_examples=20)
@given(stops=st.lists(st.integers(1, 4), max_size=4), torn=st.integers(0, 60))
def test_interrupted_and_gone_on_with_it_is_one_sweep(folder: Path, stops: list[int], torn: int) -> None:
    path = folder / "records.jsonl"
    path.unlink(missing_ok=True)
    worked_out = 0
    for most in stops:
        worked_out += swept(path, most)
        if torn and path.stat().st_size:
            raw = path.read_bytes()
            with path.open("ab") as file:
                file.write(raw[:torn])  # the beginning of a record: its process was ended
    worked_out += swept(path)
    with RecordFile(str(path)) as records:
        found = [record for _, record in records.records()]
    assert worked_out == len(found) == len(WHOLE), "nothing is worked out twice"
    assert {record["key"]: record for record in found} == WHOLE


def test_all_there_nothing_is_worked_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "all.jsonl"
    swept(path)
    before = path.read_bytes()
    monkeypatch.setattr(evaluate.Evaluator, "record", None)
    assert swept(path) == 0
    assert path.read_bytes() == before


def test_a_larger_grid_works_out_what_is_new(folder: Path) -> None:
    path = folder / "larger.jsonl"
    swept(path)
    larger = {**SMALL, "grid": {**SMALL["grid"], "max_num_seqs": [16, 256, 512]}}
    assert swept(path, document=larger) == grid(larger).count - grid(SMALL).count


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_the_order_of_options_and_values_changes_no_record(order: random.Random) -> None:
    names = list(SMALL["grid"])
    order.shuffle(names)
    shuffled = {name: order.sample(SMALL["grid"][name], len(SMALL["grid"][name])) for name in names}
    assert records_of({**SMALL, "grid": shuffled}) == WHOLE


def test_several_processes_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgplan.sweep.run.INLINE", 0)
    assert records_of(SMALL, jobs=2) == WHOLE


def crew(monkeypatch: pytest.MonkeyPatch, deaths: int) -> tuple[dict[str, int], list[str]]:
    """Work in two processes, of which the first `deaths` that take a chunk are ended by the system."""
    told = {"hired": 0}
    hire = local._Crew._hire

    def hire_and_end(self: Any) -> None:
        hire(self)
        told["hired"] += 1
        if told["hired"] <= deaths:
            pid = self._hired[-1].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(local._Crew, "_hire", hire_and_end)
    found = grid(SMALL)
    numbers = list(found.numbers())
    chunks = [numbers[at : at + 8] for at in range(0, len(numbers), 8)]
    return told, [line for lines in local.run_here(found, chunks, 2) for line in lines]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_process_that_is_ended_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told, lines = crew(monkeypatch, deaths=3)
    assert told["hired"] > 3
    assert len(lines) == len(set(lines)) == len(WHOLE)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_processes_that_are_always_ended_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CgplanError) as caught:
        crew(monkeypatch, deaths=1000)
    assert caught.value.code == "CG737"
    assert f"{len(WHOLE)} deployments" in caught.value.message


def test_a_sweep_that_is_left_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    found = grid({"base": BASE, "grid": {"max_num_seqs": list(range(1, 60))}})
    hired: list[Any] = []
    hire = local._Crew._hire

    def seen(self: Any) -> None:
        hire(self)
        hired.append(self._hired[-1])

    monkeypatch.setattr(local._Crew, "_hire", seen)
    results = local.run_here(found, [[number] for number in found.numbers()], 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(hired) == 2
    assert not any(process.is_alive() for process in hired)
