"""A start that holds with little to spare, and how many requests or sizes less leave more free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, resolve
from ..trace import Finding
from .budget.budget import Budget
from .budget.rules import THIN_MARGIN
from .budget.shortages import MORE_LOGITS, warm_up_room, warm_up_spare
from .estimates import GIB
from .graphs.savings import in_place_of_sizes, size_fields
from .levers import MOST_LOWER
from .request import MemoryRequest, make_budget
from .verdict import surely_starts

LEAST_SEQS = 8
"""Fewer requests at once are not proposed."""


FEW_SEQS = 16
"""What a server of few users needs, named beside the most that do."""


class Margin(NamedTuple):
    """How much there is to spare, bytes.

    Attributes:
        free: what surely stays free while idle.
        error: by how much more than the best estimate the graphs may take.
        spare: what stays free of the sampler's warm-up after capture, less what an advised value keeps for it.
    """

    free: int
    error: int
    spare: float = 0.0

    @property
    def is_thin(self) -> bool:
        return self.free < self.error or self.spare < 0


def margin(made: Budget) -> Margin:
    """That of the pipeline stage with the least free."""
    stage = min(made.stages, key=lambda stage: stage.unused.low)
    return Margin(stage.unused.low, stage.graphs.high - stage.graphs.best, warm_up_spare(made))


def is_thin(made: Budget) -> bool:
    """Whether a start that holds has little to spare. Bytes that are given leave what they leave: the operator's
    choice."""
    return not made.is_manual and margin(made).is_thin


def thin_margin(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, made: Budget
) -> tuple[Finding, ...]:
    """A note on a server that surely starts, with what was planned to leave more free; () where enough is."""
    if not is_thin(made):
        return ()
    now = margin(made)
    if now.free < now.error:
        text = (
            f"{now.free / GIB:.2f} GiB surely stay free while idle, and the graphs may take {now.error / GIB:.2f} GiB"
            " more than estimated: what is not modelled may end in CUDA out of memory"
        )
    else:
        text = (
            f"{warm_up_room(made) / GIB:.2f} GiB are to spare when the sampler is warmed up after capture with"
            f" {resolution.max_num_seqs} rows; {MORE_LOGITS} copies of their logits,"
            f" {(warm_up_room(made) - now.spare) / GIB:.2f} GiB, may come that are not counted, and what is free is in"
            " pieces then"
        )
    ways = [*_shares(deployment, request, made), *_ways(deployment, request, resolution, made)]
    return (Finding(THIN_MARGIN.code, "info", text, ", or ".join(ways) or THIN_MARGIN.instead, "--max-num-seqs"),)


def _shares(deployment: Deployment, request: MemoryRequest, made: Budget) -> Iterator[str]:
    """The largest smaller share, where the sampler's warm-up is what has little to spare: it is no matter of graphs."""
    if margin(made).free < margin(made).error:
        return
    top = int(made.utilization * 100 + 1e-9)
    for hundredth in range(top - 1, max(0, top - MOST_LOWER - 1), -1):
        lower = replace(request, flags=replace(request.flags, utilization=hundredth / 100))
        then = _planned(deployment, lower)
        if then is not None:
            yield f"--gpu-memory-utilization {hundredth / 100:.2f}{_freed(made, then)}"
            return


def _ways(deployment: Deployment, request: MemoryRequest, resolution: Resolution, made: Budget) -> Iterator[str]:
    seqs = resolution.max_num_seqs // 2
    while seqs >= LEAST_SEQS:
        then = _planned(deployment.model_copy(update={"max_num_seqs": seqs}), request)
        if then is not None:
            yield f"--max-num-seqs {seqs}{_freed(made, then)}"
            few = (
                _planned(deployment.model_copy(update={"max_num_seqs": FEW_SEQS}), request) if seqs > FEW_SEQS else None
            )
            if few is not None and few.tightest.graphs.best < then.tightest.graphs.best:
                yield f"--max-num-seqs {FEW_SEQS}{_freed(made, few)}"
            break
        seqs //= 2
    sizes = resolution.capture_sizes
    largest = sizes[-1] // 2 if sizes else 0
    while sizes and largest >= sizes[0]:
        found = max(size for size in sizes if size <= largest)
        then = _planned(deployment.model_copy(update=size_fields(deployment, largest=found)), request)
        if then is not None:
            price = f"; {in_place_of_sizes(deployment)}batches above {found} tokens then run eager"
            yield f"--max-cudagraph-capture-size {found}{_freed(made, then)}{price}"
            break
        largest //= 2


def _planned(deployment: Deployment, request: MemoryRequest) -> Budget | None:
    """The budget of a change with which it surely starts, with a margin that is not thin; or None."""
    try:
        made, _ = make_budget(deployment, resolve(deployment), request)
    except CgplanError:
        return None
    return made if not margin(made).is_thin and surely_starts(deployment, request) else None


def _freed(made: Budget, then: Budget) -> str:
    """What the graphs take less, and what then stays free."""
    saved = made.tightest.graphs.best - then.tightest.graphs.best
    less = f"graphs take {saved / GIB:.2f} GiB less, " if saved > 0 else ""
    return f" ({less}{margin(then).free / GIB:.2f} GiB surely stay free)"
