"""Named shapes of traffic, for a first look where nothing was measured: decode batches alone, by running requests."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, log, sqrt

from ..errors import InputError, did_you_mean
from .histogram import Batches, Range, Workload, workload_of

LEAST_SHARE = 1e-6
"""Smaller shares of the steps are left out."""

MOST_REQUESTS = 4096
"""No shape reaches further."""

SHAPES: dict[str, str] = {
    "steady": "normal, mean 37, deviation 6",
    "bursty": "log-normal, median 6, deviation 1 of the logarithm",
    "low": "mostly 1 request, 2 in 24%, fewer than 1% above 5",
    "uniform": "1 to 256, each alike",
    "bimodal": "two normals alike: mean 3, deviation 1; mean 120, deviation 6",
}
"""What each shape says of the number of running requests, in words."""


def shape(name: str, *, max_num_seqs: int, query_len: int = 1) -> Workload:
    """The workload of a named shape; counts are shares. Steps with more requests than allowed have the most allowed.

    Args:
        name: of SHAPES.
        max_num_seqs: most requests of a step.
        query_len: tokens of each request.

    Raises:
        InputError: CG902, there is no such shape.
    """
    if name not in SHAPES:
        fix = did_you_mean(name, tuple(SHAPES)) or f"give one of {', '.join(SHAPES)}"
        raise InputError(f"there is no shape {name[:40]!r}", code="CG902", where="--shape", fix=fix)
    shares = [_share(name, requests) for requests in range(1, MOST_REQUESTS + 1)]
    whole = sum(shares)
    counts: dict[int, float] = {}
    for requests, share in enumerate(shares, 1):
        if share / whole >= LEAST_SHARE:
            fitting = min(requests, max_num_seqs)
            counts[fitting] = counts.get(fitting, 0.0) + share
    kept = sum(counts.values())
    batches = (
        Batches("decode", Range(n * query_len, n * query_len), share / kept, Range(n, n), query_len)
        for n, share in counts.items()
    )
    return workload_of(batches, f"shape {name}: {SHAPES[name]}")


def _share(name: str, requests: int) -> float:
    """Share of the steps with so many requests, but for a factor."""
    if name == "uniform":
        return float(requests <= 256)
    if name == "low":
        return 0.7 * 0.3 ** (requests - 1)
    if name == "bursty":
        return _between(lambda x: log(x / 6) if x > 0 else -40.0, requests)
    if name == "steady":
        return _between(lambda x: (x - 37) / 6, requests)
    return _between(lambda x: x - 3, requests) + _between(lambda x: (x - 120) / 6, requests)


def _between(score: Callable[[float], float], requests: int) -> float:
    """What a normal distribution of `score` has between half a request below and above. Densities where it is tiny."""
    low, high = score(requests - 0.5), score(requests + 0.5)
    if abs(low) > 6 and abs(high) > 6:
        return exp(-min(low * low, high * high, 1400.0) / 2) * abs(high - low) / sqrt(6.283185307179586)
    return 0.5 * (erf(high / sqrt(2)) - erf(low / sqrt(2)))
