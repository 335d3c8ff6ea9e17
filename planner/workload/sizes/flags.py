"""The options that set a choice, and what of the launch of today they replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...deployment import Deployment
from ...vocabulary import CUDAGraphMode


class Flags(NamedTuple):
    """Options of `vllm serve` to add, and what of the launch they replace, in words."""

    add: tuple[str, ...]
    replaces: tuple[str, ...]

    @property
    def line(self) -> str:
        return " ".join(self.add)


def flags_of(
    deployment: Deployment, sizes: Sequence[int], mode: CUDAGraphMode | None = None, max_num_seqs: int | None = None
) -> Flags:
    """What to add to the launch of today, which stays as it is but for what these options replace.

    A largest size that is said has to be that of the list, or vLLM does not start; so that another one goes.
    """
    asked, options = deployment, deployment.compilation_config
    add = [f"--cudagraph-capture-sizes {' '.join(map(str, sizes))}"] if sizes else []
    replaces = []
    if sizes and asked.cudagraph_capture_sizes is not None:
        replaces.append("--cudagraph-capture-sizes")
    if sizes and options.cudagraph_capture_sizes is not None:
        replaces.append("cudagraph_capture_sizes of --compilation-config")
    if sizes and asked.max_cudagraph_capture_size not in (None, sizes[-1]):
        replaces.append(f"--max-cudagraph-capture-size {asked.max_cudagraph_capture_size}")
    if sizes and options.max_cudagraph_capture_size not in (None, sizes[-1]):
        replaces.append(f"max_cudagraph_capture_size {options.max_cudagraph_capture_size} of --compilation-config")
    if mode is not None:
        add.append(f"-cc.cudagraph_mode={mode}")
        if options.cudagraph_mode is not None:
            replaces.append("cudagraph_mode of --compilation-config")
    if max_num_seqs is not None:
        add.append(f"--max-num-seqs {max_num_seqs}")
        if asked.max_num_seqs is not None:
            replaces.append(f"--max-num-seqs {asked.max_num_seqs}")
    return Flags(tuple(add), tuple(replaces))
