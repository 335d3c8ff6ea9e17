"""How far the limits of a deployment go: the largest --max-model-len and --max-num-seqs that start.

The whole plan is asked at every value, so a value that is named gives the same answer when it is applied.
"""

from __future__ import annotations

from collections.abc import Callable

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import resolve
from .budget.shortages import warm_up_room
from .limits import Verdict, largest_model_len
from .request import MemoryRequest, make_budget
from .verdict import fits_by_best, surely_starts, verdict_or_none

MOST_SEQS = 8192
"""Largest max_num_seqs that is looked for."""
_ROUNDS = 3

Starts = Callable[[Deployment, MemoryRequest], bool]


def longest_model_len(
    deployment: Deployment, request: MemoryRequest, *, surely: bool = False, most: int | None = None
) -> int:
    """The longest max_model_len that starts, tokens; 0: none does.

    Args:
        surely: within the bounds of every estimate; else by the best ones, and looking only at what a length can mend.
        most: tokens that are looked at; None: what the model allows.
    """
    for asked, before, sure, upto, found in _found:
        if asked is deployment and before is request and (sure, upto) == (surely, most):
            return found
    found = _longest(deployment, request, surely, most)
    _found.append((deployment, request, surely, most, found))
    del _found[:-_KEPT]
    return found


_KEPT = 8
_found: list[tuple[Deployment, MemoryRequest, bool, int | None, int]] = []
"""What was asked for last: the advice and the plan ask the same."""


def _longest(deployment: Deployment, request: MemoryRequest, surely: bool, most: int | None) -> int:
    model = deployment.model
    limit = most or model.longest_model_len or model.max_model_len
    starts = surely_starts if surely else fits_by_best

    def holds(length: int) -> bool:
        return starts(with_length(deployment, length), request)

    return largest(holds, limit, lambda: settled_length(deployment, request, surely, limit))


def settled_length(deployment: Deployment, request: MemoryRequest, surely: bool, limit: int) -> int:
    """The longest length beside the buffers that it takes itself: vLLM's own search, again and again."""
    length = limit
    for _ in range(_ROUNDS):
        try:
            changed = with_length(deployment, length)
            resolution = resolve(changed)
            if request.kv_bytes is not None:
                left = [request.kv_bytes] * deployment.pipeline_parallel_size
            else:
                budget, _ = make_budget(changed, resolution, request)
                left = [kv.low if surely else kv.best for kv in budget.kv_cache]
            found = min(limit, largest_model_len(changed, resolution, left))
        except CgplanError:
            return 0
        if found in (0, length):
            return found
        length = found
    return length


def with_length(deployment: Deployment, length: int) -> Deployment:
    return deployment.model_copy(update={"max_model_len": length})


def most_requests(
    deployment: Deployment, request: MemoryRequest, *, surely: bool = False, most: int = MOST_SEQS
) -> int:
    """The largest max_num_seqs that starts; 0: none up to `most` does.

    More requests at once widen the sampler and the graphs, and Mamba layers need a block for each.
    """
    found = _verdicts(deployment, request)

    def holds(number: int) -> bool:
        if number not in found:
            found[number] = verdict_or_none(with_requests(deployment, number), request)
        verdict = found[number]
        return verdict is not None and (verdict.starts == "yes" if surely else verdict.holds)

    return largest(holds, most, lambda: _settled_requests(deployment, request, most))


_by_requests: list[tuple[Deployment, MemoryRequest, dict[int, Verdict | None]]] = []


def _verdicts(deployment: Deployment, request: MemoryRequest) -> dict[int, Verdict | None]:
    """Verdicts by max_num_seqs, kept for the deployment asked for last: both searches ask for much the same numbers."""
    if not any(asked is deployment and before is request for asked, before, _ in _by_requests):
        _by_requests[:] = [(deployment, request, {})]
    return _by_requests[0][2]


def _settled_requests(deployment: Deployment, request: MemoryRequest, most: int) -> int:
    """About the number of requests with which the sampler's warm-up has just room: its bytes are a line."""
    if request.kv_bytes is not None:
        return 0
    try:
        half, whole = (_warm_up_room(with_requests(deployment, number), request) for number in (most // 2, most))
    except CgplanError:
        return 0
    if whole >= 0 or half <= whole:
        return 0
    return max(0, int(most // 2 + (most - most // 2) * half / (half - whole)))


def _warm_up_room(deployment: Deployment, request: MemoryRequest) -> float:
    return warm_up_room(make_budget(deployment, resolve(deployment), request)[0])


def with_requests(deployment: Deployment, number: int) -> Deployment:
    return deployment.model_copy(update={"max_num_seqs": number})


def largest(holds: Callable[[int], bool], most: int, guess: Callable[[], int] | None = None) -> int:
    """The largest number up to `most` that `holds`, if it holds up to some number and not beyond; 0: not for 1.

    Args:
        guess: a number near the answer, mostly it; it is asked where `most` does not hold.
    """
    if most < 1 or holds(most):
        return max(most, 0)
    low, high = 0, most
    near = min(guess(), most - 1) if guess is not None else 0
    step = 1
    if near <= 0 and not holds(1):
        return 0
    if near > 0:
        if holds(near):
            # Beyond it by longer and longer steps: the guess is near.
            low = near
            while low + step < high:
                if not holds(low + step):
                    high = low + step
                    break
                low, step = low + step, step * 16
        else:
            high = near
            while high - step > low:
                if holds(high - step):
                    low = high - step
                    break
                high, step = high - step, step * 16
    return _last(holds, low, high)


def least(holds: Callable[[int], bool], low: int, most: int) -> int | None:
    """The least number from `low` to `most` that `holds`, if it holds from some number on; None: not for `most`."""
    if most < low or not holds(most):
        return None
    return _last(holds, most, low - 1)


def _last(holds: Callable[[int], bool], holding: int, failing: int) -> int:
    """The last number that holds on the way from one that does to one that does not."""
    while abs(failing - holding) > 1:
        middle = (holding + failing) // 2
        if holds(middle):
            holding = middle
        else:
            failing = middle
    return holding
