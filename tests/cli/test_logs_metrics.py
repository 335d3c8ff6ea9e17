"""`cgplan logs` with steps: tables in the log, and --metrics."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.workload.document_schema import StepsPart

METRICS = Path(__file__).parents[2] / "fixtures" / "metrics"
LOG = str(METRICS / "tables-two-engines.log")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(["logs", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def steps(cgplan: Run, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cgplan(*words, "--json")[1])["workload"]
    StepsPart.model_validate(found)
    return found


def test_tables_of_the_log(cgplan: Run) -> None:
    text = cgplan(LOG, "--no-plan")[1]
    assert "2 engines · 793 steps · 3 tables of --cudagraph-metrics" in text
    assert [one["steps"] for one in steps(cgplan, LOG, "--no-plan")["engines"]] == [462, 331]


def test_held_against_the_deployment(cgplan: Run) -> None:
    sizes = "1,2,4,8,16,24,32,40,48,56,64"
    options = ["--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--max-num-seqs", "64"]
    found = steps(cgplan, LOG, *options, "--cudagraph-capture-sizes", sizes)
    assert found["resolved"]["by_kind"]["decode"]["steps"] == 740
    assert found["resolved"]["differences"] == []
    assert found["findings"][0]["code"] == "CG715"


def test_two_moments_of_metrics(cgplan: Run) -> None:
    moments = [word for name in ("moment-1.txt", "moment-2.txt") for word in ("--metrics", str(METRICS / name))]
    found = steps(cgplan, LOG, "--no-plan", *moments)
    assert found["workload"]["steps"] == 793
    assert found["other_sources"][0]["workload"]["steps"] == 372


def test_markdown(cgplan: Run) -> None:
    assert "| FULL | 740 | 93.3% |" in cgplan(LOG, "--no-plan", "--markdown")[1]


def test_the_log_from_standard_input(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(LOG).read_bytes())))
    assert steps(cgplan, "-", "--no-plan")["workload"]["steps"] == 793


def test_what_cannot_be_read_is_one_line(cgplan: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html>hello</html>")
    status, out, err = cgplan(LOG, "--metrics", str(page))
    assert (status, out) == (2, "")
    assert "CG718" in err
    assert "no vllm:iteration_tokens_total" in err
    assert "Traceback" not in err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "workload"]) == 0
    assert "batches" in json.loads(capsys.readouterr()[0])["properties"]


def test_rows_that_are_not_read_are_lines_of_the_log(cgplan: Run, tmp_path: Path) -> None:
    """Shares of the other rows are not those of all steps."""
    text = Path(LOG).read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "| FULL " in line)
    path = tmp_path / "torn.log"
    path.write_text(text.replace(row, row.replace("| FULL ", "| FULLER? "), 1), encoding="utf-8")
    whole, torn = (json.loads(cgplan(name, "--no-plan", "--json")[1]) for name in (LOG, str(path)))
    assert torn["not_recognised"] == whole["not_recognised"] + torn["workload"]["not_recognised"]
    assert torn["workload"]["not_recognised"] == whole["workload"]["not_recognised"] + 1
    assert torn["workload"]["workload"]["exact"] is False
    assert [one["not_recognised"] for one in torn["starts"]] == [torn["not_recognised"]] * len(torn["starts"])


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_a_log_without_steps_says_how_to_get_them(cgplan: Run, form: list[str]) -> None:
    logs = METRICS.parent / "logs"
    said = "A server that is started with --cudagraph-metrics logs how many ran in which graph"

    def shown(*words: str) -> str:
        return " ".join(cgplan(*words, "--no-plan", *form)[1].split())

    assert said in shown(str(logs / "A01.txt"))
    assert said not in shown(LOG)
    assert said not in shown(str(logs / "B01.txt"))  # it did not come up
    assert json.loads(cgplan(str(logs / "A01.txt"), "--no-plan", "--json")[1])["workload"] is None


@pytest.mark.parametrize(("rows", "much"), [(("33", "40"), True), (("39", "40"), False)])
def test_much_padding_names_the_command_that_finds_other_sizes(
    cgplan: Run, tmp_path: Path, rows: tuple[str, str], much: bool
) -> None:
    table = (
        "**CUDAGraph Stats:**\n\n"
        "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
        "|-----------------|---------------|--------------|--------------|-------|\n"
        f"| {rows[0]} | {rows[1]} | {int(rows[1]) - int(rows[0])} | FULL | 500 |\n"
    )
    log = tmp_path / "a.log"
    log.write_text(f"INFO 09-30 12:00:00 [loggers.py:1] {table}", encoding="utf-8")
    out = cgplan(str(log))[1]
    assert "of all that is computed" in out
    assert ("cgplan tune MODEL --workload" in out.replace("\n", " ")) == much
