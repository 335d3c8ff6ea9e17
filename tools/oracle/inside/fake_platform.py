"""A CUDA platform without a GPU: vLLM's own class for CUDA, with every answer of the driver replaced."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

POOL = ("no-graph-pool",)


class Device:
    """The GPU that is faked now. The capability never changes in a process; the rest comes with each record."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.name = "none yet"
        self.memory_bytes = 80 << 30
        self.sm_count = 132
        self.count = 8
        self.integrated = False

    def become(self, asked: dict[str, Any]) -> None:
        """Take the values of a record's device."""
        self.name = asked["name"]
        self.memory_bytes = asked["memory_bytes"]
        self.sm_count = asked.get("sm_count", 132)
        self.count = asked.get("count", 8)
        self.integrated = asked.get("integrated", False)


def install_torch(torch: Any, device: Device) -> None:
    """torch.cuda answers for the faked device, and tensors for it are made without memory."""

    def properties(*args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(
            name=device.name,
            major=device.capability[0],
            minor=device.capability[1],
            total_memory=device.memory_bytes,
            is_integrated=device.integrated,
            multi_processor_count=device.sm_count,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            shared_memory_per_block_optin=232448,
            shared_memory_per_multiprocessor=233472,
            regs_per_multiprocessor=65536,
        )

    cuda = torch.cuda
    cuda.get_device_capability = lambda *a, **k: device.capability
    cuda.get_device_properties = properties
    cuda.get_device_name = lambda *a, **k: device.name
    cuda.device_count = lambda: device.count
    cuda.current_device = lambda: 0
    cuda.graph_pool_handle = lambda *a, **k: POOL
    for name in ("empty", "zeros", "ones", "full"):
        setattr(torch, name, _without_memory(getattr(torch, name)))


def _without_memory(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> Any:
        if str(kwargs.get("device")).startswith("cuda"):
            kwargs["device"] = "meta"
            kwargs.pop("pin_memory", None)
        return make(*args, **kwargs)

    return made


def install_platform(device: Device) -> None:
    """Make vLLM's current platform the faked one."""
    import vllm.platforms as platforms
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    base: Any = NonNvmlCudaPlatform
    answers: dict[str, Any] = {
        "get_device_capability": lambda cls, device_id=0: DeviceCapability(*device.capability),
        "get_device_name": lambda cls, device_id=0: device.name,
        "get_device_total_memory": lambda cls, device_id=0: device.memory_bytes,
        "is_integrated_gpu": lambda cls, device_id=0: device.integrated,
        "num_compute_units": lambda cls, device_id=0: device.sm_count,
        "device_count": lambda cls: device.count,
        "is_fully_connected": lambda cls, ids: True,
        "get_global_graph_pool": lambda cls: POOL,
        "graph_pool_handle": lambda cls: POOL,
    }
    made: Any = type("FakedCudaPlatform", (base,), {name: classmethod(f) for name, f in answers.items()})
    platforms._current_platform = made()
    from vllm.utils import torch_utils

    if hasattr(torch_utils, "cuda_device_count_stateless"):
        torch_utils.cuda_device_count_stateless = lambda: device.count
