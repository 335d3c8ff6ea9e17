"""The GPUs of this machine, asked of the driver through NVML. No driver, no answer, no error."""

from __future__ import annotations

import os
from typing import Any

from ..sections import Gpu

MOST_SECONDS = 2.0
"""A driver without persistence mode may need seconds to wake; nobody waits for that."""

CORES_PER_SM = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
"""CUDA cores of one multiprocessor by compute capability; 128 elsewhere."""

DRIVER_NODES = ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg", "/dev/nvhost-ctrl", "/dev/nvgpu")
"""One of them exists where a driver of NVIDIA does: on Linux, under WSL, on Jetson."""


def detect() -> tuple[Gpu, int] | None:
    """The first GPU and the number of GPUs, or None where NVML or a driver is absent or does not answer."""
    if os.name == "posix" and not any(map(os.path.exists, DRIVER_NODES)):
        return None  # importing NVML for nothing is a tenth of a short command's time
    try:
        import pynvml
    except ImportError:
        return None
    from threading import Thread

    answers: list[tuple[Gpu, int]] = []

    def ask() -> None:
        try:
            found = _ask(pynvml)
        except Exception:
            return
        if found is not None:
            answers.append(found)

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(MOST_SECONDS)
    return answers[0] if answers else None


def _ask(nvml: Any) -> tuple[Gpu, int] | None:
    nvml.nvmlInit()
    try:
        count = nvml.nvmlDeviceGetCount()
        if not count:
            return None
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        name = nvml.nvmlDeviceGetName(handle)
        name = name.decode() if isinstance(name, bytes) else name
        capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
        return _gpu(nvml, handle, name, (capability[0], capability[1])), count
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, handle: Any, name: str, capability: tuple[int, int]) -> Gpu:
    """The GPU as NVML tells; the catalogue knows what NVML does not (memory that is shared with the CPU)."""
    from ..releases.gpus import known_as

    known = known_as(name)
    try:
        memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        if known is None:
            raise
        memory = known.memory_bytes
    try:
        sm_count = int(nvml.nvmlDeviceGetNumGpuCores(handle)) // CORES_PER_SM.get(capability, 128)
    except (nvml.NVMLError, AttributeError):
        if known is None:
            raise
        sm_count = known.sm_count
    return Gpu(
        name=name,
        capability=capability,
        memory_bytes=memory,
        sm_count=sm_count,
        integrated=known is not None and known.integrated,
    )
