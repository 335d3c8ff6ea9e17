"""Which graphs a server that never has more than so many requests at once can use, and what the others cost.

A decode step of n requests runs in the graph that n is padded to, so that FULL graphs behind the most requests serve
nothing. PIECEWISE graphs serve prompts too: a prefill may have any number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...deployment import Deployment
from ...errors import CgplanError, InputError
from ...memory.plan import plan_of
from ...memory.request import MemoryRequest
from ...memory.verdict import fits_by_best
from ...resolve import resolve
from ...resolve.graphs import Batch, Dispatch
from ...resolve.resolution import Resolution
from ...trace import Finding
from ...vocabulary import CUDAGraphMode
from ..histogram import Batches, Range, workload_of
from ..sizes.effect import Point, Setting, can_be_planned, with_sizes
from ..sizes.frame import nothing
from ..sizes.prices import TOKENS
from ..sizes.steps import Step, groups_of, merged

MOST_NAMED = 16
"""Up to so many requests each number of them gets a size of its own in one of the launches."""


class Used(NamedTuple):
    """Sizes of the graphs of one mode, tokens, ascending.

    Attributes:
        by_decode: decode steps run in them.
        by_prefill: steps with a prefill alone do.
        by_none: no step does.
    """

    mode: CUDAGraphMode
    by_decode: tuple[int, ...]
    by_prefill: tuple[int, ...]
    by_none: tuple[int, ...]

    @property
    def graphs(self) -> int:
        return len(self.by_decode) + len(self.by_prefill) + len(self.by_none)


class Launch(NamedTuple):
    """A launch that has fewer graphs.

    Attributes:
        name: what it is, in words.
        flags: to add, or in the place of those of the same name; "": today's.
        point: its list; padding is of decode steps, each number of requests alike.
        without_graph: steps with a prefill of more tokens run without a graph; 0: all do.
    """

    name: str
    flags: str
    point: Point
    without_graph: int


@dataclass(frozen=True)
class Ceiling:
    """What at most `requests` requests at once can use.

    Attributes:
        requests: at most; where the deployment lets in fewer, these.
        asked: as it was asked for.
        used: of the modes that are captured.
        without_graph: numbers of requests whose decode steps run without a graph.
        launches: today's first.
        why_no_memory: why bytes are not known; "": they are.
        stops: what ends the start of today's launch by its memory, each with its fix; (): it starts, or is not known.
    """

    resolution: Resolution
    deployment: Deployment
    requests: int
    asked: int
    used: tuple[Used, ...]
    without_graph: tuple[int, ...]
    launches: tuple[Launch, ...]
    why_no_memory: str
    stops: tuple[Finding, ...] = ()


def ceiling_of(deployment: Deployment, request: MemoryRequest, most: int) -> Ceiling:
    """Which graphs at most `most` requests at once can use.

    Raises:
        InputError: CG720 the deployment captures no graphs, CG903 `most` is below 1.
        StartupError: vLLM would refuse the deployment.
    """
    if most < 1:
        raise InputError(f"{most} requests are none", code="CG903", where="--max-concurrency", fix="give 1 or more")
    resolution = resolve(deployment)
    if not resolution.graph_count():
        raise nothing("the deployment captures no CUDA graphs")
    requests = min(most, resolution.max_num_seqs)
    why_not = can_be_planned(deployment, resolution, request)
    known = None if why_not else request
    launches = tuple(_launches(deployment, resolution, known, requests))
    decodes = _decodes(resolution, requests).items()
    eager = tuple(n for n, found in decodes if found.mode is CUDAGraphMode.NONE)
    stops = () if why_not else _stops(deployment, request)
    return Ceiling(
        resolution, deployment, requests, most, tuple(_used(resolution, requests)), eager, launches, why_not, stops
    )  # fmt: skip


def _stops(deployment: Deployment, request: MemoryRequest) -> tuple[Finding, ...]:
    """The findings of the plan that end the start by the best values."""
    if fits_by_best(deployment, request):
        return ()
    made = plan_of(deployment, request)
    return tuple(one for one in made.findings if one.code in made.ends)


def _used(resolution: Resolution, most: int) -> Iterator[Used]:
    hit = {(found.mode, found.num_tokens) for found in _decodes(resolution, most).values()}
    for mode, graphs in resolution.captures.items():
        sizes = sorted({graph.num_tokens for graph in graphs})
        others = [size for size in sizes if (mode, size) not in hit]
        prefills = mode is resolution.mixed_mode
        yield Used(
            mode, tuple(size for size in sizes if (mode, size) in hit), tuple(others if prefills else ()),
            tuple(() if prefills else others),
        )  # fmt: skip


def _decodes(resolution: Resolution, most: int) -> dict[int, Dispatch]:
    """What the decode steps of 1 to `most` requests run in, those that the token budget lets in."""
    each = resolution.uniform_decode_query_len
    most = min(most, resolution.max_num_batched_tokens // each)
    return {n: resolution.dispatch_batch(Batch(n * each, n, each)) for n in range(1, most + 1)}


def _launches(
    deployment: Deployment, resolution: Resolution, request: MemoryRequest | None, most: int
) -> Iterator[Launch]:
    each = resolution.uniform_decode_query_len
    workload = workload_of(
        Batches("decode", Range(n * each, n * each), 1, Range(n, n), each) for n in _decodes(resolution, most)
    )
    steps = merged(groups_of(workload, resolution))
    today = _launch("today", "", deployment, resolution, steps, request)
    yield today
    hit = sorted({size for one in _used(resolution, most) for size in one.by_decode})
    fewer = deployment
    limit = ""
    if most < resolution.max_num_seqs:
        fewer, limit = deployment.model_copy(update={"max_num_seqs": most}), f"--max-num-seqs {most}"
        if not resolution.sizes_are_named and deployment.max_cudagraph_capture_size is None:
            largest = resolution.max_capture_size
            kept = fewer.model_copy(update={"max_cudagraph_capture_size": largest})
            flags = f"{limit} --max-cudagraph-capture-size {largest}"
            yield from (_named(one, today, hit) for one in _tried("", flags, kept, steps, request))
        yield from _tried("no more are let in", limit, fewer, steps, request)
    each_size = [n * each for n in range(1, most + 1)] if most <= MOST_NAMED else []
    for name, sizes in (("the sizes that decode steps use", hit), ("a size for each number", each_size)):
        if sizes and tuple(sizes) != resolution.capture_sizes:
            flags = f"{limit} --cudagraph-capture-sizes {' '.join(map(str, sizes))}".strip()
            yield from _tried(name, flags, with_sizes(fewer, sizes), steps, request)


def _named(one: Launch, today: Launch, hit: Sequence[int]) -> Launch:
    """By what it does: vLLM may drop sizes that are used, where drafts make whole requests of them, or none."""
    drops_unused = one.point.graphs < today.point.graphs and set(hit) <= set(one.point.sizes)
    return one._replace(name="without what is never used" if drops_unused else "no more are let in, largest size kept")


def _tried(
    name: str, flags: str, deployment: Deployment, steps: tuple[Step, ...], request: MemoryRequest | None
) -> Iterator[Launch]:
    try:
        resolution = resolve(deployment)
        if resolution.graph_count():
            yield _launch(name, flags, deployment, resolution, steps, request)
    except CgplanError:
        return  # vLLM would refuse it.


def _launch(
    name: str, flags: str, deployment: Deployment, resolution: Resolution, steps: tuple[Step, ...],
    request: MemoryRequest | None,
) -> Launch:  # fmt: skip
    point = Setting(deployment, resolution, steps, (), TOKENS, request).today()
    mixed = resolution.captures.get(resolution.mixed_mode, ())
    return Launch(name, flags, point, max((graph.num_tokens for graph in mixed), default=0))
