"""The commands, in process: what they print, and their exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cgplan.cli import app
from cgplan.cli.app import COMMANDS
from cgplan.resolve.document_schema import from_document

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def cgplan(cgplan: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")
    return lambda line: cgplan(*line.split())


def test_resolve_needs_nothing_but_a_backend(cgplan: Run) -> None:
    status, out, err = cgplan("resolve --backend flashinfer")
    assert (status, err) == (0, "")
    for word in ("FULL_AND_PIECEWISE", "FLASHINFER", "UNIFORM_BATCH", "1 2 4, 8–248 by 8, 256–512 by 16", "Assumed"):
        assert word in out


def test_json_is_alone_on_stdout(cgplan: Run) -> None:
    status, out, err = cgplan("resolve --json --gpu h100 --max-num-seqs 64")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["schema_version"] == 1
    assert document["max_cudagraph_capture_size"] == 128
    assert document["assumptions"]
    assert from_document(document).max_num_seqs == 64


def test_json_answers_batches(cgplan: Run) -> None:
    document = json.loads(cgplan("resolve --json --max-num-seqs 64 --batch 5 100")[1])
    decode, mixed, never, _ = document["batches"]
    assert (decode["kind"], decode["mode"], decode["padded"], decode["waste"]) == ("uniform_decode", "FULL", 8, 0.375)
    assert (mixed["kind"], mixed["mode"], mixed["padded"]) == ("mixed", "PIECEWISE", 8)
    assert never["mode"] is None
    assert "max_num_seqs" in never["why_not"]


def test_settings_not_modelled_reach_the_document(cgplan: Run) -> None:
    document = json.loads(cgplan("resolve --json -cc.cache_dir=/x")[1])
    assert document["not_modelled"][0].startswith("compilation_config.cache_dir")


@pytest.mark.parametrize(("flag", "status"), [("never", 0), ("error", 0), ("warning", 1), ("info", 1)])
def test_fail_on(cgplan: Run, flag: str, status: int) -> None:
    assert cgplan(f"resolve --gpu h100 --max-num-seqs 1024 --fail-on {flag}")[0] == status
    assert cgplan("resolve --gpu h100 --fail-on warning")[0] == 0  # vLLM's own limits are an information
    assert cgplan("resolve --gpu h100 --max-num-seqs 8 --fail-on info")[0] == 0


def test_a_start_failure_as_json(cgplan: Run) -> None:
    status, out, err = cgplan("resolve --json --cudagraph-mode FULL --attention-support NEVER")
    document = json.loads(out)
    assert status == 2
    assert document["schema_version"] == 1
    assert document["error"]["code"] == "CG331"
    assert document["error"]["stage"]
    assert err.startswith("error[CG331]")


@pytest.mark.parametrize("line", ["resolve --json --bogus", "explain --json CG000", "resolve --json --gpu x"])
def test_errors_as_json(cgplan: Run, line: str) -> None:
    status, out, err = cgplan(line)
    assert status == 2
    assert json.loads(out)["error"]["message"]
    assert err


def test_explain_lists_and_shows(cgplan: Run) -> None:
    status, listing, _ = cgplan("explain")
    assert status == 0
    assert "CG101" in listing
    assert "CG915" in listing
    for code in ("CG701", "cg701", "701"):
        status, page, _ = cgplan(f"explain {code}")
        assert status == 0
        for word in ("CG701", "Why", "Example", "Instead", "cudagraph_dispatcher.py"):
            assert word in page
    assert json.loads(cgplan("explain CG701 --json")[1])["rules"][0]["code"] == "CG701"
    assert len(json.loads(cgplan("explain --json")[1])["rules"]) > 50


def test_gpus(cgplan: Run) -> None:
    status, out, _ = cgplan("gpus")
    assert status == 0
    assert "NVIDIA H100 80GB HBM3" in out
    assert json.loads(cgplan("gpus --json")[1])["gpus"][0]["memory_bytes"] > 0


def test_gpus_whose_names_have_a_text_in_them(cgplan: Run) -> None:
    status, out, _ = cgplan("gpus H200")
    assert status == 0
    assert "NVIDIA H200" in out
    assert "H100 80GB" not in out
    assert all("h200" in one["name"].lower() for one in json.loads(cgplan("gpus h200 --json")[1])["gpus"])
    assert cgplan("gpus nothing-of-that-name")[0] == 1


def test_models(cgplan: Run) -> None:
    status, out, _ = cgplan("models qwen3-8b")
    assert status == 0
    assert "Qwen/Qwen3-8B" in out
    assert cgplan("models nothing-of-that-name")[0] == 1
    assert json.loads(cgplan("models qwen3-8b --json")[1])["models"][0]["model_id"] == "Qwen/Qwen3-8B"


def test_schema(cgplan: Run) -> None:
    status, out, _ = cgplan("schema")
    assert status == 0
    assert "capture_sizes" in json.loads(out)["properties"]
    assert cgplan("schema resolv")[0] == 2


def test_help_shows_every_command(cgplan: Run) -> None:
    status, out, _ = cgplan("--help")
    assert status == 0
    for command in COMMANDS:
        assert command in out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_has_an_example_and_the_exit_codes(cgplan: Run, command: str) -> None:
    status, out, _ = cgplan(f"{command} --help")
    assert status == 0
    assert "Example" in out
    assert "cgplan " + (command or "resolve") in out
    assert "Exit codes" in out
    assert "…" not in out


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("resolv", "resolve"),
        ("resolve --bakend x", "--backend"),
        ("resolve --max-num-seq 8", "--max-num-seqs"),
        ("--backend x", "cgplan resolve --backend"),
        ("resolve -tp", "give its value after -tp"),
        ("resolve --max-num-active-seqs x", "give a whole number"),
        ("resolve --json=yes", "write --json alone"),
        ("gpus --json=yes", "write --json alone"),
        ("resolve --foo", "cgplan resolve --help lists what this one takes"),
        ("resolve -ccmode=3", "did you mean -cc.mode?"),
        ("resolve a b", "cgplan resolve -- vllm serve MODEL"),
        ("schema x", "resolve"),
        ("explain CG000", "lists all codes"),
        ("resolve --fail-on waning", "did you mean warning?"),
    ],
)
def test_wrong_usage_is_explained(cgplan: Run, line: str, hint: str) -> None:
    status, out, err = cgplan(line)
    assert (status, out) == (2, "")
    assert hint in err
    assert len(err.splitlines()) <= 3


def test_a_bug_is_one_line(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: object) -> int:
        raise RuntimeError("some\nthing")

    monkeypatch.setattr(app, "_invoke", broken)
    monkeypatch.delenv("CGPLAN_DEBUG", raising=False)
    status, out, err = cgplan("resolve")
    assert (status, out) == (70, "")
    assert "report" in err
    assert len(err.splitlines()) == 1
    monkeypatch.setenv("CGPLAN_DEBUG", "1")
    assert "Traceback" in cgplan("resolve")[2]


def test_an_interrupt_is_one_line(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "_invoke", interrupted)
    for command in app.COMMANDS:
        assert cgplan(command) == (130, "", "interrupted\n"), command
