"""The memory that an engine needs, whether a GPU has it, and what to do where it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ...deployment import Deployment
from ...errors import CgplanError, InputError
from ...releases import canonical, facts, gpus
from ...sections import Gpu
from ...trace import Finding
from ..budget.budget import MemoryFlags
from ..budget.non_torch import total_bytes
from ..capacity_plan import CapacityPlan
from ..estimates import GIB, Interval
from ..plan import plan_of
from ..request import MemoryRequest
from .descriptors import Descriptor
from .device import CONTEXT_BYTES
from .rules import NO_ROOM

Fits = Literal["yes", "unsure", "no"]

MOST_RANKS = 8
_HOPPER = 9
MOST_TRIED = 20
"""GPUs whose plan is looked at."""


class Room(NamedTuple):
    """As in `Needs`."""

    weights_bytes: int
    kv_bytes: int
    step_bytes: int
    outside_bytes: int
    least_bytes: int
    total_bytes: int
    fits: Fits
    problem: Finding | None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def driver_costs(deployment: Deployment, graphs: int) -> tuple[int, int]:
    """What the driver keeps for so many graphs, and for each kernel node in them; as measured of vLLM's graphs."""
    known = facts("graph_memory", canonical(deployment.vllm))["driver"]
    return graphs * int(known["graph"]), int(known["node" if deployment.gpu.major >= _HOPPER else "node_before_hopper"])


class Captured(NamedTuple):
    """What is run on the GPU.

    Attributes:
        every: all graphs.
        few: what vLLM would take for the captured ones.
        two: the same of the two largest of each mode.
        times: batch sizes to time.
    """

    every: Sequence[Descriptor]
    few: Interval
    two: Interval
    times: Sequence[int] = ()

    def largest(self, timed: bool = True) -> int:
        """Tokens of the largest step."""
        return max([one.num_tokens for one in self.every] + [size for size in self.times if timed])


def room_for_decoder(deployment: Deployment, captured: Captured, lm_head: bool) -> Room:
    """Of the synthetic engine.

    At most: weights, cache, the largest step, the process's own memory, and the captured graphs at most, twice: the
    decoder launches more kernels than vLLM's compiled model, and timing captures a second time.

    Raises:
        InputError: CG993, no such decoder can be built.
    """
    from .synthetic.shape import DecoderShape, shape_of

    def shape_with(changed: Deployment, timed: bool = True) -> tuple[DecoderShape, tuple[str, ...]]:
        return shape_of(changed, captured.largest(timed), lm_head)

    def least_with(shape: DecoderShape) -> int:
        return shape.weights_bytes + shape.kv_bytes + shape.step_bytes + CONTEXT_BYTES

    def need(changed: Deployment) -> int:
        return least_with(shape_with(changed)[0]) + 2 * captured.few.high

    try:
        shape, notes = shape_with(deployment)
    except InputError as error:
        raise _not_in_a_circle(deployment, error) from None
    least = least_with(shape)
    most = least + 2 * captured.few.high
    has = total_bytes(deployment.gpu).best
    fits: Fits = "yes" if most <= has else "unsure" if least <= has else "no"
    problem = None
    if fits != "yes":
        fixes = []
        if least_with(shape_with(deployment, timed=False)[0]) + 2 * captured.two.high <= has:
            fixes.append("--sample two with --times none")
        ranks = _ranks_that_fit(deployment, need, has)
        fixes += [ranks, _gpu_that_has(deployment.gpu, most)]
        if not any(fixes):
            fixes.append(_gpus_that_have(deployment, need))
        problem = _problem(deployment, fits, least, most, has, fixes)
    return Room(shape.weights_bytes, shape.kv_bytes, shape.step_bytes, CONTEXT_BYTES, least, most, fits, problem, notes)


def _not_in_a_circle(deployment: Deployment, error: InputError) -> InputError:
    """The other engine is a way out where vLLM starts on that GPU by it."""
    if "--engine vllm" not in (error.fix or ""):
        return error
    try:
        made = _planned(deployment.model_copy(update=_ONE_GPU))
    except CgplanError:
        return error
    if made.starts == "yes":
        return error
    larger = _gpu_that_starts(made.deployment)
    there = f"vLLM itself, whose engine runs on one GPU, does not start on {deployment.gpu.name}"
    error.fix = f"use --engine vllm {larger}: {there}" if larger else f"none here: {there}, nor on a larger one"
    return error


_ONE_GPU = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1}


def _ranks_that_fit(deployment: Deployment, need: Callable[[Deployment], int], has: int) -> str:
    """The fewest GPUs among which it can be split; "": none."""
    ranks = deployment.tensor_parallel_size
    while (ranks := ranks * 2) <= MOST_RANKS:
        try:
            each = need(deployment.model_copy(update={"tensor_parallel_size": ranks}))
        except InputError:  # they do not divide the heads
            continue
        if each <= has:
            return f"-tp {ranks} (at most {_gib(each)} on each GPU)"
    return ""


def _gpus_that_have(deployment: Deployment, need: Callable[[Deployment], int]) -> str:
    """The smallest of larger GPUs among which it can be split; "": none."""
    for found in _larger(deployment.gpu):
        ranks = _ranks_that_fit(deployment, need, total_bytes(found).low)
        if ranks:
            return f"{_option(found, deployment.gpu)} {ranks}"
    return ""


def _problem(deployment: Deployment, fits: Fits, least: int, most: int, has: int, fixes: list[str]) -> Finding:
    there = f"{deployment.gpu.name} has {_gib(has)}"
    if fits == "no":
        said = f"at least {_gib(least)} are needed on each GPU, and {there}: it does not fit"
    else:
        said = (
            f"{_gib(least)} to {_gib(most)} are needed on each GPU, and {there}: memory may run out while graphs are "
            "captured or timed"
        )
    fix = ", or ".join(text for text in fixes if text) or "profile a smaller model of the same shape"
    return Finding(NO_ROOM.code, "error" if fits == "no" else "warning", said, fix, "--gpu")


def _larger(than: Gpu) -> Iterator[Gpu]:
    """GPUs with more memory, the smallest first; first the same one, where it was given less memory than it has."""
    seen = total_bytes(than).best
    own = next((entry for entry in gpus.records() if entry["name"] == than.name), None)
    others = sorted(gpus.records(), key=lambda entry: int(entry["memory_bytes"]))
    for entry in [own, *others] if own is not None and than.memory_bytes < int(own["memory_bytes"]) else others:
        found = gpus.gpu(entry["name"])
        size = total_bytes(found).best
        if size > seen and not found.integrated:
            seen = size
            yield found


def _option(found: Gpu, than: Gpu | None = None) -> str:
    """The option that names a GPU; in the place of one whose memory was given, its memory is not to be given."""
    entry = next(entry for entry in gpus.records() if entry["name"] == found.name)
    named = f"--gpu {entry['aliases'][0]}"
    before = next((entry for entry in gpus.records() if than is not None and entry["name"] == than.name), None)
    given = than is not None and before is not None and than.memory_bytes != int(before["memory_bytes"])
    return f"{named} without --gpu-memory-bytes" if given else named


def _gpu_that_has(than: Gpu, needed: int) -> str:
    found = next((one for one in _larger(than) if total_bytes(one).low >= needed), None)
    return f"{_option(found, than)} ({_gib(total_bytes(found).best)})" if found is not None else ""


def room_for_vllm(deployment: Deployment, few: Interval, flags: MemoryFlags | None = None) -> Room:
    """Of the engine `vllm`: what the plan of a start says, with the captured graphs in the place of all.

    Raises:
        CgplanError: the deployment cannot be planned.
    """
    flags = flags or MemoryFlags()
    made = _planned(deployment, flags)
    assert made.budget is not None
    budget, stage = made.budget, made.budget.tightest
    outside = stage.non_torch.best + stage.buffers.best + max(0, budget.total.best - budget.free.best)
    least = stage.weights.best + stage.activation.best + outside + few.low
    cache = max(0, stage.held.best)
    used = stage.weights.best + cache + stage.activation.best + outside + few.best
    if budget.is_manual:
        share = "the KV cache is what --kv-cache-memory-bytes says"
    else:
        whose = "its default" if flags.utilization is None else "as --gpu-memory-utilization says"
        share = f"vLLM fills {budget.utilization:g} of the GPU, {whose}, with weights and KV cache, whatever the model"
    return Room(
        weights_bytes=stage.weights.best,
        kv_bytes=cache,
        step_bytes=stage.activation.best,
        outside_bytes=outside,
        least_bytes=least,
        total_bytes=max(used, least),
        fits=made.starts,
        problem=_of_start(made),
        remarks=(share,),
    )


def _planned(deployment: Deployment, flags: MemoryFlags | None = None) -> CapacityPlan:
    return plan_of(deployment, MemoryRequest(flags or MemoryFlags()), advise=False)


def _of_start(made: CapacityPlan) -> Finding | None:
    """Why the start fails, or may fail, with what a profile can change of it. Every way out was planned."""
    if made.starts == "yes":
        return None
    deployment, flags = made.deployment, made.request.flags
    severity = "error" if made.starts == "no" else "warning"
    why = next((found for found in made.findings if found.severity == "error"), None)
    why = why or next((found for found in made.findings if found.severity == "warning"), None)
    does = "does not start" if made.starts == "no" else "may not start"
    said = f"vLLM {does} on {deployment.gpu.name}, which has {_gib(total_bytes(deployment.gpu).best)}"
    if why is not None:
        said = f"{said}: {why.message} ({why.code})"
    fixes = []
    longest = made.max_model_len_that_surely_starts
    if longest:
        fixes.append(f"--max-model-len {longest}")
    requests = made.max_num_seqs_that_surely_starts
    if 0 < requests < made.resolution.max_num_seqs:
        fixes.append(f"--max-num-seqs {requests}")
    larger = _gpu_that_starts(deployment, flags)
    if larger:
        fixes.append(larger)
    if _can_be_built(deployment):
        fixes.append("--engine synthetic, which also takes -tp")
    fix = ", or ".join(fixes) or "profile a smaller model of the same shape: the engine vllm runs on one GPU"
    return Finding(NO_ROOM.code, severity, said, fix, "--gpu")


def _can_be_built(deployment: Deployment) -> bool:
    from .synthetic.shape import shape_of

    try:
        shape_of(deployment, 1)
    except InputError:
        return False
    return True


def _gpu_that_starts(deployment: Deployment, flags: MemoryFlags | None = None) -> str:
    for _, found in zip(range(MOST_TRIED), _larger(deployment.gpu), strict=False):
        try:
            made = _planned(deployment.model_copy(update={"gpu": found}), flags)
        except CgplanError:
            continue
        if made.starts == "yes":
            return f"{_option(found, deployment.gpu)} ({_gib(total_bytes(found).best)})"
    return ""


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
