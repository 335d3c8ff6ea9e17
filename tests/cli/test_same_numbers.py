"""One deployment has the same numbers in every command that plans it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

Run = Callable[..., tuple[int, str, str]]

DEPLOYMENTS = {
    "estimate taken off": ("--model Qwen/Qwen3-8B --gpu h100 --max-num-seqs 64 --max-model-len 8192", "0.32", "0.33"),
    "estimate printed": ("--model Qwen/Qwen3-8B --gpu l40s --max-num-seqs 128 --max-model-len 4096", "0.20", "0.19"),
    "states": ("--model Qwen/Qwen3.5-4B --gpu l40s --max-num-seqs 32 --max-model-len 4096", "0.27", "0.28"),
}
"""Options, another release and the release that is asked about."""
KEYS = ("kv_bytes", "kv_tokens", "graph_bytes", "capture_seconds", "runner")


def document(cgplan: Run, *words: str) -> Any:
    return json.loads(cgplan(*words, "--json")[1])


def of_plan(found: dict[str, Any]) -> dict[str, Any]:
    best = {key: found[key]["best"] for key in ("kv_bytes", "graph_bytes", "capture_seconds")}
    return {**best, "kv_tokens": found["kv_tokens"], "runner": found["runner"]}


@pytest.mark.parametrize("name", DEPLOYMENTS)
class TestEveryCommand:
    def asked(self, cgplan: Run, name: str) -> tuple[list[str], str, dict[str, Any]]:
        options, _, release = DEPLOYMENTS[name]
        words = [*options.split(), "--vllm", release]
        return words, release, of_plan(document(cgplan, "plan", *words))

    def test_what_if(self, cgplan: Run, name: str) -> None:
        words, _, wanted = self.asked(cgplan, name)
        seqs = words[words.index("--max-num-seqs") + 1]
        (row,) = document(cgplan, "plan", *words, "--what-if", f"max-num-seqs={seqs}")["what_if"]["rows"]
        assert {key: row[key] for key in KEYS[:-1]} == {key: wanted[key] for key in KEYS[:-1]}

    def test_diff(self, cgplan: Run, name: str) -> None:
        options, other, release = DEPLOYMENTS[name]
        _, _, wanted = self.asked(cgplan, name)
        found = document(cgplan, "diff", "--from", other, "--to", release, *options.split())["memory"]["to"]
        assert {key: found[key] for key in KEYS[:3]} == {key: wanted[key] for key in KEYS[:3]}

    def test_tune(self, cgplan: Run, name: str) -> None:
        words, _, wanted = self.asked(cgplan, name)
        found = document(cgplan, "tune", *words, "--shape", "steady")["today"]
        assert (found["graph_bytes"], found["kv_tokens"]) == (wanted["graph_bytes"], wanted["kv_tokens"])
        assert found["capture_seconds"]["best"] == wanted["capture_seconds"]

    def test_sweep(self, cgplan: Run, name: str, tmp_path: Path) -> None:
        words, release, wanted = self.asked(cgplan, name)
        flags = dict(zip(words[::2], words[1::2], strict=True))
        lines = ["[base]", *(f'{key} = "{flags[f"--{key}"]}"' for key in ("model", "gpu"))]
        lines += [f'vllm = "{release}"', f"max_model_len = {flags['--max-model-len']}"]
        lines += ["[grid]", f"max_num_seqs = [{flags['--max-num-seqs']}]"]
        grid = tmp_path / "grid.toml"
        grid.write_text("\n".join(lines))
        record = json.loads(cgplan("sweep", str(grid), "--json")[1].splitlines()[0])
        assert {key: record["model_runner" if key == "runner" else key] for key in KEYS} == wanted

    def test_report(self, cgplan: Run, name: str) -> None:
        """The page has the lines of the plan's screen, and the row of its table."""
        words, _, wanted = self.asked(cgplan, name)
        page = cgplan("report", *words, "--markdown")[1]
        gib = {key: f"{wanted[key] / 2**30:.2f}" for key in ("kv_bytes", "graph_bytes")}
        assert f" {gib['graph_bytes']} |" in page.partition("| graphs, capture takes |")[2].partition("\n")[0]
        assert f"KV cache: {gib['kv_bytes']} GiB, " in page
        assert f"{wanted['kv_tokens']:,}" in page
        assert f"Runner: {wanted['runner']}" in page


class TestTheLogsOfIt:
    """`logs` plans what its log ran; A09 is a server of 0.19.0, whose line is known."""

    LINE = "vllm serve Qwen/Qwen3-30B-A3B --max-model-len 8192 --gpu-memory-utilization 0.95 --no-enable-prefix-caching"

    def test_the_figures(self, cgplan: Run) -> None:
        made = json.loads(cgplan("plan", "--gpu", "h100", "--vllm", "0.19.1", "--json", "--", *self.LINE.split())[1])
        log = str(ROOT / "fixtures" / "logs" / "A09.txt")
        start = document(cgplan, "logs", log, "--gpu", "h100")["starts"][0]
        rows = {row["name"]: row for row in start["plan"]["rows"]}
        for name in ("kv_bytes", "graph_bytes", "graph_estimate_bytes", "activation_bytes"):
            assert [rows[name][end] for end in ("low", "best", "high")] == [
                made[name][end] for end in ("low", "best", "high")
            ], name
        assert rows["runner"]["planned_text"] == made["runner"]
        assert rows["capture_seconds"]["best"] == pytest.approx(made["capture_seconds"]["best"], abs=0.6)
