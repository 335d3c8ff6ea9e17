"""vLLM's own estimate of the CUDA graphs' memory: its formulas, and what they will give before any GPU is asked.

Runner V1 captures the two largest graphs of each mode and takes the second as the cost of every further one. Runner V2
does that for FULL graphs since 0.29.0 and captures all others; before, its estimate is 0.

Sources: vllm/v1/worker/gpu_model_runner.py:6268-6414, vllm/v1/worker/gpu/cudagraph_utils.py:922-1042 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...deployment import Deployment
from ...releases import canonical, facts, holds
from ...resolve import Resolution
from ...vocabulary import CUDAGraphMode, Runner
from ..estimates import MIB, Interval, between
from .footprint import Footprint, best_parts

LEAST_PER_GRAPH = MIB
"""vLLM takes no graph for smaller than this."""

_GRAIN = 2 * MIB
"""Steps in which the driver hands out memory, and so in which free memory is seen to change."""

_LESS, _MORE = 0.85, 1.15
"""How far a graph may be from its prediction before it is rounded, as shares of it."""

_PIECEWISE, _FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL


class Samples(NamedTuple):
    """What vLLM measured of one mode, bytes.

    Attributes:
        first, second: free memory that the two largest captures took; second is 0 where there is one graph.
        graphs: of the mode, adapters counted.
    """

    first: int
    second: int
    graphs: int

    @property
    def each(self) -> int:
        """What a graph after the first is taken for."""
        return max(self.second, LEAST_PER_GRAPH)

    @property
    def rest(self) -> int:
        """What all graphs but the first are taken for."""
        return self.each * (self.graphs - 1)


def estimate_v1(samples: Mapping[CUDAGraphMode, Samples], encoder: int = 0) -> int:
    """Runner V1's estimate. Modes share a pool, so only the larger first capture counts.

    Args:
        samples: by mode; modes without graphs are left out.
        encoder: what all graphs of the vision encoder took; they have a pool of their own. 0 before 0.25.
    """
    counted = [sample for sample in samples.values() if sample.graphs]
    return max((sample.first for sample in counted), default=0) + sum(sample.rest for sample in counted) + encoder


def estimate_v2(measured: int, full: Samples | None) -> int:
    """Runner V2's estimate since 0.29.0.

    Args:
        measured: what a capture of everything took, but with the two largest FULL graphs alone.
        full: samples of these two; None: there are no FULL graphs.
    """
    if full is None or not full.graphs:
        return max(measured, 0)
    per_graph = max(full.second, LEAST_PER_GRAPH) if full.graphs > 1 else 0
    return max(measured - full.first - full.second + full.first + (full.graphs - 1) * per_graph, 0)


def predict_estimate(
    deployment: Deployment, resolution: Resolution, made: Footprint, drafter: int = 0, *, unknown: bool = False
) -> Interval | None:
    """What vLLM will print as its estimate; None: it makes none.

    Whether the KV cache gives that much up is `resolve.memory_deduction`'s. The bounds are wide, as free memory changes
    by 2 MiB at a time: a graph that takes 5 MiB is seen to take 4 or 6, and that is multiplied by the number of graphs.

    Args:
        drafter: what the drafter's graphs take, bytes.
        unknown: whether something of the capture was not measured, such as the kind of GPU.
    """
    known = facts("memory", canonical(deployment.vllm))["graph_estimate"]
    if deployment.gpu.platform not in known["platforms"] or (resolution.runner is Runner.V2 and not known["v2"]):
        return None
    alone = sum(best_parts(made).values()) + drafter
    low, best, high = (_estimated(resolution, made, alone, rounding) for rounding in (-1, 0, 1))
    held = gated_delta_bytes(deployment, resolution, made.step.itemsize)
    first = max((sample.first for sample in predicted_samples(made).values()), default=0) if held else 0
    more = max(0, held - first)
    slack = made.known["estimate"]
    low, high = low - slack["first_low"], high + held + slack["first_high"]
    if unknown:
        low, high = low * (1 - slack["unknown_low"]), high * (1 + slack["unknown_high"])
    high += _unexpected_segment(deployment, resolution, made)
    return between(low, best + more, high, "vLLM's formula over predicted samples")


def _unexpected_segment(deployment: Deployment, resolution: Resolution, made: Footprint) -> int:
    """What a segment that falls to the second sample against expectation adds; it was seen with tensor parallelism."""
    if deployment.tensor_parallel_size == 1 or resolution.runner is not Runner.V1 or second_segment(made) is not None:
        return 0
    further = max(len(made.piecewise), len(made.full)) - 1
    return int(made.known["estimate"]["segment"]) * max(0, further)


GDN_COPIES = 8
"""Of a token, each as wide as all value heads. Taken from one report of 0.26, 128 KiB a token of a 122B model, with 64
heads of 128; another, of 48 heads and 0.27 or 0.28, grew by 0.37 GiB over 4,096 tokens, where this gives 0.38. That the
larger of it and the first graph counts is a guess that the second report suggests; no source line was found for it."""


def gated_delta_bytes(deployment: Deployment, resolution: Resolution, itemsize: int = 2) -> int:
    """Transient memory of gated delta layers that runner V1 of 0.26 to 0.28 takes for its first graph; 0: none."""
    if resolution.runner is not Runner.V1 or not holds(canonical(deployment.vllm), "0.26.0", "0.28.0"):
        return 0
    cache = deployment.model.cache
    states = [layers.state for layers in cache.layers if layers.kind == "gdn"] if cache is not None else []
    width = max((state.num_heads * state.head_size for state in states if state is not None), default=0)
    return GDN_COPIES * itemsize * width // deployment.tensor_parallel_size * resolution.max_num_batched_tokens


def _estimated(resolution: Resolution, made: Footprint, alone: int, rounding: int) -> int:
    """`alone`: what the capture of everything takes."""
    samples = seen_samples(made, rounding)
    alone += made.buffer.size if rounding >= 0 else 0
    if resolution.runner is Runner.V1:
        return estimate_v1(samples)
    full = samples.get(_FULL)
    if full is None:
        return estimate_v2(alone, None)
    sampled = full.first + full.second
    others = alone - made.full_size * len(made.full) - (full.first - made.full_size)
    return estimate_v2(others + sampled, full)


def seen_samples(made: Footprint, rounding: int = 0) -> dict[CUDAGraphMode, Samples]:
    """The same, with the buffer that attention allocates with the first FULL graph; at the low end it does not."""
    found = predicted_samples(made, rounding)
    if _FULL in found and rounding >= 0:
        found[_FULL] = found[_FULL]._replace(first=found[_FULL].first + made.buffer.size)
    return found


def predicted_samples(made: Footprint, rounding: int = 0) -> dict[CUDAGraphMode, Samples]:
    """What vLLM will see of the two largest captures of each mode.

    Args:
        rounding: -1 and 1: the driver's grain falls in favour of less or of more; 0: neither.
    """
    found = {}
    libraries = made.libraries
    if made.piecewise:
        pools = [made.pool(made.piecewise[:count], (), None) for count in (1, 2)]
        size = made.piecewise_size(made.piecewise[0][0])
        found[_PIECEWISE] = Samples(pools[0] + size + libraries, _second(pools, size, rounding), len(made.piecewise))
        libraries = 0
    if made.full:
        before = made.pool(made.piecewise[:2], (), None) if made.piecewise else 0
        pools = [made.pool(made.piecewise[:2], made.full[:count], made.splits) for count in (1, 2)]
        size = made.full_size
        found[_FULL] = Samples(pools[0] - before + size + libraries, _second(pools, size, rounding), len(made.full))
    return found


class SecondSegment(NamedTuple):
    """What makes an estimate an outlier: the pool grows at the second sample, and that is taken for every graph.

    Attributes:
        mode, tokens: of the second sample.
        grown: by how much the pool grows at it, bytes; no further graph does that.
        graphs: of the mode.
    """

    mode: CUDAGraphMode
    tokens: int
    grown: int
    graphs: int

    @property
    def counted(self) -> int:
        """Of the estimate, bytes."""
        return self.grown * (self.graphs - 1)


LARGE = 10 * MIB
"""A segment of the pool for buffers of more than 1 MiB has at least so much."""


def second_segment(made: Footprint) -> SecondSegment | None:
    """The mode whose second sample takes a segment of its own, which counts most; None: there is none."""
    found = []
    if len(made.piecewise) > 1:
        grown = made.pool(made.piecewise[:2], (), None) - made.pool(made.piecewise[:1], (), None)
        found.append(SecondSegment(_PIECEWISE, made.piecewise[1][0], grown, len(made.piecewise)))
    if len(made.full) > 1:
        pools = [made.pool(made.piecewise[:2], made.full[:count], made.splits) for count in (1, 2)]
        found.append(SecondSegment(_FULL, made.full[1][0], pools[1] - pools[0], len(made.full)))
    return max((one for one in found if one.grown >= LARGE), key=lambda one: one.counted, default=None)


def _second(pools: list[int], size: int, rounding: int) -> int:
    """The second sample: `size` in the driver, and what the pool grew by, which is not sure to fall into it."""
    if rounding < 0:
        return int(_LESS * size) // _GRAIN * _GRAIN
    grown = pools[1] - pools[0]
    return -(-int(grown + _MORE * size) // _GRAIN) * _GRAIN if rounding else grown + size
