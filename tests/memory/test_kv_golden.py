"""Records of vLLM's own KV cache planner, replayed; and that the replay would notice a difference."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cgplan.releases import SUPPORTED

parity: Any = importlib.import_module("parity")
parity_kv: Any = importlib.import_module("parity_kv")

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden-kv"
FILES = sorted(path.name for path in GOLDEN.glob("*.jsonl.gz"))
Record = dict[str, Any]


@cache
def records(file: str) -> tuple[Record, ...]:
    return tuple(parity.records(GOLDEN / file))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("replay", ["compare", "compare_planning"])
def test_records_match(file: str, replay: str) -> None:
    ask: Callable[[Record], str | None] = parity.compare if replay == "compare" else parity_kv.compare_planning
    wrong = {r["id"]: text for r in records(file) if (text := ask(r)) is not None}
    assert not wrong, "\n".join(f"{key}: {text}" for key, text in list(wrong.items())[:10])


def test_the_files_hold_what_they_promise() -> None:
    counts = {file: len(records(file)) for file in FILES}
    assert counts["0.33.0.jsonl.gz"] >= 300
    assert counts["0.25.1.jsonl.gz"] >= 150
    assert {file.removesuffix(".jsonl.gz") for file in FILES} <= set(SUPPORTED)
    kinds = {
        spec["spec"]["kind"] for file in FILES for record in records(file) for spec in record["output"].get("specs", [])
    }
    assert kinds >= {"FullAttentionSpec", "MLAAttentionSpec", "SlidingWindowSpec", "MambaSpec", "SlidingWindowMLASpec"}


def a_record(wanted: Callable[[Record], bool], file: str = "0.33.0.jsonl.gz") -> Record:
    return copy.deepcopy(next(record for record in records(file) if wanted(record)))


def planned(record: Record) -> bool:
    return "result" in record["output"]


def too_small(record: Record) -> bool:
    return "max seq len" in record["output"].get("error", {}).get("message", "")


@pytest.mark.parametrize(
    "field", ["num_blocks", "block_size", "max_model_len", "kv_cache_size_tokens", "max_concurrency", "hash_block_size"]
)
def test_a_changed_number_is_noticed(field: str) -> None:
    record = a_record(planned)
    assert parity.compare(record) is None
    record["output"]["result"][field] += 1
    assert field in parity.compare(record)


@pytest.mark.parametrize("field", ["blocks_per_request", "n_layers_per_stage"])
def test_a_changed_group_is_noticed(field: str) -> None:
    record = a_record(lambda r: planned(r) and "n_layers_per_stage" in r["output"]["result"]["groups"][0])
    group = record["output"]["result"]["groups"][0]
    group[field] = [0, 0] if field == "n_layers_per_stage" else group[field] + 1
    assert f"groups[0].{field}" in parity.compare(record)


def test_layers_in_another_group_are_noticed() -> None:
    record = a_record(lambda r: planned(r) and len(r["output"]["result"]["groups"]) > 2)
    groups = record["output"]["result"]["groups"]
    same = [i for i, group in enumerate(groups) if group["spec"]["kind"] == groups[-1]["spec"]["kind"]]
    first, second = same[:2] if len(same) > 1 else (0, 1)
    groups[first]["layers"], groups[second]["layers"] = groups[second]["layers"], groups[first]["layers"]
    assert "layers" in parity.compare(record)


def test_another_stride_is_noticed() -> None:
    record = a_record(planned)
    record["output"]["result"]["stages"][0]["bytes_per_block"] += 2
    assert "bytes_per_block" in parity.compare(record)


def test_missing_padding_is_noticed() -> None:
    record = a_record(lambda r: planned(r) and any("padding layers" in line for line in r["output"]["log_core"]))
    record["output"]["log_core"] = []
    assert "padding layers" in parity.compare(record)


@pytest.mark.parametrize(
    ("old", "new"),
    [("maximum model length is ", "maximum model length is 1"), ("max seq len", "least"), (" GiB KV", "9 GiB KV")],
)
def test_another_refusal_is_noticed(old: str, new: str) -> None:
    record = a_record(lambda r: too_small(r) and "estimated maximum" in r["output"]["error"]["message"])
    assert parity.compare(record) is None
    message = record["output"]["error"]["message"]
    record["output"]["error"]["message"] = message.replace(old, new)
    if old != "max seq len":
        assert "needed, available, longest" in parity.compare(record)
    record["output"]["error"]["type"] = "KeyError"
    assert "error.type" in parity.compare(record)


def test_a_start_is_noticed_where_vllm_refuses() -> None:
    refused, started = a_record(too_small), a_record(planned)
    refused["output"]["result"] = started["output"]["result"]
    del refused["output"]["error"]
    assert "vLLM does not" in parity.compare(refused)
    started["output"]["error"] = {"stage": "initialize_kv_caches", "type": "ValueError", "message": "no"}
    assert "cgplan None" in parity.compare(started)


def test_records_of_no_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="of no known kind"):
        parity.compare({"input": {"model": "x"}, "output": {}})
