"""Install size and cold start of cgplan and of programs near it, each in a bare virtual environment of its own.

    python tools/bench/peers.py

The packages come from pip's index. A cold start is `--help`: it is the one thing that all of them do without a GPU and
without a network.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RUNS = 15


class Peer(NamedTuple):
    """A program: what pip installs, the words that show its help, what it does, and what is installed beside it."""

    package: str
    words: tuple[str, ...]
    does: str
    beside: tuple[str, ...] = ()


class Measured(NamedTuple):
    """MiB on disk beside an empty environment, packages, and milliseconds of a cold start."""

    peer: Peer
    version: str
    mebibytes: float
    packages: int
    milliseconds: float


OURS = Peer("cgplan", ("cgplan", "--help"), "says which CUDA graphs vLLM captures, plans its memory, checks launches")
PEERS = (
    OURS,
    Peer("hf-mem", ("hf-mem", "--help"), "estimates the memory of weights and KV cache; asks a model hub"),
    Peer("gpustat", ("gpustat", "--help"), "shows what runs on the GPUs of this machine; plans nothing"),
    Peer(
        "accelerate",
        ("accelerate", "estimate-memory", "--help"),
        "estimates the memory of weights; needs torch, here without CUDA",
        ("torch==2.13.0",),
    ),
)


def measured() -> tuple[list[Measured], list[str]]:
    """Each program that could be installed, and a line for each that could not."""
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name) / "empty"
        venv.create(empty, with_pip=True)
        base, there = _size(empty), []
        left_out = []
        for peer in PEERS:
            folder = Path(name) / peer.package
            venv.create(folder, with_pip=True)
            what = str(_copy(Path(name))) if peer is OURS else peer.package
            done = _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", what, *peer.beside])
            if done.returncode != 0:
                left_out.append(f"{peer.package}: pip could not install it")
                continue
            there.append((peer, folder))
        found = []
        for peer, folder in there:
            command = [str(folder / "bin" / peer.words[0]), *peer.words[1:]]
            if _run(command).returncode != 0:
                left_out.append(f"{peer.package}: {' '.join(peer.words)} failed")
                continue
            size, (version, packages) = _size(folder) - base, _listed(folder, peer.package)
            found.append(Measured(peer, version, size, packages, _start(command)))
    return found, left_out


def page() -> str:
    """The section of docs/benchmarks.md."""
    found, left_out = measured()
    lines = [
        "| program | version | on disk, MiB | packages | cold `--help`, ms | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        figures = f"{one.mebibytes:,.0f} | {one.packages} | {one.milliseconds:,.0f}"
        lines.append(f"| {one.peer.package} | {one.version} | {figures} | {one.peer.does} |")
    return "\n".join([*lines, *(f"\nLeft out: {line}." for line in left_out)]) + "\n"


def _copy(folder: Path) -> Path:
    """The project's files in a folder of their own: a build leaves files where it is made."""
    copy = folder / "source"
    for part in ("planner", "cli"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for page in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / page, copy / page)
    return copy


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _size(folder: Path) -> float:
    """MiB of the files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 2**20


def _listed(folder: Path, package: str) -> tuple[str, int]:
    """Its version, and how many packages there are beside pip and setuptools."""
    done = _run([str(folder / "bin" / "python"), "-m", "pip", "list", "--format", "freeze"])
    names = dict(line.split("==") for line in done.stdout.split() if "==" in line)
    return names[package], len(names.keys() - {"pip", "setuptools"})


def _start(command: list[str]) -> float:
    """The median of RUNS, milliseconds."""
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        _run(command)
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


if __name__ == "__main__":
    sys.stdout.write(page())
