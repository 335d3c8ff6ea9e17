"""torch's CUDA graphs, as the engines need them.

They are captured without the collection of garbage and the emptying of caches that torch.cuda.graph does first, which
would mix what was released with what was taken.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any


class Recording:
    """How long it took to make a captured graph runnable.

    Attributes:
        instantiate_seconds: 0 until the capture has ended.
    """

    instantiate_seconds = 0.0


def new_graph() -> Any:
    """A graph that keeps its nodes to be counted; `recorded` instantiates it."""
    import torch

    return torch.cuda.CUDAGraph(keep_graph=True)


@contextmanager
def recorded(graph: Any, pool: Any) -> Iterator[Recording]:
    """Capture what is launched inside into `graph`, with its memory from `pool`.

    A failed capture is ended before the error goes on, so that the GPU can be used afterwards.
    """
    import torch

    found = Recording()
    stream = capture_stream(torch.cuda.current_device())
    torch.cuda.synchronize()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield found
        except BaseException:
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    at = time.perf_counter()
    graph.instantiate()
    found.instantiate_seconds = time.perf_counter() - at


@lru_cache(maxsize=8)
def capture_stream(device: int) -> Any:
    """The stream on which all captures of a GPU are made."""
    import torch

    return torch.cuda.Stream(device)


def kernel_nodes(graph: Any) -> int:
    """Nodes of a captured graph; 0 where the runtime library cannot be asked."""
    library = _runtime()
    if library is None:
        return 0
    count = ctypes.c_size_t(0)
    status = library.cudaGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    return int(count.value) if status == 0 else 0


@lru_cache(maxsize=1)
def _runtime() -> Any | None:
    """The CUDA runtime that torch has loaded into this process."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "libcudart" in line}
        return ctypes.CDLL(sorted(paths)[0]) if paths else None
    except OSError:
        return None


class _Memory:
    """Memory of a tensor for the array interface, without owning it."""

    def __init__(self, tensor: Any, typestr: str) -> None:
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * tensor.element_size() for stride in tensor.stride()),
            "typestr": typestr,
            "data": (tensor.data_ptr(), False),
            "version": 3,
        }


def without_claim(tensor: Any) -> Any:
    """A tensor over the same memory that does not keep it alive."""
    import torch

    letters = {1: "|i1", 2: "<i2", 4: "<i4", 8: "<i8"}
    flat = torch.as_tensor(_Memory(tensor, letters[tensor.element_size()]), device=tensor.device)
    return flat.view(tensor.dtype)
