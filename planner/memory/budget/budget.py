"""Where the memory of one GPU goes: what vLLM asks for, what it takes off, and what is left for the KV cache.

Source: vllm/v1/worker/gpu_worker.py:653-820, vllm/v1/worker/utils.py:716-772 and vllm/utils/mem_utils.py:312-321
@ 0.33.0; until 0.26 vllm/utils/mem_utils.py:262-290 @ 0.25.1.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt
from typing import Any

from ...deployment import Deployment
from ...errors import InputError, StartupError, shorten
from ...light_dataclass import dataclass
from ...releases import canonical, facts, holds
from ...resolve import Resolution
from ...resolve.memory_deduction import Deduction, graph_memory_deducted
from ...trace import Finding
from ...vocabulary import Runner
from ..estimates import GIB, Interval, between, exactly, total
from . import non_torch as outside
from .activation import Activation, estimate_activation
from .activation import measured as measured_activation
from .measured import Measured, check_bytes
from .shortages import shortages
from .weights import ITEM_BYTES, Weights, estimate_weights
from .weights import measured as measured_weights

NOTHING = exactly(0, "none")
_FLOAT = 4
MOST_RESERVED = 1 << 50
"""Bytes that --mm-ipc-gpu-memory-gb may name; no GPU has a part of it."""


@dataclass(frozen=True)
class MemoryFlags:
    """The flags of memory that a Deployment does not carry.

    Attributes:
        utilization: --gpu-memory-utilization; None: the release's default.
        kv_cache_bytes: --kv-cache-memory-bytes, or None. 0 is None: vLLM asks whether there is a value, and works the
            budget out where it is 0 (vllm/v1/worker/gpu_worker.py:344 @ 0.19.1, 656 @ 0.33.0).
        reserve_bytes: kept from the KV cache for decoding images in the front end.

    Raises:
        InputError: utilization is no share above 0 to 1, or bytes are no whole number from 0 on.
    """

    utilization: float | None = None
    kv_cache_bytes: int | None = None
    reserve_bytes: int = 0

    def __post_init__(self) -> None:
        share = self.utilization
        if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1):
            raise InputError(
                f"{shorten(repr(share), 60)} is no share of a GPU",
                code="CG903",
                where="utilization",
                fix="give a number above 0 to 1",
            )
        check_bytes(self.kv_cache_bytes, "kv_cache_bytes")
        object.__setattr__(self, "kv_cache_bytes", self.kv_cache_bytes or None)
        check_bytes(self.reserve_bytes, "reserve_bytes")


def reserve_of(gib: Any) -> int:
    """The bytes that --mm-ipc-gpu-memory-gb keeps from the KV cache; None: none.

    Raises:
        StartupError: CG903, vLLM takes no such number.
    """
    try:
        size = float(gib or 0) * GIB
    except (TypeError, ValueError):
        size = -1.0
    if not 0 <= size < MOST_RESERVED:
        raise StartupError(
            f"--mm-ipc-gpu-memory-gb {shorten(gib, 40)} is no memory of a GPU in GiB",
            code="CG903",
            raised_in="MultiModalConfig",
            where="--mm-ipc-gpu-memory-gb",
            fix="give 0 or more",
        )
    return int(size)


@dataclass(frozen=True)
class StageBudget:
    """The memory of one rank of a pipeline stage, bytes.

    Attributes:
        weights, activation, non_torch: what vLLM takes off what it asks for.
        buffers: of the runner, and pieces of torch's pool.
        counts_buffers: the release takes the buffers off as well.
        deducted: the estimate of the graphs that is taken off; 0: none is.
        kv_cache: what is left for the KV cache; below 0: the start fails.
        graphs: what capture really takes.
        sampler: what the sampler takes for a moment with all rows, after capture, too.
        logits: of that, one float32 copy of the logits of all rows.
        unused: what stays free of the whole GPU when all is there; below 0: CUDA runs out of memory.
        blocks: what the blocks of --num-gpu-blocks-override take, whatever is left; None: no number of them is set.
        adapters: of the weights, the buffers that hold LoRA adapters.
    """

    weights: Interval
    activation: Interval
    non_torch: Interval
    buffers: Interval
    counts_buffers: bool
    deducted: Interval
    kv_cache: Interval
    graphs: Interval
    unused: Interval
    sampler: int = 0
    blocks: int | None = None
    adapters: int = 0
    logits: int = 0

    @property
    def held(self) -> Interval:
        """What the KV cache takes: what is left for it, unless the number of its blocks is set."""
        return self.kv_cache if self.blocks is None else exactly(self.blocks, "--num-gpu-blocks-override")


@dataclass(frozen=True)
class Budget:
    """The memory of a deployment.

    Attributes:
        total: of one GPU, as CUDA has it.
        free: of it when vLLM starts.
        utilization: --gpu-memory-utilization after defaults.
        requested: what vLLM asks for; of it the KV cache is what is left.
        stages: by pipeline stage.
        deduction: whether an estimate of the graphs is taken off, and why.
        is_manual: --kv-cache-memory-bytes sets the KV cache.
        findings: what the operator should know.
    """

    total: Interval
    free: Interval
    utilization: float
    requested: Interval
    stages: tuple[StageBudget, ...]
    deduction: Deduction
    is_manual: bool
    findings: tuple[Finding, ...] = ()

    @property
    def kv_cache(self) -> tuple[Interval, ...]:
        """What is left for the KV cache, by pipeline stage."""
        return tuple(stage.kv_cache for stage in self.stages)

    @property
    def tightest(self) -> StageBudget:
        """The stage with the least left for the KV cache."""
        return min(self.stages, key=lambda stage: stage.kv_cache.best)


def default_utilization(release: str) -> float:
    """--gpu-memory-utilization where it is not given."""
    return float(facts("budget", canonical(release))["requested"]["utilization"])


def requested_bytes(total_bytes: int, utilization: float) -> int:
    """What vLLM asks for: the share of the whole GPU, rounded up as floats are."""
    return ceil(total_bytes * utilization)


def estimate_budget(
    deployment: Deployment,
    resolution: Resolution,
    flags: MemoryFlags | None = None,
    *,
    known: Measured | None = None,
    weights: Weights | None = None,
    graphs: Interval | None = None,
    graph_estimate: Interval | None = None,
) -> Budget:
    """The budget of `deployment`; what is known takes the place of what would be estimated.

    Args:
        resolution: of the same deployment.
        weights: counted from files; `known` takes their place.
        graphs: what capture takes, and `graph_estimate` what vLLM will estimate for it; None: none.

    Raises:
        InputError: CG916, the weights are not known, or the release is not supported.
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    known = known or Measured()
    stages = deployment.pipeline_parallel_size
    if known.weights is None:
        weights = weights or estimate_weights(deployment, resolution)
    else:
        weights = measured_weights([known.weights] * stages, known.source_of("weights"))
    activation = estimate_activation(deployment, resolution)
    if known.activation is not None:
        same = measured_activation([known.activation] * stages, known.source_of("activation")).stages
        # What of the peak is the sampler's is not measured.
        activation = Activation(
            tuple(replace(own, sampler=other.sampler) for own, other in zip(same, activation.stages, strict=True))
        )
    rest = outside.estimate_non_torch(deployment)
    if known.non_torch is not None:
        rest = exactly(known.non_torch, known.source_of("non_torch"))
    if known.graphs is not None:
        graphs = exactly(known.graphs, known.source_of("graphs"))
    if known.graph_estimate is not None:
        graph_estimate = exactly(known.graph_estimate, known.source_of("graph_estimate"))
    return budget(
        deployment,
        resolution,
        flags or MemoryFlags(),
        weights=weights,
        activation=activation,
        non_torch=rest,
        graphs=graphs or NOTHING,
        graph_estimate=graph_estimate or NOTHING,
        total_bytes=None if known.total is None else exactly(known.total, known.source_of("total")),
        free_bytes=None if known.free is None else exactly(known.free, known.source_of("free")),
    )


def budget(
    deployment: Deployment,
    resolution: Resolution,
    flags: MemoryFlags,
    *,
    weights: Weights,
    activation: Activation,
    non_torch: Interval,
    graphs: Interval = NOTHING,
    graph_estimate: Interval = NOTHING,
    total_bytes: Interval | None = None,
    free_bytes: Interval | None = None,
) -> Budget:
    """The budget made of its parts.

    Args:
        weights, activation: by pipeline stage.
        graphs, graph_estimate: what capture takes, and what vLLM estimates for it; the latter is taken off only where
            the release does.
        total_bytes: of the GPU; None: as its catalogue has it.
        free_bytes: None: all but what CUDA's context and NCCL take.
    """
    release = canonical(deployment.vllm)
    given = facts("budget", release)
    share = float(given["requested"]["utilization"]) if flags.utilization is None else flags.utilization
    whole = total_bytes or outside.total_bytes(deployment.gpu)
    free = free_bytes or _less(whole, [outside.taken_before(deployment)], outside.FREE_FROM[deployment.gpu.integrated])
    requested = _share(whole, share)
    deduction = graph_memory_deducted(deployment, release, resolution.runner, resolution.cudagraph_mode)
    taken_off = graph_estimate if deduction.deducted and flags.kv_cache_bytes is None else NOTHING
    buffers = runner_buffers(deployment, resolution)
    stages = []
    for own, peak in zip(weights.stages, activation.stages, strict=True):
        off = [own.total, peak.total, non_torch, taken_off]
        counts = bool(given["requested"]["two_term"])
        if counts:
            off.append(buffers)
        left = _less(requested, off, "what is left of the memory asked for")
        if flags.kv_cache_bytes is not None:
            left = exactly(flags.kv_cache_bytes, "--kv-cache-memory-bytes")
        left = _shifted(left, -flags.reserve_bytes)
        kept = _kept_of(peak.terms, peak.total)
        if flags.kv_cache_bytes is None:
            # Weights and libraries are in what was asked for; the peak and the estimate are free again.
            gained = total([peak.total, _free_again(taken_off), exactly(flags.reserve_bytes, "")], "")
            spent = [requested, kept, graphs] if counts else [requested, kept, graphs, buffers]
            unused = _less(free.plus(gained), spent, "what stays free of the GPU")
        else:
            spent = [own.total, kept, non_torch, buffers, left, graphs]
            unused = _less(free, spent, "what stays free of the GPU")
        stages.append(
            StageBudget(
                own.total,
                peak.total,
                non_torch,
                buffers,
                counts,
                taken_off,
                left,
                graphs,
                unused,
                peak.sampler,
                adapters=own.parts.get("lora", 0),
                logits=min(peak.sampler, resolution.max_num_seqs * deployment.model.vocab_size * _FLOAT),
            )
        )
    made = Budget(whole, free, share, requested, tuple(stages), deduction, flags.kv_cache_bytes is not None)
    return replace(made, findings=tuple(shortages(made, deployment, resolution)))


def _free_again(taken_off: Interval) -> Interval:
    """An estimate below 0 is memory that others gave back while vLLM measured: free, unless they take it again."""
    return Interval(taken_off.low, max(taken_off.best, 0), max(taken_off.high, 0), taken_off.source)


def _share(whole: Interval, share: float) -> Interval:
    low, best, high = (requested_bytes(size, share) for size in (whole.low, whole.best, whole.high))
    return Interval(low, best, high, f"{share:g} of {whole.best / GIB:.2f} GiB")


def _less(whole: Interval, parts: list[Interval], source: str) -> Interval:
    """What is left: the deviations are independent, so they add up as squares."""
    best = whole.best - sum(part.best for part in parts)
    down = sqrt(sum((part.high - part.best) ** 2 for part in parts) + (whole.best - whole.low) ** 2)
    up = sqrt(sum((part.best - part.low) ** 2 for part in parts) + (whole.high - whole.best) ** 2)
    return between(best - down, best, best + up, source)


def _shifted(value: Interval, by: int) -> Interval:
    return Interval(value.low + by, value.best + by, value.high + by, value.source) if by else value


def _kept_of(terms: dict[str, int], peak: Interval) -> Interval:
    """Of the peak what stays: workspaces. The rest goes back after the profile run."""
    kept = sum(size for name, size in terms.items() if name in ("cublas", "experts", "sampler workspace"))
    return between(0, min(kept, peak.best), peak.high, "workspaces that stay")


LISTS_OF_A_ROW = 4 * (1024 + 129 + 1024 + 2 * 1024 + 128 + 128)
"""Bytes of runner V2's lists of one row: bad words and their offsets, allowed tokens, biased tokens and their biases,
stop tokens, and tokens whose logprobs are asked for: vllm/v1/worker/gpu/sample/ bad_words.py, logit_bias.py and
logprob.py @ 0.25.1 and 0.33.0."""


def runner_buffers(deployment: Deployment, resolution: Resolution) -> Interval:
    """What the runner keeps in torch's pool besides weights, and pieces of the pool that are not given back."""
    known: Any = facts("budget", canonical(deployment.vllm))["buffers"]
    model = deployment.model
    rows = resolution.max_num_seqs
    dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
    if resolution.runner is Runner.V2:
        # Counts of the vocabulary, and one bit of it for prompts.
        low = rows * model.vocab_size * 4 + rows * model.vocab_size // 8
        source = "counts of the vocabulary for every row"
        # A bit for grammars, for every token that a step may give, and the lists that a request may bring.
        spec = deployment.speculative_config
        tokens = 1 + ((spec.num_speculative_tokens or 0) if spec is not None else 0)
        best = low + rows * (tokens * (model.vocab_size // 8) + LISTS_OF_A_ROW)
        if _keeps_tokens(deployment):
            best += rows * resolution.max_model_len * 4
            source = "counts of the vocabulary and the tokens of every row"
    else:
        best = resolution.max_num_batched_tokens * model.hidden_size * ITEM_BYTES.get(dtype, 2)
        low, source = best, "input embeddings of a whole batch"
    best += known["other_bytes"] + known["pieces_bytes"]
    high = known["pieces_high_experts" if model.is_moe else "pieces_high"]
    return between(low, best, best + high, source)


def _keeps_tokens(deployment: Deployment) -> bool:
    """Whether runner V2 has the tokens of every row on the GPU; pinned memory of the host holds them otherwise.

    vllm/v1/worker/gpu/states.py:37-42 and model_runner.py:281 @ 0.33.0.
    """
    spec = deployment.speculative_config
    if spec is None or not holds(canonical(deployment.vllm), "0.32.0"):
        return False
    return (spec.method or ("ngram" if spec.model is None else "")).lower() in ("ngram", "ngram_gpu")
