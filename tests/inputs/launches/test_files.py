"""Files as texts, and folders as files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from cgplan.errors import InputError
from cgplan.inputs.launches import files


def test_text_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_bytes(b"\xef\xbb\xbfvllm serve m\r\n")
    assert files.load(path).text == "\ufeffvllm serve m\r\n"
    assert files.load(path).name == str(path)


@pytest.mark.parametrize(
    ("data", "code"),
    [("vllm".encode("utf-16"), "CG911"), (b"\x7fELF\0", "CG911"), (b"a\n\xff", "CG911")],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        files.load(path)
    assert caught.value.code == code
    assert caught.value.fix


def test_a_name_nearby(tmp_path: Path) -> None:
    (tmp_path / "deploy.yaml").write_text("a")
    with pytest.raises(InputError) as caught:
        files.load(tmp_path / "deply.yaml")
    assert caught.value.code == "CG910"
    assert caught.value.fix == "did you mean deploy.yaml?"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "/nowhere/at/all"])
def test_impossible_names(name: str) -> None:
    with pytest.raises(InputError) as caught:
        files.load(name)
    assert caught.value.code == "CG910"


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PATIENCE", 0.05)  # nobody writes into that pipe
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError) as caught:
            files.load(path)
        assert caught.value.code == "CG910"


def test_large_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with open(path, "wb") as file:
        file.truncate(100 * 2**20)
    with pytest.raises(InputError) as caught:
        files.load(path)
    assert caught.value.code == "CG914"
    assert list(files.walk([tmp_path])) == [files.Met(str(path), "over 1 MiB")]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"vllm serve m")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert files.load("-").text == "vllm serve m"
    Stdin.buffer = io.BytesIO(b"x" * (files.MAX_BYTES + 1))
    with pytest.raises(InputError) as caught:
        files.load("-")
    assert caught.value.code == "CG914"


def test_folders(tmp_path: Path) -> None:
    names = "b.yaml a.sh c.txt Dockerfile k/d.json .git/e.yaml node_modules/f.yaml v/pyvenv.cfg v/g.yaml skip/h.yaml"
    for name in names.split():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / "bin.yaml").write_bytes(b"a\0")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "plain").write_text("text")
    (tmp_path / "loop").symlink_to(tmp_path)
    met = list(files.walk([tmp_path], exclude=["skip"]))
    read = [os.path.relpath(one.path, tmp_path) for one in met if one.passed_over is None]
    assert read == ["Dockerfile", "a.sh", "b.yaml", "run", "k/d.json"]
    assert [one for one in met if one.passed_over] == [files.Met(str(tmp_path / "bin.yaml"), "binary")]
    assert list(files.walk([tmp_path / "c.txt", tmp_path / "c.txt"])) == [files.Met(str(tmp_path / "c.txt"))]


def test_links_to_nothing_and_back(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "no.yaml")
    (tmp_path / "round.yaml").symlink_to(tmp_path / "round.yaml")
    with pytest.raises(InputError, match="is a link to") as caught:
        files.load(tmp_path / "gone.yaml")
    assert "did you mean" not in str(caught.value.fix)
    with pytest.raises(InputError, match="leads back to itself"):
        files.load(tmp_path / "round.yaml")
    assert [one.passed_over for one in files.walk([tmp_path])] == ["a link to nothing", "not readable"]


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        list(files.walk([tmp_path / "no"]))
