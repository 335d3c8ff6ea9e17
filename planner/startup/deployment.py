"""From a start to the Deployment that it was, so that it can be planned; or why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..deployment import Deployment
from ..errors import CgplanError, InputError, shorten
from ..inputs.launches import launch_of
from ..inputs.launches.asked import Asked, Context, ask
from ..memory.budget.budget import MemoryFlags, reserve_of
from ..releases import SUPPORTED, table
from ..releases.gpus import records
from ..resolve import resolve
from ..resolve.known_backend import runs_on
from ..sections import Gpu
from ..trace import Finding
from .arguments import arguments_of, model_of, words_of
from .known import GIB, argument, gib, gpu_memory, release_assumed, release_of
from .record import Start
from .rules import OTHER_GPU
from .solved import settle

GRAPHS = ("compilation_config", "cudagraph_capture_sizes", "max_cudagraph_capture_size", "enforce_eager")
"""Settings of a user that say what graphs there are."""
RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
TOTAL_GAP = GIB + GIB // 4
"""By how much the driver's figure of a GPU's memory is above CUDA's, which is what logs print, on most machines."""
SHARED_GAP = 4 * GIB
"""By how much machines of one kind differ where the GPU shares the CPU's memory, and firmware keeps a part of it."""
LARGEST_GAP = 6 * GIB
"""The same with error correction in memory, page tables and what WSL or a display keeps."""


@dataclass(frozen=True)
class Served:
    """The deployment of a start.

    Attributes:
        deployment: None where it is not known well enough.
        flags: of memory.
        auto_fit: max_model_len was to be fitted.
        has_weights: the model's weights are known; only then can a budget be planned.
        assumptions, ignored: one line each.
        why_not: why there is no deployment, or no budget; None: there is.
        fix: what would change that.
        findings: where the log does not agree with what was said of it.
        of_the_log: mode and sizes were asked for as the engine's line has them, for the log has no arguments.
        is_solved: requests or drafts were solved back from the graphs that the log counts.
    """

    deployment: Deployment | None
    flags: MemoryFlags = field(default_factory=MemoryFlags)
    auto_fit: bool = False
    has_weights: bool = False
    assumptions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    why_not: str | None = None
    fix: str | None = None
    findings: tuple[Finding, ...] = ()
    of_the_log: bool = False
    is_solved: bool = False


PLAN_IT = "without a log `cgplan plan --gpu GPU -- vllm serve ...` plans the command"
OPTIONS = {"the release": "--vllm RELEASE", "the model": "--model MODEL", "the GPU": "--gpu GPU"}
"""What a plan needs, and the options that name it."""


def served(start: Start, context: Context) -> Served:
    """The deployment of `start`.

    Args:
        context: what the user says beside the log: GPU, model, release. The GPU of this machine is not taken: the log
            may be from anywhere.

    Raises:
        InputError: what the user says cannot be used with the log.
    """
    release = context.release or release_of(start)
    name = model_of(start)
    there = {
        "the release": release is not None,
        "the model": name is not None or context.model is not None,
        "the GPU": context.gpu is not None,
    }
    lacking = [what for what, known in there.items() if not known]
    if lacking == ["the GPU"]:
        return _without_gpu(start)
    if lacking or release is None:
        return _unnamed(start, lacking)
    given, assumptions = arguments_of(start)
    words, left_out = words_of(given, name or "model", release)
    said = release_assumed(start) if context.release is None else None
    assumptions = [said, *assumptions] if said else assumptions
    assumptions += [f"{one}: {release} has no such argument; it is left out" for one in left_out]
    env = {**start.environment, **context.env}
    try:
        asked = ask(launch_of(words), context._replace(release=release, env=env, here=None))
    except InputError as error:
        return Served(None, assumptions=tuple(assumptions), why_not=error.message, fix=error.fix)
    assumptions += [f"{error.message}; it is left out" for error in asked.refused]
    if asked.served is None:
        reason = asked.problem.message if asked.problem is not None else "the arguments of the log cannot be read"
        return Served(None, assumptions=tuple(assumptions), why_not=reason)
    return _known(start, asked, context, [*assumptions, *asked.assumptions])


def _known(start: Start, asked: Asked, context: Context, assumptions: list[str]) -> Served:
    assert asked.served is not None
    found = asked.served
    named = found.model
    if named is not None and not named.is_known and (named.like is None or named.is_relative):
        near = f"; much like it is {named.near[0]}" if named.near else ""
        return Served(
            None, assumptions=tuple(assumptions), fix="--model takes its config.json, its folder or an id",
            why_not=f"{shorten(named.name, 80)} is neither here nor in the catalogue{near}",
        )  # fmt: skip
    deployment = _with_runner(found.deployment, start, assumptions)
    values = asked.args.values if asked.args is not None else {}
    settled = settle(start, deployment, context.settings)
    deployment = settled.deployment
    assumptions += settled.assumptions
    length = values.get("max_model_len")
    auto_fit = str(length).strip().lower() in ("auto", "-1")
    if auto_fit:
        deployment = deployment.model_copy(update={"max_model_len": None})
    try:
        flags = MemoryFlags(
            values.get("gpu_memory_utilization"),
            values.get("kv_cache_memory_bytes"),
            reserve_of(values.get("mm_ipc_gpu_memory_gb")),
        )
    except CgplanError:
        flags = MemoryFlags()
    why_not = fix = None
    weights = deployment.model.weights is not None
    if not weights:
        why_not = f"nothing is known of the weights of {shorten(deployment.model.name or 'the model', 80)}"
        fix = "--model takes its config.json, its folder or an id"
    of_the_log = not start.arguments and bool(start.engine) and not any(name in context.settings for name in GRAPHS)
    return Served(
        deployment, flags, auto_fit, weights, tuple(assumptions), found.ignored, why_not, fix, settled.findings,
        of_the_log, settled.is_solved,
    )  # fmt: skip


def other_gpu(start: Start, deployment: Deployment) -> Finding | None:
    """What to say where the memory of the log's GPU is not that of the deployment's; None: it may be the same."""
    return other_than(start, deployment.gpu)


def other_than(start: Start, gpu: Gpu, *, is_planned: bool = True) -> Finding | None:
    """The same of a GPU, with a plan or without."""
    found = gpu_memory(start)
    own = gpu.memory_bytes
    below = SHARED_GAP if gpu.integrated else GIB // 10
    if found is None or (own >= found.low - below and own <= found.high + LARGEST_GAP):
        return None
    what = "the plan is of another, and does not hold" if is_planned else "a plan of it would be of another"
    text = f"{gpu.name} has {gib(own)}, and the log's GPU {found.as_text()}: {what}"
    near = gpus_of(found.low, found.high, start)
    size = f"--gpu-memory-bytes {(found.low + found.high) // 2}"
    variant = f"or, of a variant of {gpu.name} (laptop, MIG), {size}"
    fix = f"--gpu of the log's; by its memory it may be {', '.join(near)} or another; {variant}"
    if not near:
        shown = " and what the log shows" if capable(start) else ""
        fix = f"--gpu of the log's, {variant}; of those known none has that memory{shown}"
    return Finding(OTHER_GPU.code, "warning", text, fix, "--gpu")


def runner_of(start: Start) -> str | None:
    """The runner that served it; None: the log does not say."""
    if start.runner is not None:
        return start.runner
    bars = [bar for rank in start.ranks for bar in rank.captured] + list(start.captured)
    if any(rank.profiled or rank.samples for rank in start.ranks) or any("decode, FULL" in bar.name for bar in bars):
        return "V1"  # Only runner V1 prints these.
    return None


def _with_runner(deployment: Deployment, start: Start, assumptions: list[str]) -> Deployment:
    """The deployment with the runner that the log shows."""
    shown = runner_of(start)
    if shown is None or RUNNER_VARIABLE in deployment.env:
        return deployment
    try:
        if resolve(deployment).runner.value == shown:
            return deployment
        other = deployment.model_copy(
            update={"env": {**deployment.env, RUNNER_VARIABLE: "1" if shown == "V2" else "0"}}
        )
        if resolve(other).runner.value != shown:
            return deployment
    except CgplanError:
        return deployment
    assumptions.append(f"runner {shown}, as the log shows, though the rules of {deployment.vllm} choose the other")
    return other


def _unnamed(start: Start, lacking: Sequence[str]) -> Served:
    """All that is not named, with the one line that names it."""
    what = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
    log = "a few lines do" if start.is_part else "the log does"
    fix = f"`cgplan logs LOG {' '.join(OPTIONS[one] for one in lacking)}`"
    fix += f"; {PLAN_IT}" if start.is_part else ""
    return Served(None, why_not=f"{log} not name {what}{_size(start) if 'the GPU' in lacking else ''}", fix=fix)


def _without_gpu(start: Start) -> Served:
    if start.platform_plugin is not None:
        return Served(
            None, why_not=f"{start.platform_plugin} is a plugin's platform, whose devices and rules are not here"
        )
    fix = "--gpu names it; `cgplan gpus` lists those known"
    return Served(None, why_not=f"the log does not name the GPU{_size(start)}", fix=fix)


def _size(start: Start) -> str:
    """The memory of the log's GPU and which have it, in words; "": not known."""
    total = gpu_memory(start)
    near = gpus_of(total.low, total.high, start) if total is not None else []
    if total is None or not near:
        return ""
    less = "" if total.by else ", a little less than nvidia-smi shows"
    return f"; its memory is {total.as_text()}{less}: it may be {', '.join(near)} or another"


MOST_NEAR = 6


def capable(start: Start) -> list[Callable[[tuple[int, int]], bool]]:
    """What the log shows of the GPU's compute capability: conditions that all hold for it."""
    found: list[Callable[[tuple[int, int]], bool]] = []
    cache = argument(start, "kv_cache_dtype") or start.engine.get("kv_cache_dtype")
    if cache == "nvfp4":
        found.append(lambda own: own >= (10, 0))
    if start.flash_version == 2:
        found.append(lambda own: own[0] >= 8 and own[0] != 9)
    elif start.flash_version == 3:
        found.append(lambda own: own[0] == 9)
    elif start.flash_version is not None:
        found.append(lambda own: own[0] in (9, 10))
    release = release_of(start) or SUPPORTED[-1]
    backends = dict.fromkeys(name for rank in start.ranks for name in rank.attention_backends)
    return [*found, *(partial(runs_on, name, release) for name in backends)]


def gpus_of(low: int, high: int, start: Start | None = None) -> list[str]:
    """Short names of the GPUs whose memory may lie between the two, as CUDA has it: those of one size cannot be told
    apart, but for what the log of `start` shows of their compute capability."""
    holds = capable(start) if start is not None else []
    exact = table("budget")["non_torch"]["total_by_name"]
    found = []
    for record in records():
        said = exact.get(record["name"])
        most = record["memory_bytes"]
        near = low - GIB // 20 < said < high + GIB // 20 if said is not None else low <= most <= high + TOTAL_GAP
        major, minor = record["capability"]
        if near and all(condition((major, minor)) for condition in holds):
            found.append(str(record["aliases"][0]))
    return found[:MOST_NEAR]
