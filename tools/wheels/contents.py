"""What the wheel and the sdist must hold, and nothing else."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDERS = {"planner": "cgplan", "cli": "cgplan/cli"}
"""Of each folder of the project, its place in the wheel."""
PAGES = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"}
OF_WHEEL = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
OF_SDIST = {"PKG-INFO", "setup.cfg"}
EGG = {"PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "requires.txt", "top_level.txt"}


def project() -> dict[str, Any]:
    """pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def version() -> str:
    """cgplan's own, from the one place that has it."""
    found = re.search(
        r'^__version__ = "([^"]+)"$', (ROOT / "planner" / "_version.py").read_text(encoding="utf-8"), re.M
    )
    assert found is not None
    return found[1]


def sources() -> set[str]:
    """Files of the package, as the project has them."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def of_wheel() -> set[str]:
    """Names in the wheel."""
    info = f"cgplan-{version()}.dist-info"
    inside = {f"{FOLDERS[name.split('/')[0]]}/{name.split('/', 1)[1]}" for name in sources()}
    return inside | {f"{info}/{name}" for name in OF_WHEEL}


def of_sdist() -> set[str]:
    """Names in the sdist."""
    return {f"cgplan-{version()}/{name}" for name in sources() | PAGES | OF_SDIST} | {
        f"cgplan-{version()}/cgplan.egg-info/{name}" for name in EGG
    }


def names(archive: Path) -> set[str]:
    """The files in a wheel or an sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        return {member.name for member in sdist.getmembers() if member.isfile()}


def faults(archive: Path) -> list[str]:
    """What is missing from an archive, and what should not be in it."""
    found, expected = names(archive), of_wheel() if archive.suffix == ".whl" else of_sdist()
    return [*_each("is not in", expected - found, archive), *_each("should not be in", found - expected, archive)]


def lowest(python: tuple[int, int] = sys.version_info[:2]) -> list[str]:
    """The declared dependencies, each pinned to the lowest version allowed."""
    pins = []
    for dependency in project()["project"]["dependencies"]:
        requirement, _, marker = dependency.partition(";")
        if marker and python >= (3, 11):  # the one marker there is: python_version < '3.11'
            continue
        pins.append(requirement.strip().replace(">=", "=="))
    return pins


def _each(what: str, missing: Iterable[str], archive: Path) -> list[str]:
    return [f"{name} {what} {archive.name}" for name in sorted(missing)]
