"""`cgplan sweep`: what it prints and writes, its exit status, what it refuses, and that it goes on where it stopped."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import hears_interrupts

from cgplan.cli.app import run

Run = Callable[..., tuple[int, str, str]]
GRID = """\
[base]
model = "Qwen/Qwen3-8B"
gpu = "h100"

[grid]
max_num_seqs = [16, 256]
tensor_parallel_size = [1, 3]
cudagraph_mode = ["default", "NONE"]

[[exclude]]
tensor_parallel_size = 3
cudagraph_mode = "NONE"
"""
LARGE = """\
[base]
model = "Qwen/Qwen3-8B"
gpu = "h100"
[grid]
max_num_seqs = {seqs}
max_model_len = [4096, 8192, 16384, 32768]
"""


@pytest.fixture
def grid(tmp_path: Path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return str(path)


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "110")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(["sweep", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_the_screen_counts_names_and_compares(cgplan: Run, grid: str) -> None:
    status, out, err = cgplan(grid)
    assert (status, err) == (0, "")
    assert out.startswith("6 deployments: 4 start, 2 do not start\n")
    assert "x 2" in out, "the code of a refusal and how often"
    assert "Qwen/Qwen3-8B on h100" in out
    assert "seqs=256" in out
    assert "tp=3" not in out


def test_records_are_json_lines(cgplan: Run, grid: str) -> None:
    status, out, err = cgplan(grid, "--json")
    assert (status, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 6
    assert len({tuple(record) for record in records}) == 1, "the same columns in each"
    assert {record["starts"] for record in records} == {"yes", "no"}
    assert all((record["code"] is None) == (record["starts"] == "yes") for record in records)
    assert cgplan(grid, "--output", "-") == (0, out, "")


def test_the_same_records_in_files(cgplan: Run, grid: str, tmp_path: Path) -> None:
    lines, table = tmp_path / "records.jsonl", tmp_path / "records.csv"
    assert cgplan(grid, "-o", str(lines), "--csv", str(table), "--jobs", "1")[0] == 0
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{key: "" if value is None else str(value) for key, value in one.items()} for one in records] == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "records.csv", "records.jsonl"]


def test_it_goes_on_where_it_stopped(cgplan: Run, grid: str, tmp_path: Path) -> None:
    lines = tmp_path / "records.jsonl"
    screen = cgplan(grid, "-o", str(lines))[1]
    whole = lines.read_text()
    lines.write_text(whole[: len(whole) // 2])
    kept = whole[: len(whole) // 2].count("\n")
    status, out, err = cgplan(grid, "-o", str(lines))
    assert (status, out) == (0, screen)
    assert err == f"{kept} of 6 records were in {lines} already\n"
    assert lines.read_text() == whole


def test_a_table_is_written_in_full_from_records_that_were_there(cgplan: Run, grid: str, tmp_path: Path) -> None:
    lines, table = str(tmp_path / "records.jsonl"), tmp_path / "records.csv"
    cgplan(grid, "-o", lines)
    cgplan(grid, "-o", lines, "--csv", str(table))
    assert len(table.read_text().splitlines()) == 7


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_keeps_what_is_done(tmp_path: Path, end: signal.Signals) -> None:
    path, lines = tmp_path / "grid.toml", tmp_path / "records.jsonl"
    path.write_text(LARGE.format(seqs=list(range(1, 1001))))
    command = [sys.executable, "-m", "cgplan", "sweep", str(path), "-o", str(lines), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_interrupts
    )
    until = time.monotonic() + 60
    while not (lines.exists() and lines.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(end)
    out, err = process.communicate(timeout=60)
    kept = lines.read_bytes().count(b"\n")
    assert 0 < kept < 4000
    assert out == ""
    if end is not signal.SIGKILL:
        assert process.returncode == 130
        assert err == f"interrupted: {kept:,} of 4,000 deployments are done; start it again and it goes on\n"
    path.write_text(LARGE.format(seqs=list(range(1, 201))))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.startswith("800 deployments: ")
    keys = [json.loads(line)["key"] for line in lines.read_text().splitlines()]
    assert len(keys) == len(set(keys)), "nothing was worked out twice"


BAD = [
    (["nowhere.toml"], "CG910", "give the TOML file of a grid"),
    (["{grid}", "--jobs", "0"], "CG903", "give 1 or more"),
    (["{grid}", "--jobs", "two"], "CG906", None),
    (["{grid}", "-o", "{grid}"], "CG907", "name two files"),
    (["{grid}", "-o", "{folder}/a", "--csv", "{folder}/a"], "CG907", "name two files"),
    (["{grid}", "-o", ""], "CG906", "drop -o"),
    (["{grid}", "-o", "{folder}"], "CG910", "name a file that can be written"),
    (["{grid}", "-o", "{folder}/notes.txt"], "CG736", "name another file"),
    (["{grid}", "--csv", "{folder}"], "CG910", "name a file that can be written"),
    (["{grid}", "--csv", "{folder}/none/a.csv"], "CG910", "name a file that can be written"),
    (["{grid}", "--ray", "127.0.0.1:1"], "CG738", None),
    ([], "CG905", None),
    (["{grid}", "--job", "2"], "CG905", "--jobs"),
]


@pytest.mark.parametrize(("words", "code", "fix"), BAD)
def test_bad_input_is_one_line(
    cgplan: Run, grid: str, tmp_path: Path, words: list[str], code: str, fix: str | None
) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    status, out, err = cgplan(*(word.format(grid=grid, folder=tmp_path) for word in words))
    assert (status, out) == (2, "")
    assert err.startswith(f"error[{code}]: ")
    assert err.count("\n") == 1
    if fix is not None:
        assert fix in err
    assert (tmp_path / "notes.txt").read_text() == "hello\n"
    assert Path(grid).read_text() == GRID


def test_the_place_in_the_grid_is_said(cgplan: Run, grid: str) -> None:
    Path(grid).write_text(GRID.replace("[16, 256]", '[16, "many"]'))
    status, _, err = cgplan(grid)
    assert status == 2
    assert err == (
        f"error[CG903]: {grid}: grid.max_num_seqs[1]: 'many' is no whole number above 0; fix: give one, or 8k\n"
    )


def test_profiles_are_kept_and_gone_on_with(
    cgplan: Run, grid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def measured(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command)
        document = {"error": {"code": "CG992", "message": "too little"}} if "256" in command else {"captured": []}
        return SimpleNamespace(stdout=json.dumps(document))

    monkeypatch.setattr("cgplan.sweep.profile_jobs.subprocess.run", measured)
    path = tmp_path / "profiles.jsonl"
    status, out, err = cgplan(grid, "--profile", str(path))
    # Of the four that start two have graphs.
    assert (status, err) == (0, "2 profiles, 1 of them failed: its record says why\n")
    assert out.startswith("6 deployments: 4 start")
    assert len(asked) == 2
    lines = path.read_text().splitlines()
    path.write_text(lines[0] + "\n" + lines[1][:30])
    assert cgplan(grid, "--profile", str(path))[0] == 0
    assert path.read_text().splitlines() == lines
    assert len(asked) == 3, "what is there is not measured again"
    assert cgplan(grid, "-o", str(path))[2].startswith("error[CG736]"), "profiles are no records of a sweep"
