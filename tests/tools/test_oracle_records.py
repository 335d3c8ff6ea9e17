"""Golden files, the choice of records, and how differences are told apart."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

records: Any = importlib.import_module("oracle.records")
goldens: Any = importlib.import_module("oracle.goldens")
compare: Any = importlib.import_module("oracle.compare")
sampling: Any = importlib.import_module("oracle.sampling")
errors: Any = importlib.import_module("oracle.inside.errors")
models: Any = importlib.import_module("oracle.models")
parity: Any = importlib.import_module("parity")

GOLDEN = Path(__file__).parent.parent.parent / "fixtures" / "golden"
Record = dict[str, Any]


@pytest.mark.parametrize("name", ["some.jsonl", "some.jsonl.gz"])
def test_records_come_back_as_written(tmp_path: Path, name: str) -> None:
    given = sampling.sample("0.33.0", 1, 30)
    assert records.write(tmp_path / "new" / name, given) == 30
    assert list(records.read(tmp_path / "new" / name)) == given


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        records.write(tmp_path / name, sampling.sample("0.33.0", 1, 30))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_groups_hold_every_record_of_their_capability() -> None:
    given = sampling.sample("0.33.0", 1, 200)
    groups = records.by_capability(given)
    assert sorted(r["id"] for group in groups.values() for r in group) == sorted(r["id"] for r in given)
    for capability, group in groups.items():
        assert {".".join(map(str, r["input"]["device"]["capability"])) for r in group} == {capability}


def test_thinning_keeps_every_family_and_the_order() -> None:
    given = sampling.sample("0.33.0", 1, 700)
    kept = goldens.thin(given, 140)
    assert 130 <= len(kept) <= 150
    assert {records.family(r) for r in kept} == {records.family(r) for r in given}
    assert [r for r in given if r in kept] == kept
    assert goldens.thin(given, 140) == kept
    assert goldens.thin(given, 1000) == given


def test_the_family_is_the_id_without_its_number() -> None:
    assert records.family({"id": "sizes-speculation-00012"}) == "sizes-speculation"


def a_record() -> Record:
    found: Record = next(iter(records.read(GOLDEN / "0.33.0.jsonl.gz")))
    return found


def test_a_golden_record_has_no_difference() -> None:
    assert compare.difference(a_record()) is None


def test_an_error_of_the_oracle_is_told_apart() -> None:
    record = a_record()
    record["output"] = {"error": {"stage": "harness", "type": "TypeError", "message": "no such argument"}}
    assert "the oracle failed" in str(compare.difference(record))


def test_an_exception_of_cgplan_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: Record) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(parity, "compare", broken)
    assert compare.difference(a_record()) == "cgplan raised KeyError: 'oops'"


def test_kinds_forget_numbers_and_levels_but_not_codes() -> None:
    first = compare.kind("resolve.NEVER.error: cgplan refuses (CG412: 17 is less than 20), vLLM does not")
    second = compare.kind("resolve.REAL.error: cgplan refuses (CG412: 1 is less than 2048), vLLM does not")
    assert first == second
    assert first != compare.kind("resolve.REAL.error: cgplan refuses (CG413: 1 is less than 2048), vLLM does not")
    assert compare.kind("config.x: [1, 2, 4], vLLM [1, 2]") == compare.kind("config.x: [1], vLLM [8, 16, 24]")


def test_rows_drop_their_default_values() -> None:
    assert errors.row([8, None, 0, 0, 0], [None, None, 0, 0, 0]) == [8]
    assert errors.row([8, None, 0, 1, 0], [None, None, 0, 0, 0]) == [8, None, 0, 1]


def test_long_lists_fold_as_the_comparison_folds_them() -> None:
    parity_config: Any = importlib.import_module("parity_config")
    rows = [[size] for size in range(300, 0, -1)]
    folded = {"FULL": list(rows), "PIECEWISE": rows[:5], "inner": {"FULL": list(rows)}}
    errors.fold(folded)
    assert folded["FULL"] == folded["inner"]["FULL"] == parity_config._fold(rows)
    assert folded["PIECEWISE"] == rows[:5]


def test_errors_lose_paths_values_and_links() -> None:
    described = errors.Errors(Path("/home/someone/place")).describe(
        ValueError(
            "Value error, no [type=value_error, input_value={'a': [1]}, input_type=dict]\n"
            "    For further information visit https://example.org/x\nat /home/someone/place/models"
        ),
        "create_engine_config",
    )
    assert described["message"] == "Value error, no [type=value_error]\nat <workdir>/models"
    assert described["type"] == "ValueError"


def test_models_are_written_whole(tmp_path: Path) -> None:
    models.write(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("config.json")}
    models.write(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("config.json")} == before
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "config.json"]
