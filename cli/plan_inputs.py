"""From the options of `cgplan plan` to a CapacityPlan: the flags of memory, and the values that were measured."""

from __future__ import annotations

import copy
import shlex
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from cgplan import Deployment, ModelShape
from cgplan.errors import InputError, shorten
from cgplan.light_dataclass import dataclass
from cgplan.memory.budget.budget import MemoryFlags, reserve_of
from cgplan.memory.budget.measured import Measured
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest

from .launched import is_launch_file
from .memory_flags import CacheSizeOptions, MemoryFlagOptions
from .options import DeploymentOptions
from .pasted import Pasted
from .quantities import share, size
from .request import Asked, request_of

if TYPE_CHECKING:
    from cgplan.memory.budget.measured_record import Profile
    from cgplan.memory.budget.weights import Weights

MEASURED = ("weights", "activation", "non_torch", "graphs", "graph_estimate", "free", "total")
NOT_LOOKED_AT = "max_model_len auto: the model's own length is taken; what fits is not looked at."
DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
"""Stands for the dense 8B decoder of the other commands, whose weights are not said."""


@dataclass(frozen=True)
class MemoryOptions:
    """The options of memory that were given, read.

    Attributes:
        utilization, kv_cache_bytes: flags of vLLM, over those of a line or file; None: not given.
        kv_bytes: the KV cache, where it is known.
        known: measured values.
        profile: file of a measured record, or None.
        weights: folder of safetensors files, or None.
    """

    utilization: float | None = None
    kv_cache_bytes: int | None = None
    kv_bytes: int | None = None
    known: Measured = field(default_factory=Measured)
    profile: str | None = None
    weights: str | None = None


@dataclass(frozen=True)
class Planned:
    """What was asked, and its plan."""

    asked: Asked
    plan: CapacityPlan
    assumptions: tuple[str, ...]
    record: Profile | None = None


def memory_options(options: CacheSizeOptions) -> MemoryOptions:
    """The options of memory, read; those that the command does not have count as not given.

    Raises:
        InputError: a value cannot be read, or two of them exclude each other.
    """
    names = (*CacheSizeOptions.__annotations__, *MemoryFlagOptions.__annotations__)
    given: dict[str, str | None] = {name: getattr(options, name, None) for name in names}
    sizes: dict[str, Any] = {name: _size(name, given) for name in MEASURED}
    known = Measured(**sizes, source="as given")
    found = MemoryOptions(
        utilization=_share(given.get("gpu_memory_utilization")),
        kv_cache_bytes=_bytes(given.get("kv_cache_memory_bytes"), "--kv-cache-memory-bytes"),
        kv_bytes=_bytes(given.get("kv_bytes"), "--kv-bytes"),
        known=known,
        profile=given.get("profile"),
        weights=given.get("weights"),
    )
    if found.kv_bytes is not None and found.kv_cache_bytes is not None:
        raise _both("--kv-bytes", "--kv-cache-memory-bytes")
    if found.weights is not None and known.weights is not None:
        raise _both("--weights", "--weights-bytes")
    return found


def planned(
    options: DeploymentOptions,
    memory: MemoryOptions,
    line: Pasted,
    which: str | None = None,
    *,
    first: Planned | None = None,
) -> Planned:
    """The plan of what a command asks for; the line or the file is that of `request_of`.

    Args:
        first: what it is compared with, which a measured record may be of.

    Raises:
        InputError: an option, the file or the line cannot be read, or the model is not known well enough.
        StartupError: vLLM would refuse before it looks at memory.
    """
    asked = request_of(options, line, which)
    deployment, assumptions = asked.deployment, list(asked.assumptions)
    if _is_nameless(deployment.model) and options.asked is None:
        deployment = deployment.model_copy(update={"model": _stand_in()})
    _check_known(options, deployment.model, counted=memory.known.weights is not None or memory.weights is not None)
    flags, auto_fit = _flags(options, memory)
    if auto_fit:
        deployment = deployment.model_copy(update={"max_model_len": None})
        assumptions = [text for text in assumptions if text != NOT_LOOKED_AT]
    request = MemoryRequest(flags, memory.known, None, memory.kv_bytes, auto_fit)
    record: Profile | None = None
    if memory.profile is not None:
        from . import plan_record

        record = first.record if first is not None and first.record is not None else plan_record.read(memory.profile)
        found = plan_record.known_by(
            record, deployment, memory.known,
            memory_given=options.gpu_memory_bytes is not None, first=first.plan.request if first is not None else None,
        )  # fmt: skip
        request = replace(request, known=found.measured, known_of=found.of)
        assumptions += found.remarks
    if memory.weights is not None:
        request = replace(request, weights=_from_files(memory.weights, deployment))
    made = plan_of(deployment, request)
    if options.assume_release is not None:
        from cgplan.memory.older_release import captured_by, for_release

        made = captured_by(for_release(made, options.vllm), options.vllm)
    if record is not None and request.known_of is None:
        assumptions += plan_record.held_against(record, made)
    return Planned(asked._replace(deployment=deployment), made, tuple(assumptions), record)


def planned_other(options: DeploymentOptions, memory: MemoryOptions, text: str, first: Planned) -> Planned:
    """The plan of --compare-with: a file or a line, with the same options over it; a record is of `first`."""
    own = copy.copy(options)
    own.asked = None
    if is_launch_file(text):
        own.model_tag = text
        return planned(own, memory, Pasted(), first=first)
    own.model_tag = own.model = None
    if _is_path(text):
        raise InputError(
            f"{shorten(text, 80)}: no such file or folder",
            code="CG910",
            where="--compare-with",
            fix="give a file that is there, or a line such as 'vllm serve MODEL'",
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"the line cannot be read: {error}", code="CG906", where="--compare-with", fix="close its quotes"
        ) from None
    return planned(own, memory, Pasted(tuple(words)), first=first)


def _is_path(text: str) -> bool:
    """One word with a folder before it that is no program of a line."""
    return text.startswith(("/", "./", "../", "~")) and not any(c.isspace() for c in text.strip())


def _size(name: str, given: dict[str, str | None]) -> int | None:
    parameter = {"graphs": "graph_bytes"}.get(name, f"{name}_bytes")
    return _bytes(given.get(parameter), "--" + parameter.replace("_", "-"))


def _bytes(text: str | None, flag: str) -> int | None:
    return None if text is None else size(text, flag)


def _share(text: str | None) -> float | None:
    return None if text is None else share(text, "--gpu-memory-utilization")


def _both(first: str, second: str) -> InputError:
    return InputError(f"{first} and {second} say the same", code="CG907", where=first, fix="drop one of the two")


def _flags(options: DeploymentOptions, memory: MemoryOptions) -> tuple[MemoryFlags, bool]:
    """The flags of memory, of the options over those of the line; and whether the length is to be fitted."""
    given: dict[str, Any] = {}
    if options.asked is not None and options.asked.args is not None:
        given = dict(options.asked.args.values)
    utilization = memory.utilization if memory.utilization is not None else given.get("gpu_memory_utilization")
    kv_cache = memory.kv_cache_bytes if memory.kv_cache_bytes is not None else given.get("kv_cache_memory_bytes")
    reserve = reserve_of(given.get("mm_ipc_gpu_memory_gb"))
    length: Any = options.max_model_len if options.max_model_len is not None else given.get("max_model_len")
    auto_fit = str(length).strip().lower() in ("auto", "-1")
    return MemoryFlags(utilization, kv_cache, reserve), auto_fit


def request_of_line(options: CacheSizeOptions) -> MemoryRequest:
    """What a line or file asks of the memory, with the options over it: flags, and nothing that was measured."""
    flags, auto_fit = _flags(options, memory_options(options))
    return MemoryRequest(flags, auto_fit=auto_fit)


def _is_nameless(model: ModelShape) -> bool:
    return model.name is None and model.weights is None


def _check_known(options: DeploymentOptions, model: ModelShape, *, counted: bool) -> None:
    """Another model's shape may stand in for graphs, and for memory where the bytes of the weights are `counted`."""
    served = options.asked.served if options.asked is not None else None
    if served is None or not served.model_assumed or model.weights is not None or counted:
        return
    name = shorten(model.name or "the model", 80)
    raise InputError(
        f"{name} is not in the catalogue, so nothing can be said of its memory",
        code="CG901",
        where="--model",
        fix="give --model with its config.json or its folder, or --weights-bytes with what the checkpoint has for each "
        "GPU; `cgplan models` lists those known",
    )


def _stand_in() -> ModelShape:
    from cgplan.inputs.catalogue import load_model

    return load_model(DEFAULT_MODEL)


def _from_files(folder: str, deployment: Deployment) -> Weights:
    from cgplan.inputs.safetensors_headers import read_tensors
    from cgplan.memory.budget.tensors import weights_of

    try:
        tensors = read_tensors(folder)
    except InputError as error:
        if error.code == "CG911":
            error.fix = "give the files as published, in full"
        raise
    if not tensors:
        fix = "give the folder of the model's weights, or --weights-bytes"
        raise InputError(f"{shorten(folder, 80)} holds no tensors", code="CG911", where="--weights", fix=fix)
    return weights_of(deployment, tensors, "the headers of its safetensors files")
