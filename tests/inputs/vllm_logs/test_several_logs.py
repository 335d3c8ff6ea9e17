"""`cgplan logs a.log b.log`: several files as one log."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgplan.errors import InputError
from cgplan.inputs.vllm_logs import read_logs

LINE = "INFO 09-03 10:00:01 [api_server.py:1] vLLM API server version {}\n"
ARGUMENTS = "INFO 09-03 10:00:02 [api_server.py:2] non-default args: {'model_tag': 'org/M'}\n"


def log(folder: Path, name: str, release: str = "0.30.0") -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(LINE.format(release) + ARGUMENTS)
    return str(path)


class TestFiles:
    def test_each_start_names_its_file(self, tmp_path: Path) -> None:
        found = read_logs([log(tmp_path, "a.log"), log(tmp_path, "b.log", "0.31.0")])
        assert [(start.file, start.vllm_version, start.first_line) for start in found.starts] == [
            ("a.log", "0.30.0", 1),
            ("b.log", "0.31.0", 1),
        ]
        assert found.lines == 4

    def test_of_one_file_it_is_not_said(self, tmp_path: Path) -> None:
        (start,) = read_logs([log(tmp_path, "a.log")]).starts
        assert (start.file, start.where) == ("", "")

    def test_the_same_name_in_two_folders(self, tmp_path: Path) -> None:
        names = [log(tmp_path / "one", "s.log"), log(tmp_path / "two", "s.log")]
        assert [start.file for start in read_logs(names).starts] == names

    def test_a_file_without_a_start_is_said(self, tmp_path: Path) -> None:
        other = tmp_path / "c.log"
        other.write_text("nothing of vLLM\n")
        found = read_logs([log(tmp_path, "a.log"), str(other)])
        assert len(found.starts) == 1
        assert any(remark.startswith("c.log: it has no line of a start") for remark in found.remarks)

    def test_one_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as error:
            read_logs([log(tmp_path, "a.log"), str(tmp_path / "gone.log")])
        assert "gone.log" in error.value.message

    def test_too_many_or_stdin_twice(self, tmp_path: Path) -> None:
        one = log(tmp_path, "a.log")
        for names in (["-", "-", one], [one] * 65):
            with pytest.raises(InputError) as error:
                read_logs(names)
            assert error.value.code == "CG905"


class TestWordsWithoutQuotationMarks:
    def test_they_are_read_as_words(self) -> None:
        (start,) = read_logs(["No", "available", "memory", "for", "the", "cache", "blocks"]).starts
        assert start.crash is not None
        assert start.crash.kind == "no_blocks"

    def test_not_where_one_is_a_file(self, tmp_path: Path) -> None:
        names = [log(tmp_path, "a.log"), *["available", "memory", "for", "the", "cache", "blocks"]]
        with pytest.raises(InputError):
            read_logs(names)
