"""The files of --workload."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest
from workload_helpers import METRICS

from cgplan import InputError
from cgplan.workload.sources.given import read_traffic
from cgplan.workload.sources.sources import read_sources

LOG = METRICS / "tables-two-engines.log"


def test_a_log_with_tables() -> None:
    (found,) = read_traffic([str(LOG)])
    assert (found.workload.steps, found.weight, found.is_measured) == (793, None, True)


def test_a_packed_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG.read_bytes()))
    assert read_traffic([str(path)])[0].workload.steps == 793


def test_metrics_and_files_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("kind,requests,query_len,count\ndecode,8,1,120\n")
    document = tmp_path / "own.json"
    document.write_text('[{"kind": "mixed", "tokens": 30, "count": 5}]')
    names = [str(METRICS / "moment-1.txt"), str(own), str(document)]
    assert [part.workload.steps for part in read_traffic(names)] == [186, 120, 5]


def test_weights(tmp_path: Path) -> None:
    odd = tmp_path / "own.csv@2"
    odd.write_text("tokens\n8\n")
    assert [part.weight for part in read_traffic([f"{LOG}@0.3", str(odd), f"{odd}@4"])] == [0.3, None, 4.0]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"tokens,count\n8,3\n")))
    (found,) = read_traffic(["-"])
    assert (found.name, found.workload.steps) == ("stdin", 3)


@pytest.mark.parametrize(
    ("text", "code"),
    [(b"nothing of steps\n", "CG725"), (b"", "CG718"), (b"tokens,count\n8,x\n", "CG718"), (b"\0\1\2", "CG718")],
)
def test_what_cannot_be_used(text: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_traffic([str(path)])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["/no/such/file"], "CG986"),
        (["-", "-@2"], "CG905"),
        ([f"{LOG}@0"], "CG906"),
        ([f"{LOG}@1e308"], "CG906"),
        ([f"{LOG}@nan"], "CG906"),
        (["http://127.0.0.1:9"], "CG719"),
        ([str(METRICS / f"moment-{at}.txt") for at in (1, 2, 2)], "CG905"),
    ],
)
def test_names_that_cannot_be_used(given: list[str], code: str) -> None:
    with pytest.raises(InputError) as caught:
        read_traffic(given)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("own.csv", "foo,bar\n1,2\n", "columns foo, bar, without tokens"),
        ("own.csv", "size\n1\n", "columns size"),
        ("own.txt", "foo;bar\n1;2\n", "columns foo, bar"),
        ("own.txt", "nothing of steps\n", "tells of no steps"),
        ("own.txt", "Starting the server, wait\n", "tells of no steps"),
        ("own.csv", "", "is empty"),
    ],
)
def test_what_is_missing_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_traffic([str(path)])


def test_metrics_have_no_weights() -> None:
    with pytest.raises(InputError, match="no weights") as caught:
        read_sources([f"{METRICS / 'moment-1.txt'}@0.3"])
    assert caught.value.code == "CG905"
    assert read_sources([str(METRICS / "moment-1.txt")]).parts
