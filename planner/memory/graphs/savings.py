"""What other settings would buy back of the memory that CUDA graphs take, and what they cost in return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...deployment import Deployment
from ...errors import StartupError
from ...light_dataclass import dataclass
from ...resolve import Resolution, resolve
from ...resolve.memory_deduction import VARIABLE, graph_memory_deducted
from ...vocabulary import CUDAGraphMode
from .memory import GraphMemory, predict_graph_memory

_FEW_SPLITS = 8


@dataclass(frozen=True)
class Saving:
    """One change and its worth.

    Attributes:
        change: the setting, as typed.
        taken: bytes that capture takes less on each GPU.
        kept_back: bytes that vLLM keeps back less from the KV cache; what the KV cache grows by.
        price: what is lost in return.
    """

    change: str
    taken: int
    kept_back: int
    price: str


@dataclass(frozen=True)
class Change:
    """Another setting.

    Attributes:
        text: as typed.
        fields: of the Deployment.
        price: what is lost in return.
    """

    text: str
    fields: dict[str, Any]
    price: str


def graph_savings(deployment: Deployment, resolution: Resolution, memory: GraphMemory) -> tuple[Saving, ...]:
    """Changes that leave more memory, the largest first.

    Args:
        memory: what `predict_graph_memory` says of the deployment as it is.
    """
    found = []
    for change in changes(deployment, resolution, memory):
        saving = _worth(deployment, resolution, memory, change)
        if saving is not None:
            found.append(saving)
    found.sort(key=lambda saving: (-saving.taken, -saving.kept_back))
    return (*found, *_switch(deployment, resolution, memory))


def _worth(deployment: Deployment, resolution: Resolution, memory: GraphMemory, change: Change) -> Saving | None:
    """`change` resolved anew; None: vLLM refuses it, or it saves nothing."""
    try:
        changed = deployment.model_copy(update=change.fields)
        then = resolve(changed)
    except StartupError:
        return None
    after = predict_graph_memory(changed, then)
    taken = memory.total.best - after.total.best
    if taken <= 0:
        return None
    kept = _kept_back(deployment, resolution, memory) - _kept_back(changed, then, after)
    return Saving(change.text, taken, kept, change.price)


def _kept_back(deployment: Deployment, resolution: Resolution, memory: GraphMemory) -> int:
    if memory.estimate is None:
        return 0
    deduction = graph_memory_deducted(deployment, deployment.vllm, resolution.runner, resolution.cudagraph_mode)
    return memory.estimate.best if deduction.deducted else 0


def changes(deployment: Deployment, resolution: Resolution, memory: GraphMemory) -> Iterator[Change]:
    """Settings with which capture takes less."""
    sizes = _powers(resolution.max_capture_size)
    if (
        sizes
        and len(sizes) < len(resolution.capture_sizes)
        and deployment.compilation_config.cudagraph_capture_sizes is None
    ):
        yield Change(
            "--cudagraph-capture-sizes " + " ".join(map(str, sizes)),
            {"cudagraph_capture_sizes": sizes, "max_cudagraph_capture_size": None},
            "batches between two sizes are padded further, to up to twice their tokens",
        )
    for mode, price in _MODES.get(resolution.cudagraph_mode, ()):
        options = deployment.compilation_config.model_copy(update={"cudagraph_mode": mode})
        yield Change(f"-cc.cudagraph_mode={mode}", {"compilation_config": options}, price)
    if memory.workspace.best:
        fewer = {"flash_attn_max_num_splits_for_cuda_graph": _FEW_SPLITS}
        yield Change(
            f"--attention-config.flash_attn_max_num_splits_for_cuda_graph={_FEW_SPLITS}",
            {"attention_config": deployment.attention_config.model_copy(update=fewer)},
            "attention of few requests with long contexts keeps fewer multiprocessors busy",
        )


_MODES = {
    CUDAGraphMode.FULL_AND_PIECEWISE: (
        (CUDAGraphMode.PIECEWISE, "decode batches launch attention from the CPU"),
        (CUDAGraphMode.FULL_DECODE_ONLY, "batches with a prefill run without graphs"),
        (CUDAGraphMode.NONE, "every batch launches its kernels from the CPU"),
    ),
    CUDAGraphMode.FULL: (
        (CUDAGraphMode.FULL_DECODE_ONLY, "batches with a prefill run without graphs"),
        (CUDAGraphMode.NONE, "every batch launches its kernels from the CPU"),
    ),
    CUDAGraphMode.PIECEWISE: ((CUDAGraphMode.NONE, "every batch launches its kernels from the CPU"),),
    CUDAGraphMode.FULL_DECODE_ONLY: ((CUDAGraphMode.NONE, "every batch launches its kernels from the CPU"),),
}


def _powers(largest: int) -> tuple[int, ...]:
    """1, 2, 4 ... and the largest size."""
    if largest < 1:
        return ()
    powers = [1 << bit for bit in range(largest.bit_length()) if 1 << bit < largest]
    return (*powers, largest)


def _switch(deployment: Deployment, resolution: Resolution, memory: GraphMemory) -> tuple[Saving, ...]:
    """The environment switch: it saves nothing of what capture takes, only what is kept back for it."""
    kept = _kept_back(deployment, resolution, memory)
    if not kept:
        return ()
    price = "capture takes its memory all the same: leave at least that much outside --gpu-memory-utilization"
    return (Saving(f"{VARIABLE}=0", 0, kept, price),)
