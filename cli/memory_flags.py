"""The options of commands that plan memory: flags of vLLM that size the KV cache, and values that were measured.

Like those of `options.py` they are read at every start, so the annotations are not postponed.
"""

from typing import Annotated, Any, Optional

from .options import DeploymentOptions, flag

MEMORY = "Memory"
MEASURED = "Measured values"

_Text = Optional[str]  # noqa: UP045


def _memory(name: str, help: str, metavar: str = "N") -> Any:
    return flag(name, panel=MEMORY, help=help, metavar=metavar)


def _measured(name: str, help: str, metavar: str = "N") -> Any:
    return flag(name, panel=MEASURED, help=help, metavar=metavar)


class CacheSizeOptions(DeploymentOptions):
    """What vLLM itself takes to size the KV cache."""

    gpu_memory_utilization: Annotated[
        _Text, _memory("--gpu-memory-utilization", "Share of the GPU that vLLM asks for, above 0 to 1.", "X")
    ] = None
    kv_cache_memory_bytes: Annotated[
        _Text, _memory("--kv-cache-memory-bytes", "KV cache of each GPU, in the place of what is left.")
    ] = None


class MemoryFlagOptions(CacheSizeOptions):
    """What a plan takes beside it."""

    kv_bytes: Annotated[
        _Text, _memory("--kv-bytes", "Bytes of KV cache of each GPU that are known; the budget is left out.")
    ] = None
    weights_bytes: Annotated[_Text, _measured("--weights-bytes", "Weights of one GPU.")] = None
    activation_bytes: Annotated[
        _Text, _measured("--activation-bytes", "Peak activation of one GPU, without the estimate of graphs.")
    ] = None
    non_torch_bytes: Annotated[_Text, _measured("--non-torch-bytes", "Memory outside torch.")] = None
    graph_bytes: Annotated[_Text, _measured("--graph-bytes", "What capture takes.")] = None
    graph_estimate_bytes: Annotated[
        _Text, _measured("--graph-estimate-bytes", "What vLLM estimates for its graphs.")
    ] = None
    free_bytes: Annotated[_Text, _measured("--free-bytes", "Free memory of the GPU before the start.")] = None
    total_bytes: Annotated[_Text, _measured("--total-bytes", "Memory of the GPU as CUDA has it.")] = None
    profile: Annotated[
        _Text, _measured("--profile", "A measured record of this deployment, of `logs --save` or `profile`.", "FILE")
    ] = None
    weights: Annotated[
        _Text, _measured("--weights", "Folder of the model's safetensors files; their headers are read.", "DIR")
    ] = None
