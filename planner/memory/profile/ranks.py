"""Tensor parallelism: one process a GPU, joined by NCCL. Under torchrun the processes are there already."""

from __future__ import annotations

import os
import queue as queues
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from .descriptors import Descriptor
from .measure import Measured, Told, measure
from .synthetic.shape import DecoderShape

SECONDS_TO_END = 20.0
"""How long the others may go on after one rank has failed: they wait for it in a collective."""


@dataclass(frozen=True)
class Work:
    """What each rank does."""

    shape: DecoderShape
    notes: tuple[str, ...]
    graphs: tuple[Descriptor, ...]
    sizes: tuple[int, ...]


def under_torchrun() -> tuple[int, int, int] | None:
    """Rank, number of ranks and local rank of a process that torchrun started; None: it did not."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", "0"))
    except (KeyError, ValueError):
        return None


def measure_one(work: Work, device: int, tell: Told) -> Measured:
    """Without other ranks, in this process."""
    return measure(_engine(work, device, None), work.graphs, work.sizes, tell)


def join(work: Work, tell: Told) -> list[Measured]:
    """As one of torchrun's ranks: what all ranks measured, on every rank.

    Raises:
        InputError: CG994, the number of ranks is not that of --tensor-parallel-size.
    """
    import torch.distributed as distributed

    found = under_torchrun()
    assert found is not None
    rank, world, local = found
    if world != work.shape.ranks:
        raise InputError(
            f"torchrun started {world} processes for --tensor-parallel-size {work.shape.ranks}",
            code="CG994",
            where="torchrun",
            fix=f"torchrun --nproc-per-node {work.shape.ranks}",
        )
    distributed.init_process_group("nccl")
    try:
        own = _measured(work, local, tell if rank == 0 else _silent)
        gathered: list[Any] = [None] * world
        distributed.all_gather_object(gathered, own)
        return gathered
    finally:
        distributed.destroy_process_group()


def spawn(work: Work, tell: Told) -> list[Measured]:
    """Start the ranks on this machine's GPUs.

    Raises:
        InputError: CG994, a rank failed; nothing of any rank is left running.
    """
    import multiprocessing

    start = multiprocessing.get_context("spawn")
    told = start.Queue()
    port = _free_port()
    ranks = [start.Process(target=_run, args=(work, rank, port, told), daemon=True) for rank in range(work.shape.ranks)]
    for process in ranks:
        process.start()
    found: dict[int, Measured] = {}
    try:
        failed = _collect(ranks, told, found, tell)
    finally:
        for process in ranks:
            if process.is_alive():
                process.terminate()
        for process in ranks:
            process.join(5)
    if failed:
        raise InputError(failed, code="CG994", where="--tensor-parallel-size", fix="see the other messages; try -tp 1")
    return [found[rank] for rank in sorted(found)]


def _collect(ranks: Sequence[Any], told: Any, found: dict[int, Measured], tell: Told) -> str:
    """Listen until every rank has said what it measured. Returns why not; "": all have."""
    import time

    deadline = None
    while len(found) < len(ranks):
        try:
            kind, rank, said = told.get(timeout=0.5)
        except queues.Empty:
            dead = [n for n, process in enumerate(ranks) if not process.is_alive() and n not in found]
            if dead and deadline is None:
                deadline = time.monotonic() + SECONDS_TO_END
            if deadline is not None and time.monotonic() > deadline:
                return f"rank {dead[0] if dead else 0} ended without a result"
            continue
        if kind == "progress":
            tell(*said)
        elif kind == "measured":
            found[rank] = said
        else:
            return f"rank {rank}: {said}"
    return ""


def _run(work: Work, rank: int, port: int, told: Any) -> None:
    """One rank's process."""
    import signal

    import torch.distributed as distributed

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends this
    try:
        address = f"tcp://127.0.0.1:{port}"
        distributed.init_process_group("nccl", init_method=address, rank=rank, world_size=work.shape.ranks)

        def tell(*said: Any) -> None:
            told.put(("progress", rank, said))

        told.put(("measured", rank, _measured(work, rank, tell if rank == 0 else _silent)))
    except BaseException as error:  # whatever it is, the parent must hear of it
        told.put(("failed", rank, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"))
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _measured(work: Work, device: int, tell: Told) -> Measured:
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(device)
    return measure(_engine(work, device, distributed.all_reduce), work.graphs, work.sizes, tell)


def _engine(work: Work, device: int, reduce: Any) -> Any:
    from .synthetic.engine import SyntheticEngine

    return SyntheticEngine(work.shape, work.notes, device, reduce)


def _silent(what: str, done: int, of: int, free: int) -> None:
    """The progress of other ranks is that of the first."""


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
