"""The package: one version, a licence, types, and archives that hold what they should."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import typed_client
from wheels import contents

import cgplan

ROOT = contents.ROOT


def test_the_version_is_from_one_place() -> None:
    assert cgplan.__version__ == contents.version()
    assert "version" not in contents.project()["project"]
    places = [
        path.relative_to(ROOT).as_posix()
        for folder in ("planner", "cli", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(rf"""["']{re.escape(contents.version())}["']""", path.read_text(encoding="utf-8"))
    ]
    assert places == ["planner/_version.py"]
    assert f"## {contents.version()}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licence_is_the_one_declared() -> None:
    assert contents.project()["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


def test_every_dependency_has_a_floor() -> None:
    for pin in (*contents.lowest((3, 10)), *contents.lowest((3, 13))):
        assert re.fullmatch(r"[a-z]+==[0-9.]+", pin), pin
    assert set(contents.lowest((3, 10))) - set(contents.lowest((3, 13))) == {"tomli==2"}


def test_sources_are_code_types_and_data() -> None:
    assert {Path(name).suffix for name in contents.sources()} == {
        ".py",
        ".typed",
        ".toml",
        ".gz",
        ".css",
        ".log",
        ".csv",
    }


def archive_of(folder: Path, kind: str, names: set[str]) -> Path:
    path = folder / f"cgplan.{kind}"
    if kind == "whl":
        with zipfile.ZipFile(path, "w") as wheel:
            for name in names:
                wheel.writestr(name, "")
    else:
        with tarfile.open(path, "w:gz") as sdist:
            for name in names:
                sdist.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_an_archive_holds_what_it_should_and_nothing_else(tmp_path: Path, kind: str) -> None:
    names = contents.of_wheel() if kind == "whl" else contents.of_sdist()
    assert contents.faults(archive_of(tmp_path, kind, names)) == []
    typed = next(name for name in names if name.endswith("/py.typed"))
    wrong = contents.faults(archive_of(tmp_path, kind, {*names, "tests/test_trace.py"} - {typed}))
    assert wrong == [
        f"{typed} is not in cgplan.{kind}",
        f"tests/test_trace.py should not be in cgplan.{kind}",
    ]


def test_types_are_marked() -> None:
    spec = find_spec("cgplan")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").exists()


def test_the_typed_client_runs() -> None:
    """`.ci/run` has mypy read the same file."""
    deployment = typed_client.asked(100)
    assert typed_client.graphs(deployment)[:2] == (cgplan.CUDAGraphMode.FULL_DECODE_ONLY, 100)
    assert typed_client.starts(deployment) == "yes"
    assert typed_client.errors("vllm serve Qwen/Qwen3-8B --bogus 1") != []
    assert typed_client.refused("ls") == "CG905"
