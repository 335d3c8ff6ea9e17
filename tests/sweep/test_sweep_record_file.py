"""Records are only added to a file, a torn last line is mended, and a file of something else stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.sweep.record_file import RecordFile

LINES = [json.dumps({"key": f"{at:024x}", "fits": True, "n": "é" * at}, separators=(",", ":")) for at in range(4)]
WHOLE = ("\n".join(LINES) + "\n").encode()


def lines_of(path: Path) -> list[str]:
    with RecordFile(str(path)) as file:
        return [line for line, _ in file.records()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@given(end=st.integers(0, len(WHOLE)))
def test_cut_off_anywhere_the_whole_lines_stay(folder: Path, end: int) -> None:
    path = folder / "cut.jsonl"
    path.write_bytes(WHOLE[:end])
    kept = lines_of(path)
    whole = WHOLE[:end].count(b"\n")
    # A line that only lacks its end is a whole one.
    assert len(kept) in (whole, whole + 1)
    assert kept == LINES[: len(kept)]
    assert len(kept) == whole or WHOLE[end : end + 1] == b"\n"
    with RecordFile(str(path)) as file:
        file.add(LINES[len(kept) :])
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize(
    "raw",
    [
        b"hello", b"hello\n", b"\n\nhello\n", b"[]\n", b'{"key": 1}\n', b'{"key":"a"}\n', b"\0\0", b'{"other":1}',
        WHOLE + b"hello", LINES[0].encode() + b"\nhello\n" + WHOLE, b'{"key":"a","starts"\n' + WHOLE,
    ],
)  # fmt: skip
def test_a_file_of_something_else_stays_as_it_is(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        lines_of(path)
    assert caught.value.code == "CG736"
    assert path.read_bytes() == raw


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="no locks on this system")
    path = str(tmp_path / "records.jsonl")
    with RecordFile(path):
        with pytest.raises(InputError) as caught:
            RecordFile(path)
        assert caught.value.code == "CG736"
    RecordFile(path).__exit__()


@pytest.mark.parametrize("name", [".", "nowhere/records.jsonl", "a\0b"])
def test_a_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        RecordFile(str(tmp_path / name))
    assert caught.value.code == "CG910"


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"\n" + WHOLE.replace(b"\n", b"\r\n\n  \n"))
    assert lines_of(path) == LINES


def test_one_bad_line_among_records_is_to_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(WHOLE + LINES[0][:20].encode() + b"\n" + WHOLE)
    with pytest.raises(InputError) as caught:
        lines_of(path)
    assert "line 5 " in caught.value.message
    assert (caught.value.fix or "").startswith("delete line 5")
    kept = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(kept[:4] + kept[5:]))
    assert lines_of(path) == LINES * 2


def test_a_file_whose_first_line_is_none_is_somebody_elses(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"hello\n" + WHOLE)
    with pytest.raises(InputError) as caught:
        lines_of(path)
    assert caught.value.fix == "name another file"
