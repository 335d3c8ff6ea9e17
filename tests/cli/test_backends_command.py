"""`cgplan backends`, and `--assume-release` of every command that takes --vllm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from cgplan.releases import SUPPORTED
from cgplan.resolve.backends.facts import catalogue

Run = Callable[[str], tuple[int, str, str]]

KEYS = [
    "schema_version", "vllm_version", "gpu", "model", "backend", "asked", "why", "refused", "order", "backends",
    "differences", "assumptions", "not_modelled",
]  # fmt: skip
ROW_KEYS = [
    "name", "class_name", "kind", "platform", "support", "condition", "code", "source", "fits", "reasons", "priority",
    "chosen",
]  # fmt: skip


@pytest.fixture
def cgplan(cgplan: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")
    return lambda line: cgplan(*line.split())


@pytest.mark.parametrize("output", ["", "--markdown", "--json"])
@pytest.mark.parametrize("release", SUPPORTED)
def test_every_name_of_every_release(cgplan: Run, release: str, output: str) -> None:
    status, out, err = cgplan(f"backends --gpu h100 --vllm {release} {output}")
    assert (status, err) == (0, "")
    facts = catalogue(release)
    for name in (*facts.backends, *facts.mamba):
        assert name in out


def test_json_is_stable(cgplan: Run) -> None:
    line = "backends --json --gpu b200 --model deepseek-ai/DeepSeek-V3.2 -tp 8"
    first, second = cgplan(line)[1], cgplan(line)[1]
    assert first == second
    document = json.loads(first)
    assert list(document) == KEYS
    assert all(list(row) == ROW_KEYS for row in document["backends"])
    assert document["order"][0] == "FLASHINFER_MLA"
    assert [row["name"] for row in document["backends"] if row["chosen"]] == [document["backend"]["name"]]


@pytest.mark.parametrize("more", ["", "--kv-cache-dtype fp8", "--backend triton_attn", "--dtype float32", "-dcp 1"])
def test_the_backend_is_that_of_resolve(cgplan: Run, more: str) -> None:
    line = f"--json --gpu h100 --model meta-llama/Llama-3.1-8B-Instruct {more}"
    assert json.loads(cgplan(f"backends {line}")[1])["backend"] == json.loads(cgplan(f"resolve {line}")[1])["backend"]


def test_a_refused_backend_shows_what_fits(cgplan: Run) -> None:
    status, out, err = cgplan("backends --gpu a100 --backend flashmla")
    assert (status, err) == (2, "")
    assert "Refused" in out
    status, out, _ = cgplan("backends --gpu a100 --backend flashmla --json")
    document = json.loads(out)
    assert status == 2
    assert document["backend"] is None
    assert document["refused"]["code"] == "CG302"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--gpu h1000", "CG904"),
        ("--vllm 0.99.0", "CG801"),
        ("--vllm nonsense", "CG801"),
        ("--backend flashinfr", "CG305"),
        ("--model nobody/nothing", "CG915"),
        ("--markdown --json", "CG907"),
        ("--batch 7", "CG905"),
    ],
)
def test_bad_input_is_one_line(cgplan: Run, line: str, code: str) -> None:
    status, _, err = cgplan(f"backends {line}")
    assert status == 2
    assert err.startswith(f"error[{code}]: ")
    assert err.count("\n") == 1
    assert "; fix: " in err


def test_markdown_has_whole_tables(cgplan: Run) -> None:
    out = cgplan("backends --markdown --gpu b200 --vllm 0.29.0")[1]
    assert out.startswith("# Attention backends: vLLM 0.29.0\n")
    widths: list[int] = []
    for line in out.splitlines():
        widths = [*widths, line.replace("\\|", "").count("|")] if line.startswith("|") else []
        assert len(set(widths)) <= 1
    assert "| 1 | FLASHINFER | attention | UNIFORM_BATCH |" in out


def test_an_unknown_release_offers_the_nearest(cgplan: Run) -> None:
    status, out, err = cgplan("resolve --vllm 99.0.0")
    assert (status, out) == (2, "")
    assert err.startswith("error[CG801]: vLLM release '99.0.0' is not known to cgplan; the nearest is ")
    assert f"--assume-release {SUPPORTED[-1]}" in err
    assert "--assume-release 0.19.1" in cgplan("backends --vllm 0.18.7")[2]


@pytest.mark.parametrize(
    ("line", "release", "note"),
    [
        ("--vllm 0.34.0 --assume-release 0.33.0", "0.33.0", "rules of 0.33.0 assumed for 0.34.0"),
        ("--vllm 0.34.0rc1 --assume-release 0.32", "0.32.0", "rules of 0.32.0 assumed for 0.34.0rc1"),
        ("--vllm nightly --assume-release v0.28", "0.28.0", "rules of 0.28.0 assumed for nightly"),
        ("--assume-release 0.28", "0.28.0", "rules of 0.28.0 assumed; no --vllm was given"),
        ("--vllm 0.29 --assume-release 0.28", "0.28.0", "rules of 0.28.0 assumed for 0.29.0, which cgplan knows"),
        ("--vllm 0.28 --assume-release 0.28.0", "0.28.0", None),
    ],
)
@pytest.mark.parametrize("command", ["resolve", "backends"])
def test_assume_release(cgplan: Run, command: str, line: str, release: str, note: str | None) -> None:
    document = json.loads(cgplan(f"{command} --json --gpu h100 {line}")[1])
    assert document["vllm_version"] == release
    notes = [text for text in document["assumptions"] if "rules of" in text]
    assert len(notes) == (note is not None)
    assert note is None or note in notes[0]


def test_the_release_to_assume_is_checked(cgplan: Run) -> None:
    status, _, err = cgplan("backends --vllm 0.34.0 --assume-release 0.35.0")
    assert status == 2
    assert "[--assume-release]" in err


def test_the_screen_is_read_only_where_it_is_shown() -> None:
    code = "import sys, cgplan.cli.backends; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"rich.table", "cgplan.report.backends"} & set(done.stdout.split())
