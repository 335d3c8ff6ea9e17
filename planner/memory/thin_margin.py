"""A start that holds with little to spare, and how many requests or sizes less leave more free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, resolve
from ..trace import Finding
from .budget.budget import Budget
from .budget.rules import THIN_MARGIN
from .estimates import GIB
from .graphs.savings import in_place_of_sizes, size_fields
from .request import MemoryRequest, make_budget
from .verdict import surely_starts

LEAST_SEQS = 8
"""Fewer requests at once are not proposed."""


FEW_SEQS = 16
"""What a server of few users needs, named beside the most that do."""


class Margin(NamedTuple):
    """What surely stays free while idle, and by how much more than the best estimate the graphs may take; bytes."""

    free: int
    error: int

    @property
    def is_thin(self) -> bool:
        return self.free < self.error


def margin(made: Budget) -> Margin:
    """That of the pipeline stage with the least free."""
    stage = min(made.stages, key=lambda stage: stage.unused.low)
    return Margin(stage.unused.low, stage.graphs.high - stage.graphs.best)


def thin_margin(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, made: Budget
) -> tuple[Finding, ...]:
    """A note on a server that surely starts, with what was planned to leave more free; () where enough is.

    The bytes of the KV cache that are given leave free what they leave: that is the operator's choice.
    """
    now = margin(made)
    if made.is_manual or not now.is_thin:
        return ()
    free = f"{now.free / GIB:.2f} GiB surely stay free"
    if now.free < 0:
        free = f"at the low end of the estimates {-now.free / GIB:.2f} GiB are missing"
    text = (
        f"{free} while idle, and the graphs may take {now.error / GIB:.2f} GiB more"
        " than estimated: what is not modelled may end in CUDA out of memory"
    )
    ways = list(_ways(deployment, request, resolution, made))
    return (Finding(THIN_MARGIN.code, "info", text, ", or ".join(ways) or THIN_MARGIN.instead, "--max-num-seqs"),)


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
    return f" (graphs take {saved / GIB:.2f} GiB less, {margin(then).free / GIB:.2f} GiB surely stay free)"
