"""The GPU itself: is there one, how much of it is free, and who else uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import InputError

CONTEXT_BYTES = 600 << 20
"""The CUDA context, libraries and kernels of a process, about."""

PROFILE_EXTRA = "pip install 'cgplan[profile]'"


@dataclass(frozen=True)
class Device:
    """One GPU as torch and the driver see it.

    Attributes:
        name, total_bytes, free_bytes: now.
        capability: SM version, e.g. (9, 0).
        driver, torch, cuda: versions.
        notes: what makes measured values doubtful: other processes, MIG.
    """

    index: int
    name: str
    total_bytes: int
    free_bytes: int
    capability: tuple[int, int]
    driver: str
    torch: str
    cuda: str
    notes: tuple[str, ...] = ()


def torch_or_refuse() -> Any:
    """The module torch.

    Raises:
        InputError: CG990, it is not installed; CG991, it sees no GPU.
    """
    try:
        import torch
    except ImportError:
        raise InputError(
            "torch is not installed, and a GPU cannot be measured without it",
            code="CG990",
            where="cgplan profile",
            fix=f"{PROFILE_EXTRA}; --dry-run says without a GPU what would be captured",
        ) from None
    except OSError as error:
        raise InputError(
            f"torch cannot be loaded: {error}", code="CG990", where="cgplan profile", fix=f"{PROFILE_EXTRA} again"
        ) from None
    if not torch.cuda.is_available():
        raise InputError(
            _why_none(torch),
            code="CG991",
            where="cgplan profile",
            fix="run it on a machine with an NVIDIA GPU; --dry-run says without one what would be captured",
        )
    return torch


def _why_none(torch: Any) -> str:
    if torch.version.cuda is None:
        return f"this torch ({torch.__version__}) is built without CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU it can use: {first}"
    return "torch finds no GPU"


def look(index: int = 0) -> Device:
    """The GPU of this index.

    Raises:
        InputError: CG990, CG991, there is no torch or no such GPU.
    """
    torch = torch_or_refuse()
    count = torch.cuda.device_count()
    if index >= count:
        raise InputError(
            f"GPU {index} is asked for, and there are {count}",
            code="CG991",
            where="--device",
            fix=f"choose 0 to {count - 1}",
        )
    try:
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError as error:
        raise InputError(
            f"GPU {index} does not answer: {str(error).splitlines()[0]}",
            code="CG991",
            where="--device",
            fix="see whether nvidia-smi shows it, and what else runs on it",
        ) from None
    driver, notes = _driver(torch, index)
    return Device(
        index,
        torch.cuda.get_device_name(index),
        total,
        free,
        tuple(torch.cuda.get_device_capability(index)),
        driver,
        torch.__version__,
        torch.version.cuda or "",
        notes,
    )


def _driver(torch: Any, index: int) -> tuple[str, tuple[str, ...]]:
    """The driver's version, and who else is on the GPU. Without NVML: nothing."""
    try:
        import pynvml
    except ImportError:
        return "", ("other processes on the GPU are not seen: nvidia-ml-py is not installed",)
    notes = []
    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
        uuid = str(torch.cuda.get_device_properties(index).uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
        others = [p for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid != _own_pid()]
        if others:
            notes.append(f"{len(others)} other process(es) use this GPU: free memory may change under the measurement")
        if _has_mig(pynvml, handle):
            notes.append("the GPU is partitioned (MIG): values are of one partition")
        return (version.decode() if isinstance(version, bytes) else str(version)), tuple(notes)
    except pynvml.NVMLError:
        return "", ("the driver was not asked for other processes",)


def _has_mig(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False


def _own_pid() -> int:
    import os

    return os.getpid()


def check_room(device: Device, needed_bytes: int) -> None:
    """Refuse before anything is allocated.

    Raises:
        InputError: CG992, not enough memory is free.
    """
    if needed_bytes > device.free_bytes:
        gib = 1 << 30
        raise InputError(
            f"about {needed_bytes / gib:.1f} GiB are needed, and {device.free_bytes / gib:.1f} of "
            f"{device.total_bytes / gib:.1f} GiB are free on {device.name}",
            code="CG992",
            where=f"GPU {device.index}",
            fix="stop what else runs there, or spread the model over more GPUs with -tp",
        )
