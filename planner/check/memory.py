"""Checks of the memory flags: what is left for the graphs, and how the release counts them."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from ..memory.budget.estimate_rules import ENCODER_GRAPHS, GATED_DELTA
from ..memory.budget.outside_rules import HIGH, OUTSIDE, ROOM_FOR_GRAPHS, SWITCHED_OFF
from ..releases import holds
from ..resolve.memory_deduction import VARIABLE, Deduction, graph_memory_deducted
from ..trace import Rule
from ..vocabulary import CUDAGraphMode, Runner
from .diagnostic import Hit
from .places import place_of, related
from .registry import check
from .subject import Subject
from .what_if import number_flag

GIB = 2**30
UTILIZATION = "gpu_memory_utilization"
BYTES = "kv_cache_memory_bytes"

LEAST_SHARE = 0.02
LEAST_BYTES = GIB // 2
"""Memory that capture needs beside a full KV cache, even where the graphs are counted."""
LOGIT_BYTES = 4
GRAPH_BYTES = 18 * 2**20
"""Most that a graph took on average, of seven public runs with 102 graphs on H100s: 0.5 to 1.8 GiB in all."""
TAKEN_BEFORE = GIB // 2
"""What the driver and the CUDA context of the process hold of a large GPU before vLLM measures; in those runs 0.51 GiB
of 79.19 were not free."""
GDN_BYTES_A_TOKEN = {("qwen3_5_moe_text", 48, 3072): 128 * 1024}
"""Transient memory of gated delta layers, bytes a token of max_num_batched_tokens, by model type, layers and hidden
size. Measured on 0.26.0 with a 122B model; a 27B one had 0.37 GiB more at 8192 tokens than at 4096, and none below."""
MANY_TOKENS = 8192

NO_MARGIN = Rule(
    "CG520",
    title="--gpu-memory-utilization leaves less than 0.5 GiB or 2% of the GPU outside the budget.",
    why="Capture with a full KV cache takes slightly more than estimated, and so do other processes.",
    example="0.98 on a laptop GPU with 22.4 GiB: 0.45 GiB are left, and capture runs out of memory.",
    instead="Use at most 0.98, and less on small GPUs.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
)
RAISED = Rule(
    "CG523",
    title="The graphs' estimate comes out of the KV cache, and vLLM's log advises a --gpu-memory-utilization to match.",
    why="The advice is the value plus the estimate over the GPU's memory, whether the GPU can give that much or not.",
    example="0.9764 on a 24 GB GPU: the log advises 0.9984, and with it capture runs out of memory.",
    instead="Do not follow the advice near 1; capture fewer sizes, or set --kv-cache-memory-bytes.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
)
UNIFIED = Rule(
    "CG524",
    title="On a GPU that shares its memory with the CPU the graphs' estimate is not reliable.",
    why="It is a difference of free memory, and everything else that runs on the machine changes that too.",
    example="A GB10 on 0.26.0: an estimate of -20.5 GiB made the KV cache that much larger than the budget.",
    instead="Set --kv-cache-memory-bytes, or VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 with a lower utilization.",
    source="vllm/utils/mem_utils.py:131-161",
)
ENCODER = Rule(
    "CG528",
    title="Graphs of the vision encoder are not in the estimate of this release.",
    why="Only the decoder's graphs were sampled; runner V1 counts the encoder's since 0.23, runner V2 since 0.29.",
    example="cudagraph_mm_encoder with 18 encoder graphs: 7.5 GiB of graphs where 0.6 GiB were estimated.",
    instead="Lower --gpu-memory-utilization, or switch cudagraph_mm_encoder off.",
    source="vllm/v1/worker/gpu_model_runner.py, profile_cudagraph_memory",
    until="0.28.0",
    release="0.28.0",
)


def gpu_is_known(subject: Subject) -> bool:
    """Whether the user or the file names the GPU; else an H100 is assumed."""
    return not subject.asked.gpu_assumed


def utilization(subject: Subject) -> float | None:
    """The --gpu-memory-utilization that is given and counts, else None."""
    value = subject.get(UTILIZATION) if subject.is_given(UTILIZATION) else None
    if not isinstance(value, int | float) or not 0 < value <= 1 or subject.get(BYTES):
        return None
    return float(value)


def margin(subject: Subject, used: float) -> float | None:
    """GPU memory outside the budget, bytes; None where the GPU is not known."""
    d = subject.deployment
    return d.gpu.memory_bytes * (1 - used) if d is not None and gpu_is_known(subject) else None


def deduction(subject: Subject) -> Deduction | None:
    """Whether the graphs' estimate is taken off the KV cache; None where there are no graphs."""
    d, found = subject.deployment, subject.resolution
    if d is None or found is None or found.cudagraph_mode is CUDAGraphMode.NONE:
        return None
    return graph_memory_deducted(d, subject.release, found.runner, found.cudagraph_mode)


def highest(subject: Subject) -> float:
    """The highest utilization that leaves 0.5 GiB and 2%, rounded down to hundredths."""
    d = subject.deployment
    share = LEAST_SHARE
    if d is not None and gpu_is_known(subject):
        share = max(share, LEAST_BYTES / d.gpu.memory_bytes)
    return floor((1 - share) * 100 + 1e-9) / 100


def _is_tight(subject: Subject, used: float) -> bool:
    left = margin(subject, used)
    return used > 1 - LEAST_SHARE or (left is not None and left < LEAST_BYTES)


@check(NO_MARGIN, "warning")
def no_margin(subject: Subject) -> Iterator[Hit]:
    used = utilization(subject)
    if used is None or subject.resolution is None or not _is_tight(subject, used):
        return
    taken = deduction(subject)
    if taken is not None and not taken.deducted:
        return  # CG521 and CG522 say the same, and advise less
    left = margin(subject, used)
    most = highest(subject)
    flag, edits = number_flag(subject, "--gpu-memory-utilization", most)
    left_text = f"{1 - used:.1%} of the GPU" if left is None else f"{left / GIB:.2f} GiB ({1 - used:.1%}) of the GPU"
    yield Hit(
        f"--gpu-memory-utilization {used:g} leaves {left_text} outside the budget",
        f"use {flag} or less",
        subject.at(UTILIZATION),
        flag,
        edits,
        safe=False,
    )


@check(OUTSIDE, "warning")
def outside(subject: Subject) -> Iterator[Hit]:
    if VARIABLE not in (subject.deployment.env if subject.deployment is not None else ()):
        yield from _little_room(subject, "")


@check(SWITCHED_OFF, "warning")
def switched_off(subject: Subject) -> Iterator[Hit]:
    d = subject.deployment
    if d is not None and VARIABLE in d.env:
        yield from _little_room(subject, f" ({VARIABLE}={d.env[VARIABLE]})")


def _little_room(subject: Subject, why: str) -> Iterator[Hit]:
    used, found, taken = utilization(subject), subject.resolution, deduction(subject)
    if used is None or found is None or taken is None or taken.deducted or subject.deployment is None:
        return
    left = margin(subject, used)
    if used < HIGH and (left is None or left >= ROOM_FOR_GRAPHS):
        return
    default = subject.flags.by_dest[UTILIZATION].default
    flag, edits = number_flag(subject, "--gpu-memory-utilization", default)
    logits = found.max_num_seqs * subject.deployment.model.vocab_size * LOGIT_BYTES
    room = "" if left is None else f", {left / GIB:.2f} GiB,"
    # Where the GPU is not known, that of the assumed one decides, as in all else that is said.
    outside_budget = subject.deployment.gpu.memory_bytes * (1 - used)
    needed = found.graph_count() * GRAPH_BYTES + logits + TAKEN_BEFORE
    short = needed > outside_budget or _is_tight(subject, used)
    fewer = f"set --max-num-seqs {found.max_num_seqs // 2}" if found.max_num_seqs > 1 else "capture fewer sizes"
    yield Hit(
        f"{found.graph_count()} graphs and {logits / GIB:.2f} GiB of sampler logits must fit in the {1 - used:.1%}"
        f"{room} outside the budget{why}",
        f"use {flag}, or {fewer}" if default < used else fewer,
        subject.at(UTILIZATION),
        flag if default < used else None,
        edits if default < used else (),
        safe=False,
        related=related(subject, "decides the sampler's memory", "max_num_seqs"),
        severity="warning" if short else "info",
    )


@check(RAISED, "info")
def raised(subject: Subject) -> Iterator[Hit]:
    used, found, taken = utilization(subject), subject.resolution, deduction(subject)
    if used is None or used < HIGH or found is None or taken is None or not taken.deducted:
        return
    if _is_tight(subject, used):
        return
    yield Hit(
        f"the KV cache gives up what the {found.graph_count()} graphs are estimated to take; where vLLM's log advises "
        f"more than {max(used, highest(subject)):g} to make up for it, too little memory is left",
        "capture fewer sizes, or set --kv-cache-memory-bytes, rather than raise --gpu-memory-utilization further",
        subject.at(UTILIZATION),
    )


@check(UNIFIED, "info")
def unified(subject: Subject) -> Iterator[Hit]:
    d, taken = subject.deployment, deduction(subject)
    if d is None or not d.gpu.integrated or subject.get(BYTES) or taken is None or not taken.deducted:
        return
    yield Hit(
        f"{d.gpu.name} shares its memory with the CPU: the graphs' estimate may be far off, even negative, and the KV "
        "cache with it",
        f"set --kv-cache-memory-bytes, or {VARIABLE}=0 with some memory left outside the budget",
        subject.at(UTILIZATION),
    )


@check(ENCODER, "warning")
def encoder(subject: Subject) -> Iterator[Hit]:
    if not _has_encoder_graphs(subject) or deduction(subject) is None or _counts_encoder(subject):
        return
    yield Hit(
        "the graphs of the vision encoder take memory that is not kept back",
        "lower --gpu-memory-utilization by what they take, or drop cudagraph_mm_encoder",
        place_of(subject, "-cc.cudagraph_mm_encoder"),
        related=related(subject, "the budget without them", UTILIZATION),
    )


@check(ENCODER_GRAPHS, "warning")
def encoder_beside(subject: Subject) -> Iterator[Hit]:
    if not _has_encoder_graphs(subject) or not _counts_encoder(subject):
        return  # CG528 says more of older releases
    yield Hit(
        "the graphs of the vision encoder come on top of the decoder's; no plan holds them, and reports have some GiB",
        ENCODER_GRAPHS.instead,
        place_of(subject, "-cc.cudagraph_mm_encoder"),
        related=related(subject, "the budget that has to hold them", UTILIZATION),
    )


def _has_encoder_graphs(subject: Subject) -> bool:
    d = subject.deployment
    if d is None or subject.resolution is None or d.enforce_eager:
        return False
    return bool(d.compilation_config.cudagraph_mm_encoder and d.model.is_multimodal_model)


def _counts_encoder(subject: Subject) -> bool:
    """Whether vLLM's estimate of the graphs has those of the encoder."""
    assert subject.resolution is not None
    return holds(subject.release, "0.23.0" if subject.resolution.runner is Runner.V1 else "0.29.0")


@check(GATED_DELTA, "info")
def gated_delta(subject: Subject) -> Iterator[Hit]:
    d, found, taken = subject.deployment, subject.resolution, deduction(subject)
    if d is None or found is None or taken is None or not taken.deducted or subject.get(BYTES):
        return
    if "GDN_ATTN" not in d.model.mamba_backends or found.max_num_batched_tokens < MANY_TOKENS:
        return
    if d.gpu.integrated:
        return  # CG524: there the estimate is off by more than this
    m = d.model
    per_token = GDN_BYTES_A_TOKEN.get((m.model_type or "", m.num_hidden_layers, m.hidden_size))
    much = "a part" if per_token is None else f"about {per_token * found.max_num_batched_tokens / GIB:.1f} GiB"
    yield Hit(
        f"{much} of the KV cache goes to a graph estimate that grows with max_num_batched_tokens, "
        f"{found.max_num_batched_tokens}",
        "lower --max-num-batched-tokens, or switch the estimate off where the utilization leaves room",
        place_of(subject, "--max-num-batched-tokens"),
    )
