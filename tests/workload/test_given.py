"""Sources of steps: two moments of a server, weights, addresses, and what a file of one's own lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from workload_helpers import METRICS

from cgplan import InputError
from cgplan.workload.sources.given import read_given, read_traffic
from cgplan.workload.sources.sources import read_sources

LOG = METRICS / "tables-two-engines.log"
ONE, TWO = str(METRICS / "moment-1.txt"), str(METRICS / "moment-2.txt")


def test_two_moments_are_one_part_and_mean_what_came_in_between() -> None:
    (found,) = read_traffic([ONE, TWO])
    between = read_sources([ONE, TWO]).together()
    alone = [part.workload.steps for name in (ONE, TWO) for part in read_traffic([name])]
    assert between is not None
    assert found.workload.steps == between.steps == alone[1] - alone[0]
    assert found.workload.batches == between.batches
    assert found.name == f"{TWO}, after {ONE}"


def test_other_files_beside_two_moments(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("kind,requests,query_len,count\ndecode,8,1,120\n")
    assert [part.name for part in read_traffic([ONE, str(own), TWO])] == [str(own), f"{TWO}, after {ONE}"]


def test_moments_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        read_traffic([TWO, ONE])
    assert caught.value.code == "CG718"


def test_with_weights_they_are_of_several_servers() -> None:
    found = read_traffic([f"{ONE}@1", f"{TWO}@3"])
    assert [(part.name, part.weight) for part in found] == [(ONE, 1.0), (TWO, 3.0)]
    with pytest.raises(InputError) as caught:
        read_traffic([ONE, TWO, ONE])
    assert caught.value.code == "CG905"
    assert "@1" in (caught.value.fix or "")


def test_an_address_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(address: str) -> str:
        asked.append(address)
        return Path(ONE).read_text(encoding="utf-8")

    monkeypatch.setattr("cgplan.workload.sources.given.fetch", answer)
    found = read_traffic(["http://10.0.0.1:8000?x=1@0.5", "http://user:pass@10.0.0.1:8000/x@1"])
    assert asked == ["http://10.0.0.1:8000?x=1", "http://user:pass@10.0.0.1:8000/x"]
    assert [(part.name, part.weight) for part in found] == [
        ("http://10.0.0.1:8000", 0.5),
        ("http://10.0.0.1:8000/x", 1.0),
    ]


def test_what_is_read_is_there_to_be_shown_too() -> None:
    (one,) = read_given([str(LOG)])
    assert len(one.gathered.parts) == 2
    assert one.gathered.together() == read_traffic([str(LOG)])[0].workload


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"foo,bar\n1,2\n", "the columns foo, bar, without tokens, or requests"),
        (b"kind;count\r\ndecode;3\r\n", "the columns kind, count, without tokens, or requests"),
        (b"kind,tokens,count\ndecode,8,x\n", "count: 'x' is no number"),
    ],
)
def test_a_csv_is_told_what_it_lacks(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_traffic([str(path)])
    assert said in caught.value.message
    assert caught.value.code == "CG718"


@pytest.mark.parametrize("text", ["INFO 11-30 09:00:00 [core.py:1] ready, set\na, b\n"])
def test_other_text_with_commas_is_no_csv(text: str, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_traffic([str(path)])
    assert caught.value.code == "CG725"


def test_an_empty_file_is_told_what_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    path.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_traffic([str(path)])
    assert "CSV or JSON" in (caught.value.fix or "")
