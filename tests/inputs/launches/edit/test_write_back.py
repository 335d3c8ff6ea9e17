"""A text back into its file, whole or not at all; and as a patch."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.launches import Source
from cgplan.inputs.launches.edit import write_back as module
from cgplan.inputs.launches.edit.write_back import diff_of, write_back

OLD = "\ufeffvllm serve m\r\n# é\n"
NEW = OLD.replace("m", "n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "start.sh"
    path.write_bytes(OLD.encode())
    path.chmod(0o750)
    return path


def source_of(path: Path) -> Source:
    return Source(str(path), OLD)


def test_the_file_is_rewritten_and_keeps_its_mode(file: Path) -> None:
    write_back(file, source_of(file), NEW)
    assert file.read_bytes() == NEW.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert os.listdir(file.parent) == ["start.sh"]


def test_a_symbolic_link_stays_one(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.sh"
    link.symlink_to(os.path.join("..", file.name))
    write_back(link, source_of(link), NEW)
    assert link.is_symlink()
    assert file.read_bytes() == NEW.encode()
    assert os.listdir(folder) == ["link.sh"]


@pytest.mark.parametrize("content", [b"other", OLD.encode()[3:], b"\xff\xfe", b""])
def test_a_file_that_has_changed_is_left_alone(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError, match="changed since") as caught:
        write_back(file, source_of(file), NEW)
    assert caught.value.code == "CG910"
    assert file.read_bytes() == content
    assert os.listdir(file.parent) == ["start.sh"]


def test_a_read_only_file_is_left_alone(file: Path) -> None:
    file.chmod(0o440)
    with pytest.raises(InputError, match="read-only"):
        write_back(file, source_of(file), NEW)
    assert file.read_bytes() == OLD.encode()


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_loses_nothing(file: Path, monkeypatch: pytest.MonkeyPatch, fault: int, step: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(module.os, step, fail)
    with pytest.raises(InputError, match=r"cannot be written.*as it was") as caught:
        write_back(file, source_of(file), NEW)
    assert "\n" not in caught.value.message
    assert file.read_bytes() == OLD.encode()
    assert os.listdir(file.parent) == ["start.sh"]


def test_an_interrupt_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_back(file, source_of(file), NEW)
    assert file.read_bytes() == OLD.encode()
    assert os.listdir(file.parent) == ["start.sh"]


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no regular file"):
        write_back(tmp_path, Source("x", OLD), NEW)
    with pytest.raises(InputError, match="cannot be written"):
        write_back(tmp_path / "gone", Source("x", OLD), NEW)


def test_half_a_character_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match="Unicode"):
        write_back(file, source_of(file), "\ud800")
    assert file.read_bytes() == OLD.encode()


def test_a_diff() -> None:
    lines = [f"line {number}\n" for number in range(1, 21)]
    old = "".join(lines)
    new = old.replace("line 3\n", "").replace("line 18\n", "line 18\nmore\n")
    assert diff_of(Source("./k8s/a.yaml", old), new) == (
        "--- a/k8s/a.yaml\n+++ b/k8s/a.yaml\n"
        "@@ -1,6 +1,5 @@\n line 1\n line 2\n-line 3\n line 4\n line 5\n line 6\n"
        "@@ -16,5 +15,6 @@\n line 16\n line 17\n line 18\n+more\n line 19\n line 20\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        ("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        ("a\r\nb\r\n", "a\r\n", "@@ -1,2 +1 @@\n a\r\n-b\r\n"),
        ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
        ("a\x0cb\u2028\n", "a\n", "@@ -1 +1 @@\n-a\x0cb\u2028\n+a\n"),
    ],
)
def test_the_ends_of_a_diff(old: str, new: str, body: str) -> None:
    assert diff_of(Source("x", old), new) == f"--- a/x\n+++ b/x\n{body}"


def test_names_in_a_diff() -> None:
    def first(name: str) -> str:
        return diff_of(Source(name, "a\n"), "b\n").split("\n")[0]

    assert diff_of(Source("x", "a\n"), "a\n") == ""
    assert first("/etc/a b.sh") == "--- a/etc/a b.sh\t"
    assert first('q"\n') == '--- "a/q\\"\\012"'
    assert first("") == "--- a/line"
    assert first("-") == "--- a/-"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n"]), max_size=14), st.data())
def test_git_makes_the_new_text_of_a_diff(tmp_path: Path, lines: list[str], data: st.DataObject) -> None:
    changed = list(lines)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.lists(st.sampled_from(["x\n", "a\n"]), max_size=2)
        )
    tail = data.draw(st.sampled_from(["", "end"]))
    old, new = "".join(lines), "".join(changed) + tail
    if old == new or not old or not new:
        return
    path = tmp_path / "f.txt"
    path.write_bytes(old.encode())
    patch = diff_of(Source("f.txt", old), new)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode(), cwd=tmp_path, check=True)
    assert path.read_bytes() == new.encode()
