"""`cgplan tune`: what it prints, and that its flag does what it promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.workload.tune_schema import TuneDocument

METRICS = Path(__file__).parents[2] / "fixtures" / "metrics"
LOG = str(METRICS / "tables-two-engines.log")
ASKED = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--max-num-seqs", "64")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def document(cgplan: Run, *words: str) -> dict[str, Any]:
    status, out, err = cgplan("tune", *words, "--json")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    TuneDocument.model_validate(found)
    return found


def test_the_screen(cgplan: Run) -> None:
    status, out, err = cgplan("tune", *ASKED, "--workload", LOG)
    assert (status, err) == (0, "")
    for text in ("fewer tokens than with vLLM's default, 19 sizes", "Padding by number of sizes", "today", "chosen"):
        assert text in out
    assert "By chance in the counts the saving lies between" in " ".join(out.split())
    assert "0.5 times" in out


def test_the_flag_resolves_to_what_was_promised(cgplan: Run) -> None:
    found = document(cgplan, *ASKED, "--workload", LOG)
    resolved = json.loads(cgplan("resolve", *ASKED, *found["flag"].split(), "--json")[1])
    assert resolved["capture_sizes"] == found["chosen"]["sizes"]
    planned = json.loads(cgplan("plan", *ASKED, *found["flag"].split(), "--json")[1])
    assert planned["kv_tokens"] == found["chosen"]["kv_tokens"]


def test_the_flag_is_one_line_that_can_be_copied(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    words = (*ASKED, "--workload", LOG)
    assert document(cgplan, *words)["flag"] in cgplan("tune", *words)[1].splitlines()


def test_a_mixture(cgplan: Run) -> None:
    words = (*ASKED, "--workload", f"{LOG}@1", "--workload", f"{METRICS / 'moment-1.txt'}@3")
    found = document(cgplan, *words)
    assert [part["share"] for part in found["parts"]] == pytest.approx([0.25, 0.75])
    assert found["gain_by_buckets"]["low"] < found["gain"] < found["gain_by_buckets"]["high"]
    assert "alone: what as many sizes save" in cgplan("tune", *words)[1]


def test_a_pasted_line(cgplan: Run) -> None:
    line = ("--gpu", "h100", "--shape", "steady", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64")
    status, out, _ = cgplan("tune", "--json", *line)
    assert status == 0
    assert json.loads(out)["fixed"] == [64, 128]


def test_a_model_that_is_not_known_is_tuned_without_memory(cgplan: Run) -> None:
    found = json.loads(cgplan("tune", "--json", "--gpu", "h100", "--shape", "low", "--", "vllm", "serve", "no/one")[1])
    TuneDocument.model_validate(found)
    assert found["chosen"]["graph_bytes"] is None
    assert any("memory is not planned" in note for note in found["notes"])


def test_markdown(cgplan: Run) -> None:
    out = cgplan("tune", *ASKED, "--workload", LOG, "--markdown")[1]
    assert out.startswith("# Capture sizes: vLLM")
    assert "| Graphs | 30 |" in out
    assert "--cudagraph-capture-sizes " in out


def test_a_profile(cgplan: Run, tmp_path: Path) -> None:
    times = {"full": {"1": 0.004, "64": 0.006}, "piecewise": {"1": 0.005, "128": 0.009}, "eager": {"1": 0.02}}
    record = {
        "schema_version": 1, "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3"},
        "measured": {}, "profile": {"cost_seconds": times},
    }  # fmt: skip
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(record))
    words = (*ASKED, "--workload", LOG, "--profile", str(path))
    assert document(cgplan, *words)["cost_unit"] == "seconds"
    assert "Time of a step" in cgplan("tune", *words)[1]


def test_the_best_list_is_said_to_be_so(cgplan: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("kind,tokens,count\ndecode,8,5\ndecode,64,5\n")
    words = (*ASKED, "--cudagraph-capture-sizes", "8", "64", "--workload", str(path), "--spread", "0")
    out = cgplan("tune", *words)[1]
    assert "Today's list is the best" in out
    assert "--cudagraph-capture-sizes" not in out


def test_the_schema_is_printed(cgplan: Run) -> None:
    assert "curve" in json.loads(cgplan("schema", "tune")[1])["properties"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no traffic is given"),
        (("--shape", "stedy"), "did you mean steady"),
        (("--shape", "low", "--workload", LOG), "exclude each other"),
        (("--shape", "low", "--json", "--markdown"), "exclude each other"),
        (("--shape", "low", "--max-graphs", "0"), "--max-graphs"),
        (("--shape", "low", "--max-graphs", "1"), "no list keeps to the limits"),
        (("--shape", "low", "--max-graph-memory", "lots"), "--max-graph-memory"),
        (("--shape", "low", "--max-startup", "soon"), "--max-startup"),
        (("--shape", "low", "--spread", "1"), "--spread"),
        (("--shape", "low", "--must", "8,x"), "--must"),
        (("--shape", "low", "--must", "0"), "--must"),
        (("--shape", "low", "--profile", "/no/file"), "cgplan profile"),
        (("--shape", "low", "--enforce-eager"), "captures no CUDA graphs"),
        (("--workload", "/no/file"), "/no/file"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(cgplan: Run, words: tuple[str, ...], said: str) -> None:
    status, _, err = cgplan("tune", *ASKED, *words)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1
