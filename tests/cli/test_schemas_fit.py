"""Each document has a schema, and real documents fit it; one that is not whole does not."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.cli.app import COMMANDS
from cgplan.cli.schema import DOCUMENTS

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from json_schema import faults

Run = Callable[..., tuple[int, str, str]]
NANO = "vllm serve nvidia/NVIDIA-Nemotron-Nano-9B-v2 --gpu-memory-utilization 0.5"
LINES = [
    ("diff", f"diff --from 0.19 --to 0.20 --gpu h100 --json -- {NANO}"),
    ("diff", "diff --from 0.25.1 --to 0.33.0 --gpu b200 --max-num-seqs 1000 --json"),
    ("diff", "diff --from 0.19 --to 0.33 --model Qwen/Qwen3-8B --kv-cache-dtype fp8 --gpu h100 --json"),
    ("diff", "diff --from 0.30 --to 0.31 --gpu h100 --json -- vllm serve Qwen/Qwen3-8B --max-num-active-seqs 8"),
    ("diff", "diff --from 0.32 --to 0.33 --gpu h100 --json -- vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8"),
    ("diff", "diff --from 0.32 --to 0.33 --json"),
    ("backends", "backends --gpu h100 --json"),
    ("backends", "backends --model deepseek-ai/DeepSeek-V3 --gpu b200 -tp 8 --json"),
    ("backends", "backends --gpu h100 --attention-backend FLASHMLA --json"),
    ("backends", "backends --gpu h100 --vllm 0.19.1 --json"),
    ("rules", "rules --json"),
    ("explain", "explain CG111 --json"),
    ("explain", "explain --json"),
    ("models", "models --json"),
    ("gpus", "gpus --json"),
]


@pytest.fixture
def schema_of(cgplan: Run) -> Callable[[str], dict[str, Any]]:
    def schema(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cgplan("schema", name)[1])
        return found

    return schema


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_document_fits_its_schema(
    name: str, line: str, cgplan: Run, schema_of: Callable[[str], dict[str, Any]]
) -> None:
    document = json.loads(cgplan(*line.split())[1])
    assert "error" not in document
    schema = schema_of(name)
    assert faults(document, schema) == []
    for key in document:
        less = {name: value for name, value in document.items() if name != key}
        assert faults(less, schema) != [], key
    assert faults({**document, "more": 1}, schema) != []


def test_a_record_of_a_sweep_fits_its_schema(
    cgplan: Run, schema_of: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        '[base]\nmodel = "Qwen/Qwen3-8B"\n[grid]\ngpu = ["h100", "t4"]\nmax_num_seqs = [64, 99999999]\n'
        'cudagraph_mode = ["NONE", "FULL"]\nmax_model_len = ["auto", 4096]\nvllm = ["0.19.1", "0.33.0"]\n'
    )
    records = [json.loads(line) for line in cgplan("sweep", str(grid), "--json", "--jobs", "1")[1].splitlines()]
    assert len(records) == 32
    assert {one["starts"] for one in records} >= {"yes", "no"}
    schema = schema_of("sweep")
    assert [faults(one, schema) for one in records if faults(one, schema)] == []
    assert set(schema["properties"]) <= set(records[0])
    assert faults({**records[0], "graphs": "many"}, schema) != []


def test_the_help_names_what_there_is(cgplan: Run) -> None:
    text = " ".join(cgplan("schema", "--help")[1].split())
    for name in DOCUMENTS:
        assert f" {name}" in text.replace("- ", "-"), name


def test_every_command_with_a_document_has_a_schema(cgplan: Run) -> None:
    for command in COMMANDS:
        if re.search(r"^  --json ", cgplan(command, "--help")[1], re.M):
            assert command in DOCUMENTS, command
