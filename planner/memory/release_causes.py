"""Why the memory of one deployment differs between two neighbouring releases: each part of the budget that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..env_switches import int_switch
from ..light_dataclass import dataclass
from ..releases import SUPPORTED, facts
from ..resolve.mamba import PREFIX_CACHING
from ..resolve.memory_deduction import DEDUCTED, V2_ESTIMATES, VARIABLE
from ..vocabulary import Runner
from .budget.budget import StageBudget
from .budget.estimate_rules import GATED_DELTA
from .budget.rules import BUDGET
from .capacity_plan import CapacityPlan
from .estimates import MIB
from .graphs.estimate import gated_delta_bytes
from .kv.blocks import POOL
from .kv.cache import IN_FLIGHT
from .kv.capacity import CAPACITY
from .kv.groups import GROUPS

ASKED, WEIGHTS, PEAK, OUTSIDE, BUFFERS, ESTIMATE, CAPTURE, LAYOUT, COUNT = (
    "memory asked for", "weights", "peak of the profile run", "outside torch", "buffers of the runner",
    "estimate of the graphs", "what capture takes", "blocks of a request", "count of the log",
)  # fmt: skip
OF_BUDGET = (ASKED, WEIGHTS, PEAK, OUTSIDE, BUFFERS, ESTIMATE)
OF_FIELD = {
    "gpu_memory_utilization": (ASKED,),
    "kv_bytes": OF_BUDGET,
    "max_concurrency": (*OF_BUDGET, LAYOUT),
    "kv_tokens": (*OF_BUDGET, LAYOUT, COUNT),
    "max_model_len": (*OF_BUDGET, LAYOUT),
    "deducted_bytes": (ESTIMATE,),
    "graph_bytes": (CAPTURE,),
    "block_size": (LAYOUT,),
}
"""Which parts move a value."""

Codes = Callable[[str, str, str], tuple[str, ...]]
"""The rules that moved a value of the resolution, "runner", between two releases; () where none did."""


@dataclass(frozen=True)
class MemoryCause:
    """One part of the memory that a release moved.

    Attributes:
        release: the newer of the two neighbours.
        part: a name of OF_BUDGET, CAPTURE, LAYOUT or COUNT.
        codes: the rules; () where it was not traced to one.
        why: in words; "" likewise.
        kv_bytes: what it gives the KV cache of one GPU; below 0: takes; None: it is not of the budget.
    """

    release: str
    part: str
    codes: tuple[str, ...]
    why: str
    kv_bytes: int | None = None


def memory_causes(before: CapacityPlan, after: CapacityPlan, codes: Codes) -> tuple[MemoryCause, ...]:
    """The parts that differ between the plans of two releases, in the order of the budget."""
    return tuple(_Step(before, after, codes).found())


class _Step:
    def __init__(self, before: CapacityPlan, after: CapacityPlan, codes: Codes) -> None:
        self.a, self.b, self.codes = before, after, codes
        self.one, self.other = before.resolution.vllm_version, after.resolution.vllm_version
        self.release = max(self.one, self.other, key=SUPPORTED.index)

    def found(self) -> Iterator[MemoryCause]:
        moved = [(part, by) for part, by in self._moved() if by]
        large = [(part, by) for part, by in moved if abs(by) >= MIB]
        for part, by in large or moved:
            yield self._cause(part, _REASONS[part](self), by)
        if self._estimate_alone():
            yield self._cause(ESTIMATE, list(self.of_estimate()), None)
        if self._captured():
            yield self._cause(CAPTURE, list(self.of_capture()), None)
        if self.a.best.plan is not None and self.b.best.plan is not None:
            reasons = list(self.of_layout())
            if reasons or self._shape(self.a) != self._shape(self.b):
                yield self._cause(LAYOUT, reasons, None)
            if counts_one_group(self.a) != counts_one_group(self.b):
                text = "until 0.19 the log counts the tokens of one group of layers alone"
                yield self._cause(COUNT, [((CAPACITY.code,), text)], None)

    def _cause(self, part: str, reasons: Sequence[tuple[Sequence[str], str]], by: int | None) -> MemoryCause:
        codes = dict.fromkeys(code for found, _ in reasons for code in found)
        return MemoryCause(self.release, part, tuple(codes), "; ".join(text for _, text in reasons), by)

    def _moved(self) -> Iterator[tuple[str, int]]:
        """What each part gives the KV cache of the tightest stage, bytes."""
        if self.a.budget is None or self.b.budget is None or self.a.budget.is_manual or self.b.budget.is_manual:
            return
        one, other = self.a.budget.tightest, self.b.budget.tightest
        yield ASKED, self.b.budget.requested.best - self.a.budget.requested.best
        yield WEIGHTS, one.weights.best - other.weights.best
        yield PEAK, one.activation.best - other.activation.best
        yield OUTSIDE, one.non_torch.best - other.non_torch.best
        yield BUFFERS, _counted(one) - _counted(other)
        yield ESTIMATE, one.deducted.best - other.deducted.best

    def _estimate_alone(self) -> bool:
        """Whether the estimate moved where the size of the KV cache does not go by it."""
        if self.a.budget is None or self.b.budget is None:
            return False
        manual = self.a.budget.is_manual or self.b.budget.is_manual
        return manual and self.a.budget.tightest.deducted.best != self.b.budget.tightest.deducted.best

    def _captured(self) -> bool:
        """Whether capture takes another size, by more than the screen rounds away."""
        if self.a.budget is None or self.b.budget is None:
            return False
        return abs(self.a.budget.tightest.graphs.best - self.b.budget.tightest.graphs.best) >= 10 * MIB

    def of_asked(self) -> list[tuple[Sequence[str], str]]:
        assert self.a.budget is not None
        assert self.b.budget is not None
        before, after = self.a.budget.utilization, self.b.budget.utilization
        if before == after:
            return []
        return [((BUDGET.code,), f"--gpu-memory-utilization is {after:g} by default, {before:g} in {self.one}")]

    def of_part(self, topic: str) -> list[tuple[Sequence[str], str]]:
        """Facts of the budget that changed and matter here, then what the part goes by."""
        found: list[tuple[Sequence[str], str]] = []
        for key in self._changed("budget", topic):
            told = _FACTS.get(f"{topic}.{key}")
            if told is not None and (told[2](self.a) or told[2](self.b)):
                value = facts("budget", self.other)[topic][key]
                text = told[1] if value is False else told[0].format(value)
                found.append(((BUDGET.code,), text))
        return [*found, *self.of_resolution()]

    def of_resolution(self, *more: str) -> list[tuple[Sequence[str], str]]:
        """Values of the resolution that differ, each with its rules."""
        found: list[tuple[Sequence[str], str]] = []
        a, b = self.a.resolution, self.b.resolution
        pairs: list[tuple[str, Any, Any, str]] = [
            ("runner", a.runner.value, b.runner.value, "runner {} in the place of {}"),
            ("max_num_batched_tokens", a.max_num_batched_tokens, b.max_num_batched_tokens, _LIMIT.format("batched")),
            ("max_num_seqs", a.max_num_seqs, b.max_num_seqs, "--max-num-seqs is {}, {} before"),
            ("cudagraph_mode", a.cudagraph_mode.value, b.cudagraph_mode.value, "mode {} in the place of {}"),
            ("backend.name", a.backend.name, b.backend.name, "backend {} in the place of {}"),
        ]
        if "capture_sizes" in more:
            pairs.append(("capture_sizes", len(a.capture_sizes), len(b.capture_sizes), "{} capture sizes, {} before"))
        for name, before, after, text in pairs:
            if before != after:
                found.append((self.codes(self.one, self.other, name), text.format(after, before)))
        return found

    def of_estimate(self) -> Iterator[tuple[Sequence[str], str]]:
        """Why another estimate of the graphs is taken off."""
        assert self.a.budget is not None
        assert self.b.budget is not None
        given = int_switch(self.b.deployment.env, VARIABLE)
        if given is None and "applied_by_default" in self._changed("memory", "graph_estimate"):
            on = "takes" if facts("memory", self.other)["graph_estimate"]["applied_by_default"] else "does not take"
            yield (DEDUCTED.code,), f"{self.other} {on} the estimate off by default ({VARIABLE})"
        measures = "v2" in self._changed("memory", "graph_estimate")
        if measures and Runner.V2 in (self.a.resolution.runner, self.b.resolution.runner):
            yield (V2_ESTIMATES.code,), "runner V2 estimates its graphs since 0.29, before its estimate was always 0"
        held = [gated_delta_bytes(made.deployment, made.resolution) for made in (self.a, self.b)]
        if held[0] != held[1]:
            yield (GATED_DELTA.code,), _GATED[held[1] > held[0]]
        yield from self.of_resolution("capture_sizes")
        if self._of_another_size() and self.a.budget.deduction.deducted and self.b.budget.deduction.deducted:
            yield (DEDUCTED.code,), ANOTHER_SIZE

    def of_capture(self) -> Iterator[tuple[Sequence[str], str]]:
        """Why the graphs take another size. That of a graph is measured, which no rule says."""
        yield from self.of_resolution("capture_sizes")
        if self._of_another_size():
            yield (), ANOTHER_SIZE

    def _of_another_size(self) -> bool:
        changed = any(self._changed("graph_memory", section) for section in ("driver", "streams", "pool"))
        return changed and self.a.resolution.runner is self.b.resolution.runner

    def of_layout(self) -> Iterator[tuple[Sequence[str], str]]:
        """Why a request takes another number of blocks."""
        if self._shape(self.a) == self._shape(self.b):
            return
        if "per_request" in self._changed("kv_planning", "capacity") and _groups(self.a) > 1:
            yield (CAPACITY.code,), "the blocks of a request are the sum over the groups of layers since 0.27"
        windows = self.a.hybrid_manager or self.b.hybrid_manager
        if "counts_batches" in self._changed("kv_planning", "in_flight") and windows:
            yield (IN_FLIGHT.code,), "a window keeps the tokens of all batches under way since 0.26"
        if self.a.deployment.model.is_hybrid:
            yield from self._of_states()
        yield from self.of_resolution()

    def _of_states(self) -> Iterator[tuple[Sequence[str], str]]:
        """The same of a model with states."""
        one, other = self.a.best.plan, self.b.best.plan
        asked = self.b.deployment.enable_prefix_caching
        if asked is None and "hybrid_prefix_caching" in self._changed("pipeline", "mamba"):
            on = "on" if facts("pipeline", self.other)["mamba"]["hybrid_prefix_caching"] else "off"
            flag = "--no-enable-prefix-caching" if on == "on" else "--enable-prefix-caching"
            yield (PREFIX_CACHING.code,), f"prefix caching of hybrid models is {on} by default; {flag} undoes it"
        if "checkpoint_kinds" in self._changed("kv_cache", "mamba"):
            yield (GROUPS.code,), "whether a prefill leaves a checkpoint of the state, in a block of its own"
        if one is not None and other is not None and one.block_size != other.block_size:
            yield (POOL.code,), f"a block is of {other.block_size} tokens, {one.block_size} before"

    def _shape(self, made: CapacityPlan) -> tuple[object, ...]:
        plan = made.best.plan
        return () if plan is None else (plan.bytes_per_block, plan.blocks_per_request, plan.block_size)

    def _changed(self, topic: str, section: str) -> list[str]:
        """Keys of a section of facts that differ between the two releases."""
        before, after = (facts(topic, release).get(section) or {} for release in (self.one, self.other))
        return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _counted(stage: StageBudget) -> int:
    return stage.buffers.best if stage.counts_buffers else 0


def counts_one_group(made: CapacityPlan) -> bool:
    """Whether the log's tokens are of one of several groups of layers; the concurrency beside them is not."""
    way = facts("kv_planning", made.resolution.vllm_version)["capacity"]["tokens"]
    return bool(way == "blocks" and _groups(made) > 1)


def _groups(made: CapacityPlan) -> int:
    return len(made.best.plan.groups) if made.best.plan is not None else 0


SAMPLER = "FlashInfer's sampler"
ANOTHER_SIZE = "a graph takes another size in this release, as measured"
_LIMIT = "--max-num-{}-tokens is {{}}, {{}} before"
_GATED = {
    True: "transient memory of gated delta layers is taken for a graph; lower --max-num-batched-tokens",
    False: "transient memory of gated delta layers is no longer taken for a graph",
}


def _is_v2(made: CapacityPlan) -> bool:
    return made.resolution.runner is Runner.V2


def _has_gated_delta(made: CapacityPlan) -> bool:
    return "GDN_ATTN" in made.deployment.model.mamba_backends


_Matters = Callable[[CapacityPlan], bool]
_FACTS: dict[str, tuple[str, str, _Matters]] = {
    "weights.whole_blocks": (
        "a tensor takes whole blocks of 2 MiB while weights load",
        "a tensor no longer takes whole blocks of 2 MiB while weights load",
        lambda made: True,
    ),
    "activation.flashinfer_sampler": (
        f"{SAMPLER} is on by default",
        f"{SAMPLER} is off by default",
        lambda made: not _is_v2(made) and made.deployment.software.flashinfer,
    ),
    "activation.sampler_float32_copies_v2": (
        "the profile run of runner V2 keeps {} float32 copies of logits",
        "",
        _is_v2,
    ),
    "activation.v2_runs_encoder": (
        "the profile run of runner V2 has the vision encoder, too",
        "the profile run of runner V2 leaves the vision encoder out",
        lambda made: _is_v2(made) and made.deployment.model.is_multimodal_model,
    ),
    "activation.holds_gated_delta": (
        "compiled pieces hold tensors of the gated delta layers",
        "compiled pieces no longer hold tensors of the gated delta layers",
        _has_gated_delta,
    ),
    "requested.two_term": (
        "vLLM reads what the GPU lost, so the runner's buffers count",
        "vLLM adds up three terms, which leave the runner's buffers out",
        lambda made: True,
    ),
}
"""Facts of releases/budget.toml in words, as they come and as they go, and whether they matter to a plan."""

_REASONS: dict[str, Callable[[_Step], list[tuple[Sequence[str], str]]]] = {
    ASKED: _Step.of_asked,
    WEIGHTS: lambda step: step.of_part("weights"),
    PEAK: lambda step: step.of_part("activation"),
    OUTSIDE: lambda step: step.of_part("non_torch"),
    BUFFERS: lambda step: step.of_part("requested"),
    ESTIMATE: lambda step: list(step.of_estimate()),
}
