"""Settings with which CUDA graphs take less memory, and what they cost in return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...resolve import Resolution
from ...vocabulary import CUDAGraphMode
from .memory import GraphMemory

_FEW_SPLITS = 8


@dataclass(frozen=True)
class Change:
    """Another setting.

    Attributes:
        text: as typed, beside the launch as it is but for what `price` says that it stands in the place of.
        fields: of the Deployment.
        price: what is lost in return, and first of all what of the launch it replaces.
    """

    text: str
    fields: dict[str, Any]
    price: str


def changes(deployment: Deployment, resolution: Resolution, memory: GraphMemory) -> Iterator[Change]:
    """Settings with which capture takes less."""
    lora = resolution.lora
    if deployment.specialize_active_lora and lora is not None and len(lora.cases) > 2:
        idle = lora.idle_cases(resolution.max_num_seqs)
        price = "one set of graphs then serves any number of adapters, whose kernels skip none that a batch has not"
        if idle:
            price += f"; no batch runs in the sets for {lora.in_words(idle)}"
        yield Change("no --specialize-active-lora", {"specialize_active_lora": False}, price)
    sizes = _powers(resolution.max_capture_size)
    if sizes and len(sizes) < len(resolution.capture_sizes):
        yield Change(
            "--cudagraph-capture-sizes " + " ".join(map(str, sizes)),
            size_fields(deployment, sizes=sizes),
            in_place_of_sizes(deployment) + "batches between two sizes are padded further, to up to twice their tokens",
        )
    for mode, price in _MODES.get(resolution.cudagraph_mode, ()):
        options = deployment.compilation_config.model_copy(update={"cudagraph_mode": mode})
        price = _as_key("--compilation-config", deployment.compilation_config) + price
        yield Change(f"-cc.cudagraph_mode={mode}", {"compilation_config": options}, price)
    if memory.workspace.best:
        fewer = {"flash_attn_max_num_splits_for_cuda_graph": _FEW_SPLITS}
        yield Change(
            f"--attention-config.flash_attn_max_num_splits_for_cuda_graph={_FEW_SPLITS}",
            {"attention_config": deployment.attention_config.model_copy(update=fewer)},
            _as_key("--attention-config", deployment.attention_config)
            + "attention of few requests with long contexts keeps fewer multiprocessors busy",
        )


def size_fields(
    deployment: Deployment, *, sizes: tuple[int, ...] | None = None, largest: int | None = None
) -> dict[str, Any]:
    """The fields of a deployment with these sizes, or this largest one, in the place of all that it says of sizes."""
    options = deployment.compilation_config.model_copy(
        update={"cudagraph_capture_sizes": None, "max_cudagraph_capture_size": None}
    )
    return {
        "cudagraph_capture_sizes": sizes,
        "max_cudagraph_capture_size": largest,
        "compilation_config": options,
    }


def in_place_of_sizes(deployment: Deployment) -> str:
    """What of the launch has to go where sizes, or the largest one, are given as a flag; "": nothing.

    vLLM refuses a largest size that is not that of the list, and a flag beside the same key of --compilation-config.
    """
    asked, options = deployment, deployment.compilation_config
    names = [
        name
        for name, value in (
            ("--cudagraph-capture-sizes", asked.cudagraph_capture_sizes),
            ("cudagraph_capture_sizes of --compilation-config", options.cudagraph_capture_sizes),
            ("--max-cudagraph-capture-size", asked.max_cudagraph_capture_size),
            ("max_cudagraph_capture_size of --compilation-config", options.max_cudagraph_capture_size),
        )
        if value is not None
    ]
    return f"in the place of {' and '.join(names)}; " if names else ""


def _as_key(flag: str, given: BaseModel) -> str:
    """A dotted key behind a JSON text of the same option takes all of that away."""
    return f"as a key of the {flag} that is given; " if given.model_dump(exclude_none=True, exclude_unset=True) else ""


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
