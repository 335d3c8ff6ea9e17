"""Records of vLLM's own answers, replayed; and that the replay would notice a difference."""

from __future__ import annotations

import copy
import gzip
import importlib
import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cgplan.releases import SUPPORTED

parity: Any = importlib.import_module("parity")

GOLDEN = Path(__file__).parent.parent / "fixtures" / "golden"
FILES = sorted(
    path.name for path in GOLDEN.glob("*.jsonl.gz") if path.name.split("-")[0].removesuffix(".jsonl.gz") in SUPPORTED
)
Record = dict[str, Any]


@cache
def families(file: str) -> dict[str, list[Record]]:
    """Records by family: the word of their id before the number."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in parity.records(GOLDEN / file):
        words = [word for word in record["id"].split("-") if not word.isdigit()]
        family = words[1] if len(words) > 1 and words[0].startswith("s1") else words[0]
        found[family].append(record)
    return found


CASES = [(file, family) for file in FILES for family in families(file)]


@pytest.mark.parametrize(("file", "family"), CASES, ids=[f"{file}:{family}" for file, family in CASES])
def test_records_match(file: str, family: str) -> None:
    differences = {r["id"]: parity.compare(r) for r in families(file)[family]}
    wrong = {key: text for key, text in differences.items() if text is not None}
    assert not wrong, "\n".join(f"{key}: {text}" for key, text in list(wrong.items())[:10])


def test_the_files_hold_what_they_promise() -> None:
    counts = {file: sum(map(len, families(file).values())) for file in FILES}
    assert counts["0.33.0.jsonl.gz"] == 2104
    assert counts["0.33.0-seeds.jsonl.gz"] >= 1500
    assert counts["0.33.0-rules.jsonl.gz"] >= 100
    assert all(counts[f"{release}.jsonl.gz"] >= 250 for release in SUPPORTED)


def a_record(wanted: Callable[[Record], bool]) -> Record:
    """A copy of the first matching record that satisfies `wanted`."""
    for records in families("0.33.0.jsonl.gz").values():
        for record in records:
            if wanted(record) and parity.compare(record) is None:
                return copy.deepcopy(record)
    raise AssertionError("no record is like that")


def levels(record: Record) -> list[Record]:
    """What was resolved, with captures of its own."""
    found = record["output"].get("resolve", {}).values()
    return [level for level in found if "captures" in level and "error" not in level]


def short_captures(record: Record) -> bool:
    return any(isinstance(rows, list) and rows for level in levels(record) for rows in level["captures"].values())


def change_a_size(record: Record) -> None:
    record["output"]["config"]["cudagraph_capture_sizes"][0] += 1


def drop_a_size(record: Record) -> None:
    record["output"]["config"]["cudagraph_capture_sizes"].pop()


def change_the_maximum(record: Record) -> None:
    levels(record)[0]["max_capture_size"] += 16


def change_the_configured_mode(record: Record) -> None:
    config = record["output"]["config"]
    config["cudagraph_mode"] = "NONE" if config["cudagraph_mode"] != "NONE" else "FULL"


def change_the_final_mode(record: Record) -> None:
    level = levels(record)[0]
    level["mode"] = "PIECEWISE" if level["mode"] != "PIECEWISE" else "FULL"


def _rows(record: Record) -> list[list[Any]]:
    for level in levels(record):
        for rows in level["captures"].values():
            if isinstance(rows, list) and rows:
                return rows
    raise AssertionError("no capture is spelled out")


def change_a_capture(record: Record) -> None:
    _rows(record)[0][0] += 1


def drop_a_capture(record: Record) -> None:
    _rows(record).pop()


def reorder_captures(record: Record) -> None:
    rows = _rows(record)
    rows.insert(0, rows.pop())


def add_a_setting(record: Record) -> None:
    record["output"]["config"]["a_setting_of_tomorrow"] = 1


def drop_a_setting(record: Record) -> None:
    del record["output"]["config"]["max_num_batched_tokens"]


def change_the_runner(record: Record) -> None:
    config = record["output"]["config"]
    config["use_v2_model_runner"] = not config["use_v2_model_runner"]


MUTATIONS = [
    (change_a_size, "cudagraph_capture_sizes"),
    (drop_a_size, "cudagraph_capture_sizes"),
    (change_the_maximum, "max_capture_size"),
    (change_the_configured_mode, "cudagraph_mode"),
    (change_the_final_mode, "mode"),
    (change_a_capture, "captures"),
    (drop_a_capture, "captures"),
    (reorder_captures, "captures"),
    (add_a_setting, "a_setting_of_tomorrow"),
    (drop_a_setting, "max_num_batched_tokens"),
    (change_the_runner, "use_v2_model_runner"),
]


@pytest.mark.parametrize(("mutate", "field"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_changed_record_is_a_mismatch_that_names_the_field(mutate: Callable[[Record], None], field: str) -> None:
    record = a_record(lambda r: short_captures(r) and len(r["output"]["config"]["cudagraph_capture_sizes"]) > 3)
    mutate(record)
    difference = parity.compare(record)
    assert difference is not None
    assert field in difference


def has_dispatch(record: Record) -> bool:
    return any(level.get("dispatch") for level in levels(record))


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_changed_dispatch_row_is_a_mismatch(part: int) -> None:
    record = a_record(has_dispatch)
    level = next(level for level in levels(record) if level.get("dispatch"))
    row = level["dispatch"][0]
    if part == 3:
        row[3][0] += 1
    else:
        row[part] = "NONE" if part == 2 and row[part] != "NONE" else 77
    difference = parity.compare(record)
    assert difference is not None
    assert "dispatch" in difference


def test_a_missing_dispatch_row_is_noticed() -> None:
    record = a_record(has_dispatch)
    next(level for level in levels(record) if level.get("dispatch"))["dispatch"].pop()
    with pytest.raises(ValueError, match="zip"):
        parity.compare(record)


def test_a_changed_backend_is_a_mismatch() -> None:
    record = a_record(lambda r: bool(r["output"].get("backend", {}).get("groups")))
    record["output"]["backend"]["groups"][0][1] = "NO_LEVEL"
    assert "backend.groups" in str(parity.compare(record))


def test_a_changed_digest_of_a_long_list_is_a_mismatch() -> None:
    def folded(record: Record) -> bool:
        return any(isinstance(rows, dict) for level in levels(record) for rows in level["captures"].values())

    record = a_record(folded)
    rows = next(rows for level in levels(record) for rows in level["captures"].values() if isinstance(rows, dict))
    rows["sha1"] = "0" * 40
    assert "captures" in str(parity.compare(record))


def refused(record: Record) -> bool:
    return "error" in record["output"]


@pytest.mark.parametrize(("key", "value"), [("stage", "load_model"), ("type", "KeyError"), ("message", "Out of luck.")])
def test_a_changed_error_is_a_mismatch(key: str, value: str) -> None:
    record = a_record(refused)
    record["output"]["error"][key] = value
    assert parity.compare(record) is not None


def test_an_error_that_vllm_does_not_have_is_a_mismatch_and_the_other_way_round() -> None:
    record = a_record(refused)
    accepted = a_record(lambda r: not refused(r))
    record["output"] = accepted["output"]
    assert "does not" in str(parity.compare(record))
    accepted["output"] = {"error": {"stage": "create_engine_config", "type": "ValidationError", "message": "No."}}
    assert "does not" in str(parity.compare(accepted))


def test_a_level_error_is_compared_by_stage() -> None:
    def failing(record: Record) -> bool:
        return any("error" in level for level in record["output"].get("resolve", {}).values())

    record = a_record(failing)
    level = next(level for level in record["output"]["resolve"].values() if "error" in level)
    level["error"]["stage"] = "harness"
    assert "stage" in str(parity.compare(record))


def test_the_command_counts_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = a_record(short_captures), a_record(short_captures)
    change_a_size(bad)
    bad["id"] = "broken-1"
    file = tmp_path / "records.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(json.dumps(r) for r in (good, bad)).encode()))
    assert parity.replay(file, 10) is False
    printed = capsys.readouterr().out
    assert f"{file}: 1/2" in printed
    assert "broken-1" in printed
    plain = tmp_path / "records.jsonl"
    plain.write_text(json.dumps(good) + "\n\n", encoding="utf-8")
    assert parity.replay(plain, 10) is True
    assert f"{plain}: 1/1" in capsys.readouterr().out


def test_a_record_of_another_kind_is_an_error() -> None:
    with pytest.raises((ValueError, KeyError)):
        parity.compare({"input": {}, "output": {}})
