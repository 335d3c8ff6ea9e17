"""The memory that an engine needs, whether a GPU has it, and what to do where it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ...deployment import Deployment
from ...errors import CgplanError, InputError
from ...releases import canonical, facts, gpus
from ...sections import Gpu
from ...trace import Finding
from ..budget.non_torch import total_bytes
from ..estimates import GIB, Interval
from ..plan import CapacityPlan, plan_of
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


def room_for_decoder(deployment: Deployment, every: Sequence[Descriptor], few: Interval, lm_head: bool) -> Room:
    """Of the synthetic engine.

    At most: weights, cache, the largest step, the process's own memory, and the captured graphs at most, twice: the
    decoder launches more kernels than vLLM's compiled model, and timing captures a second time.

    Args:
        every: all graphs; the largest makes the step.
        few: what vLLM would take for the captured ones.

    Raises:
        InputError: CG993, no such decoder can be built.
    """
    from .synthetic.shape import DecoderShape, shape_of

    def shape_with(changed: Deployment) -> tuple[DecoderShape, tuple[str, ...]]:
        return shape_of(changed, max(one.num_tokens for one in every), lm_head)

    def least_with(shape: DecoderShape) -> int:
        return shape.weights_bytes + shape.kv_bytes + shape.step_bytes + CONTEXT_BYTES

    shape, notes = shape_with(deployment)
    least = least_with(shape)
    most = least + 2 * few.high
    has = total_bytes(deployment.gpu).best
    fits: Fits = "yes" if most <= has else "unsure" if least <= has else "no"
    problem = None
    if fits != "yes":
        ranks = _ranks_that_fit(deployment, lambda changed: least_with(shape_with(changed)[0]) + 2 * few.high, has)
        problem = _problem(deployment, fits, least, most, has, [ranks, _gpu_that_has(deployment.gpu, most)])
    return Room(shape.weights_bytes, shape.kv_bytes, shape.step_bytes, CONTEXT_BYTES, least, most, fits, problem, notes)


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


def _problem(deployment: Deployment, fits: Fits, least: int, most: int, has: int, fixes: list[str]) -> Finding:
    there = f"{deployment.gpu.name} has {_gib(has)}"
    if fits == "no":
        said = f"at least {_gib(least)} are needed on each GPU, and {there}: it does not fit"
    else:
        said = (
            f"{_gib(least)} to {_gib(most)} are needed on each GPU, and {there}: memory may run out while graphs are "
            "captured or timed"
        )
        fixes = ["--sample two with --times none", *fixes]
    fix = ", or ".join(text for text in fixes if text) or "profile a smaller model of the same shape"
    return Finding(NO_ROOM.code, "error" if fits == "no" else "warning", said, fix, "--gpu")


def _larger(than: Gpu) -> Iterator[Gpu]:
    """GPUs with more memory, the smallest first."""
    seen = total_bytes(than).best
    for entry in sorted(gpus.records(), key=lambda entry: int(entry["memory_bytes"])):
        found = gpus.gpu(entry["name"])
        size = total_bytes(found).best
        if size > seen and not found.integrated:
            seen = size
            yield found


def _option(found: Gpu) -> str:
    entry = next(entry for entry in gpus.records() if entry["name"] == found.name)
    return f"--gpu {entry['aliases'][0]}"


def _gpu_that_has(than: Gpu, needed: int) -> str:
    found = next((one for one in _larger(than) if total_bytes(one).low >= needed), None)
    return f"{_option(found)} ({_gib(total_bytes(found).best)})" if found is not None else ""


def room_for_vllm(deployment: Deployment, few: Interval) -> Room:
    """Of the engine `vllm`: what the plan of a start says, with the captured graphs in the place of all.

    Raises:
        CgplanError: the deployment cannot be planned.
    """
    made = _planned(deployment)
    assert made.budget is not None
    budget, stage = made.budget, made.budget.tightest
    outside = stage.non_torch.best + stage.buffers.best + max(0, budget.total.best - budget.free.best)
    other = stage.graphs.best - few.best
    used = budget.total.best - stage.unused.best - other
    least = stage.weights.best + stage.activation.best + outside + few.low
    share = f"vLLM fills {budget.utilization:g} of the GPU, its default, with weights and KV cache, whatever the model"
    return Room(
        weights_bytes=stage.weights.best,
        kv_bytes=max(0, stage.held.best),
        step_bytes=stage.activation.best,
        outside_bytes=outside,
        least_bytes=least,
        total_bytes=max(used, least),
        fits=made.starts,
        problem=_of_start(made),
        remarks=(share,),
    )


def _planned(deployment: Deployment) -> CapacityPlan:
    return plan_of(deployment, MemoryRequest(), advise=False)


def _of_start(made: CapacityPlan) -> Finding | None:
    """Why the start fails, or may fail, with what a profile can change of it."""
    if made.starts == "yes":
        return None
    deployment = made.deployment
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
    larger = _gpu_that_starts(deployment)
    if larger:
        fixes.append(larger)
    fixes.append("--engine synthetic, which also takes -tp")
    return Finding(NO_ROOM.code, severity, said, ", or ".join(fixes), "--gpu")


def _gpu_that_starts(deployment: Deployment) -> str:
    for _, found in zip(range(MOST_TRIED), _larger(deployment.gpu), strict=False):
        try:
            made = _planned(deployment.model_copy(update={"gpu": found}))
        except CgplanError:
            continue
        if made.starts == "yes":
            return f"{_option(found)} ({_gib(total_bytes(found).best)})"
    return ""


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
