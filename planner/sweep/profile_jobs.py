"""`cgplan profile` for each deployment of a sweep that starts, in a process of its own: here, or on GPU nodes of Ray.

Options of memory do not count: deployments that differ in them alone are measured once.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Container, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..errors import CgplanError, shorten
from .grid import KEY_BYTES, Grid
from .job import Job, Measure
from .options import HUMAN, MEMORY, TABLES, is_ignored
from .rules import NO_ANSWER

COMMAND = (sys.executable, "-m", "cgplan", "profile")
LONGEST = 3600
"""Seconds of one measurement."""
NO_TORCH = "CG990"
"""Code of a machine that can measure nothing at all."""


def jobs_of(grid: Grid, starting: Container[str]) -> list[Job]:
    """The measurements of the deployments whose keys are in `starting`, each once."""
    found: dict[tuple[str, ...], Job] = {}
    names = [axis.name for axis in grid.axes]
    ranks = names.index("tensor_parallel_size") if "tensor_parallel_size" in names else None
    gpu = names.index("gpu")
    for number in grid.numbers():
        at = grid.positions(number)
        if grid.key(at) not in starting:
            continue
        words = words_of(grid, at)
        if words not in found:
            digest = blake2b(f"profile {grid.version} {shlex.join(words)}".encode(), digest_size=KEY_BYTES)
            value = grid.axes[ranks].values[at[ranks]] if ranks is not None else None
            gpus = int(value.content) if value is not None and value.given else 1
            found[words] = Job(digest.hexdigest(), words, gpus, str(grid.axes[gpu].values[at[gpu]].shown))
    return list(found.values())


def words_of(grid: Grid, positions: Sequence[int]) -> tuple[str, ...]:
    """The deployment as options of `cgplan profile`."""
    found: list[str] = []
    for axis, at in sorted(zip(grid.axes, positions, strict=True)):
        value = axis.values[at]
        if not value.given or axis.name in MEMORY or is_ignored(axis.name):
            continue
        head, dot, key = axis.name.partition(".")
        if head in ("env", "software"):
            # Not as it is shown, which is without keys and passwords.
            pairs = {key: value.content} if dot else value.content
            found += [word for name, text in pairs.items() for word in (f"--{head}", f"{name}={_text(text)}")]
            continue
        found += _option(head, key, value.shown, value.content)
    return tuple(found)


def _option(name: str, key: str, shown: Any, content: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if key:
        # The name of a model stands in `shown`, its shape in `content`.
        inner = shown if isinstance(content, bool) or not isinstance(content, (list, dict, int, float)) else content
        return [flag, json.dumps({key: inner})]
    if name in TABLES:
        return [flag, str(shown)]
    if isinstance(content, bool):
        return [flag if content else f"--no-{flag[2:]}"]
    if isinstance(content, (list, tuple)):
        return [flag, ",".join(map(str, content))]
    if name in HUMAN:
        return [flag, "auto" if content == -1 else str(content)]
    return [flag, str(shown)]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def measure(words: Sequence[str], folder: str, command: Sequence[str] = COMMAND) -> dict[str, Any]:
    """Run one measurement on this machine. Never raises.

    Args:
        folder: where paths of models begin.
        command: of `cgplan profile`.

    Returns:
        code and message of an error, or None; and the record, or None.
    """
    beside = folder if Path(folder).is_dir() else None
    try:
        done = subprocess.run(
            [*command, *words, "--json", "-"], capture_output=True, cwd=beside, timeout=LONGEST, text=True, check=False
        )
        document = json.loads(done.stdout)
        error = document.get("error")
    except subprocess.TimeoutExpired:
        return _failed(f"it took more than {LONGEST} seconds")
    except (OSError, ValueError, AttributeError):
        return _failed("cgplan profile gave no record")
    if error is not None:
        return {"code": error["code"], "message": error["message"], "profile": None}
    return {"code": None, "message": None, "profile": document}


def _failed(message: str) -> dict[str, Any]:
    return {"code": NO_ANSWER.code, "message": message, "profile": None}


def run_jobs(jobs: Sequence[Job], folder: str, ray: str | None, measured: Measure = measure) -> Iterator[str]:
    """The records of the jobs, as lines of JSON, in the order in which they are done.

    Args:
        folder: where paths of models begin.
        ray: address of a Ray cluster; None: here, one after the other.
        measured: what a process does for a job.

    Raises:
        CgplanError: CG990, a machine can measure nothing; CG738, as `run_on_ray`.
    """
    if ray is not None:
        from .on_ray import run_on_gpus

        results: Iterator[tuple[Job, dict[str, Any]]] = run_on_gpus(jobs, folder, ray, measured)
    else:
        results = ((job, measured(job.words, folder)) for job in jobs)
    for job, found in results:
        if found["code"] == NO_TORCH:
            raise CgplanError(
                shorten(str(found["message"]), 200),
                code=NO_TORCH,
                where="--measure",
                fix="install cgplan[profile] where it measures, and start again: what is done is kept",
            )
        yield json.dumps({"key": job.key, "options": shlex.join(job.words), **found}, separators=(",", ":"))
