"""What becomes of one deployment of a grid, as a flat record. What vLLM refuses is a record with its code.

The verdict is that of `plan`; neighbours that differ in flags of memory alone share their resolution, the memory of
their graphs, their weights and their peak.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError, InputError, StartupError, shorten
from ..memory.budget.activation import Activation, estimate_activation
from ..memory.budget.budget import Budget, MemoryFlags, budget
from ..memory.budget.non_torch import estimate_non_torch
from ..memory.budget.weights import Weights, estimate_weights
from ..memory.capture_seconds import capture_seconds
from ..memory.estimates import Interval
from ..memory.graphs.memory import GraphMemory
from ..memory.kv.capacity import DOES_NOT_FIT, NO_MEMORY, NOTHING_TO_FIT
from ..memory.limits import Verdict, check_start
from ..memory.request import NO_GRAPHS, MemoryRequest, check_sizes, graph_memory
from ..memory.verdict import in_given_bytes, with_loading
from ..resolve import Resolution, resolve
from ..vocabulary import CUDAGraphMode
from .grid import Grid
from .options import LIMITS, MEMORY, TABLES, is_ignored
from .rules import NO_ANSWER, NO_SUCH_OPTION

FACTS = (
    "starts", "fits", "code", "message", "model_runner", "backend", "effective_cudagraph_mode", "decode_mode",
    "mixed_mode", "graphs", "graphs_full", "graphs_piecewise", "effective_max_cudagraph_capture_size",
    "covered_batches", "uncovered_batches", "mean_waste",
    "effective_max_num_seqs", "effective_max_num_batched_tokens", "effective_max_model_len", "gpus", "replicas",
    "weights_bytes", "activation_bytes", "graph_bytes", "deducted_bytes", "kv_bytes", "kv_tokens", "max_concurrency",
    "capture_seconds",
)  # fmt: skip
"""Columns of a record beside `key` and the options; docs/sweep.md says what each is."""
_NOTHING = dict.fromkeys(FACTS)
_TOO_LITTLE = {NO_MEMORY.code, DOES_NOT_FIT.code, NOTHING_TO_FIT.code}
"""Of a KV cache that does not hold what was asked for; the one that a verdict has is then of a shorter length."""
_ROUND = 4


class _Shared(NamedTuple):
    """What deployments have in common that differ in flags of memory alone."""

    deployment: Deployment
    resolution: Resolution
    columns: dict[str, Any]
    parts: _Parts | None


class _Parts(NamedTuple):
    """What is not asked where the bytes of the KV cache are given."""

    weights: Weights
    activation: Activation
    non_torch: Interval
    graphs: Interval
    estimate: Interval


class Evaluator:
    """Makes the records of a grid, best in ascending order of numbers."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._apart = [at for at, axis in enumerate(grid.axes) if axis.name not in MEMORY]
        self._memory = [at for at, axis in enumerate(grid.axes) if axis.name in MEMORY]
        self._ignored = frozenset(at for at, axis in enumerate(grid.axes) if is_ignored(axis.name))
        self._length = next((at for at, axis in enumerate(grid.axes) if axis.name == "max_model_len"), None)
        self._release = next((at for at, axis in enumerate(grid.axes) if axis.name == "vllm"), None)
        self._layers = [at for at in self._apart if grid.axes[at].name not in LIMITS]
        self._last: tuple[Sequence[int], _Shared | CgplanError] | None = None
        self._weights: tuple[tuple[Any, ...], Weights] | None = None
        self._but_length = [at for at in self._apart if at != self._length]
        self._graphs: tuple[tuple[Any, ...], GraphMemory | None] | None = None
        self._covered: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def lines(self, numbers: Iterable[int]) -> list[str]:
        """The records of these deployments, each a line of JSON."""
        write = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
        return [write(self.record(number)) for number in numbers]

    def record(self, number: int) -> dict[str, Any]:
        """The record of a deployment. Never raises: an error is a record."""
        grid = self._grid
        positions = grid.positions(number)
        found: dict[str, Any] = {"key": grid.key(positions)}
        for axis, at in zip(grid.axes, positions, strict=True):
            found[axis.name] = axis.values[at].shown
        found |= _NOTHING
        try:
            self._fill(found, positions)
        except CgplanError as error:
            # What cgplan does not know is no refusal of vLLM.
            found["starts"] = "no" if isinstance(error, StartupError) else None
            found["fits"] = False if isinstance(error, StartupError) else None
            found["code"], found["message"] = error.code, error.message
        except Exception as error:
            said = shorten(" ".join(str(error).split()), 200)
            found["code"], found["message"] = NO_ANSWER.code, f"cgplan failed: {type(error).__name__}: {said}"
        return found

    def _fill(self, found: dict[str, Any], positions: Sequence[int]) -> None:
        request = self._request(positions)
        shared = self._shared(positions, request)
        found |= shared.columns
        deployment, resolution = shared.deployment, shared.resolution
        check_sizes(deployment, request)
        if shared.parts is None:
            verdict = in_given_bytes(deployment, request, resolution)
            found["kv_bytes"] = request.kv_bytes
        else:
            made = _budget(shared, shared.parts, request.flags)
            verdict = with_loading(check_start(deployment, resolution, made, auto_fit=request.auto_fit), resolution)
            stage = made.tightest
            found["weights_bytes"], found["activation_bytes"] = stage.weights.best, stage.activation.best
            found["graph_bytes"], found["deducted_bytes"] = stage.graphs.best, stage.deducted.best
            found["kv_bytes"] = stage.held.best
        _conclude(found, verdict)

    def _request(self, positions: Sequence[int]) -> MemoryRequest:
        given = {}
        for at in self._memory:
            value = self._grid.axes[at].values[positions[at]]
            if value.given:
                given[self._grid.axes[at].name] = value.content
        flags = MemoryFlags(given.get("gpu_memory_utilization"), given.get("kv_cache_memory_bytes"))
        length = self._length
        auto_fit = length is not None and self._grid.axes[length].values[positions[length]].content == -1
        return MemoryRequest(flags, kv_bytes=given.get("kv_bytes"), auto_fit=auto_fit)

    def _shared(self, positions: Sequence[int], request: MemoryRequest) -> _Shared:
        key = [*(positions[at] for at in self._apart), request.kv_bytes is None]
        if self._last is None or self._last[0] != key:
            try:
                self._last = key, self._resolved(positions, request)
            except CgplanError as error:
                self._last = key, error
        found = self._last[1]
        if isinstance(found, CgplanError):
            raise found.with_traceback(None)  # or it would grow with each of them
        return found

    def _resolved(self, positions: Sequence[int], request: MemoryRequest) -> _Shared:
        self._check_options(positions)
        deployment = Deployment(**self._fields(positions))
        resolution = resolve(deployment)
        columns = self._columns(deployment, resolution)
        if request.kv_bytes is not None:
            return _Shared(deployment, resolution, columns, None)
        graphs = self._graph_memory(positions, deployment, resolution)
        parts = _Parts(
            self._weights_of(positions, deployment, resolution),
            estimate_activation(deployment, resolution),
            estimate_non_torch(deployment),
            graphs.total if graphs is not None else NO_GRAPHS,
            (graphs.estimate if graphs is not None else None) or NO_GRAPHS,
        )
        return _Shared(deployment, resolution, columns, parts)

    def _check_options(self, positions: Sequence[int]) -> None:
        """Refuse options that the release does not have, as its parser does."""
        grid = self._grid
        release = Deployment.model_fields["vllm"].default
        if self._release is not None:
            chosen = grid.axes[self._release].values[positions[self._release]]
            release = chosen.content if chosen.given else release
        lacking = grid.absent.get(release)
        if not lacking:
            return
        for axis, at in zip(grid.axes, positions, strict=True):
            name = axis.name.partition(".")[0]
            if name in lacking and axis.values[at].given:
                raise StartupError(
                    f"vLLM {release} has no --{name.replace('_', '-')}",
                    code=NO_SUCH_OPTION.code,
                    raised_as="SystemExit",
                    raised_in="parser",
                    where=name,
                    fix=NO_SUCH_OPTION.instead,
                )

    def _fields(self, positions: Sequence[int]) -> dict[str, Any]:
        """Fields of the Deployment; a key of a table stands over that of the whole table."""
        found: dict[str, Any] = {}
        keys: dict[str, dict[str, Any]] = {}
        for at in self._apart:
            axis = self._grid.axes[at]
            value = axis.values[positions[at]]
            if not value.given or at in self._ignored:
                continue
            head, dot, key = axis.name.partition(".")
            if dot:
                keys.setdefault(head, {})[key] = value.content
            elif head in TABLES:
                keys[head] = {**value.content, **keys.get(head, {})}
            elif head != "max_model_len" or value.content != -1:
                found[head] = value.content
        for head, given in keys.items():
            found[head] = {key: part for key, part in given.items() if not is_ignored(f"{head}.{key}")}
        speculative = found.get("speculative_config")
        if speculative is not None and speculative.get("method") is None and speculative.get("model") is None:
            raise InputError(
                "speculative decoding needs a method or a draft model",
                code="CG903",
                where="speculative_config",
                fix="give speculative_config.method",
            )
        if found.get("num_gpu_blocks_override", 0) > 0:
            found.setdefault("num_gpu_blocks", found["num_gpu_blocks_override"])
        return found

    def _weights_of(self, positions: Sequence[int], deployment: Deployment, resolution: Resolution) -> Weights:
        """The weights; limits of batches and lengths leave them as they are."""
        key = (resolution.runner, *(positions[at] for at in self._layers))
        if self._weights is None or self._weights[0] != key:
            self._weights = key, estimate_weights(deployment, resolution)
        return self._weights[1]

    def _graph_memory(self, positions: Sequence[int], d: Deployment, r: Resolution) -> GraphMemory | None:
        """What the graphs take; the length of requests alone leaves it as it is, where it changes nothing else."""
        config = {**r.config, "max_model_len": None}
        key = (*(positions[at] for at in self._but_length), r.runner, r.captures, r.drafter, r.lora, r.backend, config)
        if self._graphs is None or self._graphs[0] != key:
            self._graphs = key, graph_memory(d, r)
        return self._graphs[1]

    def _coverage(self, r: Resolution) -> dict[str, Any]:
        """Decode batch sizes with and without a graph; the same graphs and limits give the same."""
        most = min(r.max_num_seqs, r.max_num_batched_tokens // max(1, r.uniform_decode_query_len))
        key = (
            most, r.max_num_seqs, r.uniform_decode_query_len, r.schedule, r.runner, r.cudagraph_mode, r.capture_sizes,
            r.lora, r.pads_to, r.habits, r.max_num_batched_tokens if r.schedule else None, r.captures,
        )  # fmt: skip
        if self._covered is None or self._covered[0] != key:
            coverage = r.uniform_decode_coverage()
            sizes = [(one.mode is CUDAGraphMode.NONE, one.last - one.first + 1) for one in coverage.ranges]
            found = {
                "covered_batches": sum(count for eager, count in sizes if not eager),
                "uncovered_batches": sum(count for eager, count in sizes if eager),
                "mean_waste": round(coverage.mean_waste, _ROUND),
            }
            self._covered = key, found
        return self._covered[1]

    def _columns(self, deployment: Deployment, resolution: Resolution) -> dict[str, Any]:
        r, d = resolution, deployment
        graphs = r.graph_count()
        return {
            "model_runner": r.runner.value,
            "backend": r.backend.name,
            "effective_cudagraph_mode": r.cudagraph_mode.value,
            "decode_mode": r.decode_mode.value,
            "mixed_mode": r.mixed_mode.value,
            "graphs": graphs,
            "graphs_full": r.graph_count(CUDAGraphMode.FULL),
            "graphs_piecewise": r.graph_count(CUDAGraphMode.PIECEWISE),
            "effective_max_cudagraph_capture_size": r.max_capture_size,
            **self._coverage(r),
            "effective_max_num_seqs": r.max_num_seqs,
            "effective_max_num_batched_tokens": r.max_num_batched_tokens,
            "effective_max_model_len": r.max_model_len,
            "gpus": d.tensor_parallel_size
            * d.pipeline_parallel_size
            * d.prefill_context_parallel_size
            * d.data_parallel_size,
            "replicas": d.data_parallel_size,
            "capture_seconds": capture_seconds(d, graphs).best,
        }


def _budget(shared: _Shared, parts: _Parts, flags: MemoryFlags) -> Budget:
    """As `memory.request.make_budget` makes it, of parts that are there."""
    return budget(
        shared.deployment,
        shared.resolution,
        flags,
        weights=parts.weights,
        activation=parts.activation,
        non_torch=parts.non_torch,
        graphs=parts.graphs,
        graph_estimate=parts.estimate,
    )


def _conclude(found: dict[str, Any], verdict: Verdict) -> None:
    found["starts"], found["fits"] = verdict.starts, verdict.holds
    plan = verdict.kv_cache.plan if verdict.kv_cache is not None else None
    if plan is not None and plan.refusal is None and _TOO_LITTLE.isdisjoint(verdict.ends):
        found["kv_tokens"] = plan.tokens
        found["effective_max_model_len"] = plan.max_model_len
        if plan.max_concurrency is not None:
            found["max_concurrency"] = round(plan.max_concurrency, _ROUND)
    if verdict.starts != "yes":
        order = {"error": 0, "warning": 1, "info": 2}
        # Of what is not sure, that first which ends the start by the best estimates.
        last = verdict.ends if verdict.starts == "unsure" else ()
        first = min(verdict.findings, key=lambda one: (order[one.severity], one.code not in last), default=None)
        if first is not None:
            found["code"], found["message"] = first.code, first.message
