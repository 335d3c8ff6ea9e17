"""Answers of vLLM's own command-line parsers, replayed; and that the replay would notice a difference."""

from __future__ import annotations

import copy
import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cgplan.inputs.serve_args_errors import CODES
from cgplan.releases import SUPPORTED

pytest.importorskip("yaml")

parity: Any = importlib.import_module("parity")
GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden-args"
Record = dict[str, Any]


@cache
def records(release: str) -> list[Record]:
    return list(parity.records(GOLDEN / f"{release}.jsonl.gz"))


@pytest.mark.parametrize("release", SUPPORTED)
def test_records_match(release: str) -> None:
    wrong = [f"{r['id']}: {text}" for r in records(release) if (text := parity.compare(r)) is not None]
    assert not wrong, "\n".join(wrong[:10])


def test_every_end_is_covered() -> None:
    everything = [(release, record["output"]) for release in SUPPORTED for record in records(release)]
    kinds = {output["error"].get("kind") for _, output in everything if not output["ok"]}
    assert kinds >= set(list(CODES)[:8])
    stages = {output["stage"] for _, output in everything if not output["ok"]}
    assert stages >= {"parse", "validate", "main"}
    for release in SUPPORTED:
        assert sum(output["ok"] for own, output in everything if own == release) > 60


def test_every_change_is_noticed() -> None:
    accepted = [r for r in records("0.33.0") if r["output"]["ok"] and r["output"]["args"]][:40]
    for record in accepted:
        for dest in record["output"]["args"]:
            changed = copy.deepcopy(record)
            changed["output"]["args"][dest] = "something else"
            assert f"args.{dest}" in parity.compare(changed)
            del changed["output"]["args"][dest]
            assert f"args.{dest}" in parity.compare(changed)
        assert "vLLM refuses" in parity.compare({**record, "output": {"ok": False, "stage": "parse", "error": _ERROR}})


_ERROR = {"type": "SystemExit", "kind": "unrecognized", "message": "..."}


def test_a_wrong_refusal_is_noticed() -> None:
    refused = [r for r in records("0.33.0") if (r["output"].get("error") or {}).get("option")][:40]
    for record in refused:
        for key, value in (("kind", "else"), ("type", "ValueError"), ("option", "--else")):
            changed = json.loads(json.dumps(record))
            changed["output"]["error"][key] = value
            assert f"error.{key}" in parity.compare(changed)
