"""The environment of one release: a virtual environment with CPU builds, and the unpacked source distribution.

Under the root folder, which is `--root`, $CGPLAN_ORACLE_ROOT or ~/.cache/cgplan-oracle:

    venv-TORCH/          interpreter, torch and vLLM's plain dependencies, shared by releases that want the same torch
    sources/vllm-X.Y.Z/  the source distribution; nothing of it is built
    work/                model configurations and caches
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

DEFAULT_ROOT = Path.home() / ".cache" / "cgplan-oracle"
TORCH = "2.13.0"

# Servers' and tracing packages that the configuration code never imports; some need a compiler.
UNUSED = re.compile(r"(opencv|mcp|anthropic|opentelemetry)", re.IGNORECASE)
BUILD_TOOLS = ("setuptools>=77", "setuptools-scm", "setuptools-rust", "wheel", "packaging", "jinja2", "cmake", "ninja")


class SetupError(Exception):
    """The environment could not be built, or is not there."""


@dataclass(frozen=True)
class Environment:
    """Where one release's interpreter, sources and working files are."""

    release: str
    root: Path
    torch: str = TORCH

    @property
    def venv(self) -> Path:
        return self.root / f"venv-{self.torch}"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def sources(self) -> Path:
        return self.root / "sources" / f"vllm-{self.release}"

    @property
    def workdir(self) -> Path:
        return self.root / "work"

    def check(self) -> Environment:
        """Itself, where it is complete.

        Raises:
            SetupError: with the command that builds what is missing.
        """
        missing = [str(path) for path in (self.python, self.sources) if not path.exists()]
        if missing:
            fix = f"python tools/oracle setup {self.release} --root {self.root}"
            raise SetupError(f"not there: {', '.join(missing)}; build it with: {fix}")
        return self


def locate(release: str, root: Path | None, torch: str | None = None) -> Environment:
    """The environment of a release under a root; it need not exist yet."""
    chosen = root or Path(os.environ.get("CGPLAN_ORACLE_ROOT", DEFAULT_ROOT))
    return Environment(release, chosen.expanduser().absolute(), torch or TORCH)


def setup(environment: Environment) -> None:
    """Build what is missing; minutes for the first release, seconds for each further one."""
    environment.workdir.mkdir(parents=True, exist_ok=True)
    if not environment.python.exists():
        print(f"making {environment.venv}", flush=True)
        venv.create(environment.venv, with_pip=True)
        _pip(environment, "install", *BUILD_TOOLS)
        _pip(environment, "install", f"torch=={environment.torch}")
    if not environment.sources.exists():
        print(f"fetching the source distribution of vLLM {environment.release}", flush=True)
        _unpack(environment, _download(environment))
    ready = environment.venv / f"ready-for-{environment.release}"
    if not ready.exists():
        print(f"installing the dependencies of vLLM {environment.release}", flush=True)
        before = _installed(environment)
        _install_dependencies(environment)
        if _installed(environment) != before:
            # A package may have changed under the other releases: they are looked at again when they are named.
            for other in environment.venv.glob("ready-for-*"):
                other.unlink()
        ready.touch()


def _installed(environment: Environment) -> str:
    """What is installed, with versions."""
    command = [str(environment.python), "-m", "pip", "freeze", "--disable-pip-version-check"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _pip(environment: Environment, *arguments: str, **variables: str) -> None:
    command = [str(environment.python), "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check"]
    finished = subprocess.run([*command, *arguments[1:]], env={**os.environ, **variables}, check=False)
    if finished.returncode:
        raise SetupError(f"pip {' '.join(arguments)} failed")


def _download(environment: Environment) -> Path:
    """The source archive. pip asks it for its metadata, which vLLM gives without a compiler for an empty target."""
    folder = environment.root / "downloads"
    _pip(
        environment,
        "download",
        "--no-deps",
        "--no-binary",
        "vllm",
        "--no-build-isolation",
        "--dest",
        str(folder),
        f"vllm=={environment.release}",
        VLLM_TARGET_DEVICE="empty",
        VLLM_VERSION_OVERRIDE=environment.release,
    )
    return folder / f"vllm-{environment.release}.tar.gz"


def _unpack(environment: Environment, archive: Path) -> None:
    environment.sources.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        if sys.version_info >= (3, 12):
            tar.extractall(environment.sources.parent, filter="data")
        else:
            tar.extractall(environment.sources.parent)
    archive.unlink()


def _install_dependencies(environment: Environment) -> None:
    """What vLLM imports everywhere. Versions already chosen by an earlier release stay where they satisfy this one."""
    text = (environment.sources / "requirements" / "common.txt").read_text(encoding="utf-8")
    wanted = environment.root / f"requirements-{environment.release}.txt"
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    wanted.write_text("\n".join(line for line in lines if not UNUSED.match(line)) + "\n", encoding="utf-8")
    _pip(environment, "install", "--requirement", str(wanted), f"torch=={environment.torch}", "numba")
    # Of torchvision only the build for this torch can be imported: 0.28 belongs to 2.13, and so on.
    vision = int(environment.torch.split(".")[1]) + 15
    _pip(environment, "install", "--no-deps", f"torchvision==0.{vision}.*", "gguf")
