"""The parsed form of the TOML files that comes with them."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cgplan import releases

tool: Any = importlib.import_module("build_tables")


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    releases.table.cache_clear()
    releases._kept.cache_clear()
    yield
    releases.table.cache_clear()
    releases._kept.cache_clear()


def test_it_is_that_of_the_files_as_they_stand() -> None:
    kept = json.loads(gzip.decompress((files(releases) / "tables.json.gz").read_bytes()))
    assert kept == tool.build(tool.RELEASES), "run tools/build_tables.py"


def test_every_table_is_its_file() -> None:
    for path in tool.RELEASES.glob("*.toml"):
        assert releases.table(path.stem) == releases.parse(path.read_bytes())


def test_a_file_that_changed_since_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text("x = 1")
    (tmp_path / "b.toml").write_text("x = 1")
    (tmp_path / "tables.json.gz").write_bytes(gzip.compress(json.dumps(tool.build(tmp_path)).encode()))
    (tmp_path / "b.toml").write_text("x = 2")
    (tmp_path / "new.toml").write_text("x = 3")
    monkeypatch.setattr(releases, "files", lambda package: tmp_path)
    monkeypatch.setattr(releases, "parse", lambda raw: raw.decode())
    assert [releases.table(topic) for topic in ("a", "b", "new")] == [{"x": 1}, "x = 2", "x = 3"]
