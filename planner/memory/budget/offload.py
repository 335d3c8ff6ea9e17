"""Weights that stay on the CPU: --cpu-offload-gb and the groups of layers that are fetched ahead.

Source: vllm/model_executor/offloader/ (base.py create_offloader, uva.py, prefetch.py) and models/utils.py make_layers
@ 0.33.0. Embedding and head are no layers and stay on the GPU; the KV cache's own offloading takes no weights away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...deployment import Deployment
from ...errors import StartupError
from ...releases import canonical, holds
from ..estimates import GIB, Interval, between


class Piece(NamedTuple):
    """Parameters of one rank that are moved together.

    Attributes:
        name: with dots, without the layer: "mlp.experts.w2_weight".
        layer: decoder layer, or None: the encoder.
        size: bytes.
        parts: parameters that it is made of.
    """

    name: str
    layer: int | None
    size: int
    parts: int = 1


def backend(deployment: Deployment) -> str | None:
    """ "uva", "prefetch" or None: no weight is moved."""
    named = deployment.offload_backend
    if named == "auto":
        named = "prefetch" if deployment.offload_group_size else "uva"
    if named == "uva":
        return "uva" if deployment.cpu_offload_gb else None
    return "prefetch" if deployment.offload_group_size else None


def check(deployment: Deployment) -> None:
    """vllm/config/offload.py, OffloadConfig.validate_offload_config.

    Raises:
        StartupError: the groups are impossible.
    """
    if deployment.offload_backend != "prefetch" and not deployment.offload_group_size:
        return
    if deployment.offload_num_in_group > deployment.offload_group_size:
        text = f"offload_num_in_group ({deployment.offload_num_in_group}) is above offload_group_size"
        raise _refused("--offload-num-in-group", f"{text} ({deployment.offload_group_size})", "give a smaller number")
    if deployment.offload_prefetch_step < 1:
        raise _refused("--offload-prefetch-step", "offload_prefetch_step is below 1", "give 1 or more")


def _refused(where: str, message: str, fix: str) -> StartupError:
    return StartupError(message, code="CG903", raised_in="OffloadConfig", where=where, fix=fix)


def left_on_gpu(deployment: Deployment, total: Interval, pieces: Iterable[Piece], layers: range) -> Interval:
    """The weights of a stage that its GPU keeps.

    Args:
        total: all of them.
        pieces: those of its layers and encoder.
        layers: of the stage.
    """
    which = backend(deployment)
    if which == "uva":
        found = [piece for piece in pieces if _is_named(piece, deployment.cpu_offload_params)]
        if not holds(canonical(deployment.vllm), "0.29.0"):
            found = [piece for piece in found if piece.layer is not None]
        eligible = sum(piece.size for piece in found)
        moved = min(int(deployment.cpu_offload_gb * GIB), eligible)
        # The parameter that passes the limit is moved as a whole.
        over = min(eligible - moved, max((piece.size // piece.parts for piece in found), default=0))
        return _less(total, moved, over, "--cpu-offload-gb")
    if which == "prefetch":
        return _less(total, _in_groups(deployment, list(pieces), layers), 0, "--offload-group-size")
    return total


def _in_groups(deployment: Deployment, pieces: list[Piece], layers: range) -> int:
    """What the layers at the end of each group have, less the buffers that they are fetched into."""
    group, number = deployment.offload_group_size, deployment.offload_num_in_group
    chosen = {layer for index, layer in enumerate(layers) if index % group >= group - number}
    own = [p for p in pieces if p.layer in chosen and _is_named(p, deployment.offload_params)]
    buffers = {(piece.name, piece.size): piece.size for piece in own}
    moved = sum(piece.size for piece in own)
    return max(0, moved - deployment.offload_prefetch_step * sum(buffers.values()))


def _is_named(piece: Piece, names: tuple[str, ...]) -> bool:
    return not names or any(f".{name}." in f".{piece.name}." for name in names)


def _less(total: Interval, moved: int, over: int, flag: str) -> Interval:
    source = f"{total.source}; {moved / GIB:.2f} GiB on the CPU by {flag}"
    low = max(0, total.low - moved - over)
    return between(low, max(low, total.best - moved), max(low, total.high - moved), source)
