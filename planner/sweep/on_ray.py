"""A sweep on a Ray cluster: the same chunks as tasks, which Ray starts again where a process or a node is gone."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import CgplanError, InputError, shorten
from .evaluate import Evaluator
from .grid import Grid
from .job import Job, Measure
from .rules import NO_CLUSTER
from .work import Chunk, worker

RETRIES = 10
"""How often Ray starts a task again whose process or node is gone."""
AT_ONCE = 3
"""Tasks that wait for each CPU of the cluster."""
LOCAL = "local"
SECONDS = 10
"""How long an address may take to answer."""

_kept: list[tuple[str, Evaluator]] = []
"""Of a process of Ray: the evaluator of the sweep that it worked for last."""


def run_on_ray(grid: Grid, chunks: Iterable[Chunk], address: str, jobs: int) -> Iterator[list[str]]:
    """The records of the chunks, as lines of JSON, in the order in which they are done.

    Args:
        address: of the cluster, "10.0.0.1:6379", "ray://...", "auto"; "local": one on this machine for this sweep.
        jobs: CPUs of a local one.

    Raises:
        InputError: CG738, Ray is not installed or the cluster cannot be reached.
        CgplanError: CG738, a task failed again and again. What is done was given before.
    """
    ray = _started(address, jobs)
    try:
        yield from _results(ray, grid, chunks)
    finally:
        ray.shutdown()


def _results(ray: Any, grid: Grid, chunks: Iterable[Chunk]) -> Iterator[list[str]]:
    shared, name = ray.put(grid), ray.get_runtime_context().get_job_id()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(work_on)
    most = max(2, AT_ONCE * int(ray.cluster_resources().get("CPU", 1)))
    yield from _done(ray, (task.remote(shared, name, list(chunk)) for chunk in chunks), most)


def _done(ray: Any, tasks: Iterable[Any], most: int) -> Iterator[Any]:
    """The results of tasks, of which at most so many are handed in at a time."""
    rest = iter(tasks)
    running: list[Any] = []
    while True:
        while len(running) < most and (task := next(rest, None)) is not None:
            running.append(task)
        if not running:
            return
        done, running = ray.wait(running, num_returns=1)
        try:
            found = ray.get(done[0])
        except ray.exceptions.RayError as error:
            said = shorten(" ".join(str(error).split()), 160)
            raise CgplanError(
                f"a task of Ray failed: {said}",
                code=NO_CLUSTER.code,
                where="--ray",
                fix="see that all nodes have this version of cgplan, and start again: what is done is kept",
            ) from None
        yield found


def run_on_gpus(
    jobs: Sequence[Job], folder: str, address: str, measured: Measure
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Each job with its result, on nodes that have the GPUs.

    Raises:
        InputError, CgplanError: CG738, as `run_on_ray`.
    """
    ray = _started(address, None)
    try:
        kinds = ray.cluster_resources()
        largest = max((int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
        fitting = []
        for job in jobs:
            if job.gpus <= largest:
                fitting.append(job)
                continue
            message = f"it takes {job.gpus} GPUs of one node, and the cluster's largest has {largest}"
            yield job, {"code": NO_CLUSTER.code, "message": message, "profile": None}

        def task(job: Job) -> Any:
            # A node of another GPU would refuse it; Ray names the kinds that it knows.
            kind = f"accelerator_type:{job.gpu.upper()}"
            more = {"resources": {kind: 0.001}} if kind in kinds else {}
            remote = ray.remote(num_gpus=job.gpus, num_cpus=1, max_retries=RETRIES, **more)(_with_its_job)
            return remote.remote(job, folder, measured)

        yield from _done(ray, map(task, fitting), max(2, AT_ONCE * int(kinds.get("GPU", 1))))
    finally:
        ray.shutdown()


def _with_its_job(job: Job, folder: str, measured: Measure) -> tuple[Job, dict[str, Any]]:
    return job, measured(job.words, folder)


def work_on(grid: Grid, name: str, chunk: Chunk) -> list[str]:
    """A task: the records of a chunk."""
    if not _kept or _kept[0][0] != name:
        _kept[:] = [(name, worker(grid))]
    return _kept[0][1].lines(chunk)


def _knock(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _nobody(address, getattr(error, "strerror", None) or str(error)) from None


def _nobody(address: str, why: str) -> InputError:
    return InputError(
        f"no Ray cluster at {shorten(address, 80)}: {shorten(' '.join(why.split()), 160)}",
        code=NO_CLUSTER.code,
        where="--ray",
        fix="give the address of a running cluster, or local",
    )


def _started(address: str, jobs: int | None) -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "--ray needs the package ray", code=NO_CLUSTER.code, where="--ray", fix="pip install 'cgplan[ray]'"
        ) from None
    _knock(address)
    before = signal.getsignal(signal.SIGTERM)
    quiet: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:
        raise _nobody(address, str(error)) from None
    with contextlib.suppress(ValueError, TypeError):  # not in the main thread, or set by something else
        signal.signal(signal.SIGTERM, before)  # Ray has put its own into its place
    return ray
