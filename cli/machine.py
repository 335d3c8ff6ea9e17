"""Where it would run: the GPU and the software, given or assumed."""

from __future__ import annotations

import re
from typing import Any

from cgplan import Gpu, Software
from cgplan.errors import InputError, did_you_mean, shorten

from . import values
from .options import DeploymentOptions

PACKAGES = ("aiter", "amx", "b12x", "hpc", "ray", "tokenspeed_mla")
"""Optional packages, and AMX, that unlock a backend or an executor."""

OFFICIAL_IMAGE = "Software: the official CUDA image of the release, with FlashInfer; --software changes it."

_OTHER_MAKER = re.compile(r"(amd|intel|instinct|radeon|mi[0-9]{2,3}|gfx|gaudi|hpu|arc|xpu|max|tpu|ascend|cpu|rx)", re.I)

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")


def gpu_of(options: DeploymentOptions, fields: dict[str, Any], assumptions: list[str]) -> Gpu:
    """The GPU named, else the one here, else the default; `fields` gets how many are here."""
    found = named_gpu(options)
    if found is None:
        found = _gpu_here(fields, assumptions)
    from cgplan.releases.gpus import as_assumed

    unnamed = as_assumed(found)
    if unnamed:
        assumptions.append(unnamed)
    memory = gpu_memory(options)
    return found if memory is None else found.model_copy(update={"memory_bytes": memory})


def named_gpu(options: DeploymentOptions) -> Gpu | None:
    """The GPU of --gpu: a name of the catalogue, or a compute capability beside --gpu-memory-bytes."""
    from cgplan.releases.gpus import capability_of, gpu, gpu_of_capability, instead_of

    if options.gpu is None:
        return None
    capability = capability_of(options.gpu)
    if capability is not None:
        memory = gpu_memory(options)
        if memory is None:
            raise InputError(
                f"{shorten(options.gpu, 20)} is a compute capability, and does not say how large the GPU is",
                code="CG904",
                where="--gpu",
                fix=f"add its memory as CUDA says it: --gpu {shorten(options.gpu, 20)} --gpu-memory-bytes 80GiB",
            )
        return gpu_of_capability(capability, memory)
    try:
        return gpu(options.gpu)
    except InputError as error:
        if _OTHER_MAKER.match(options.gpu):
            error.fix = instead_of(options.gpu)
        else:
            error.fix = f"{error.fix}; another GPU: --gpu sm90 with --gpu-memory-bytes"
        raise


def gpu_memory(options: DeploymentOptions) -> int | None:
    """--gpu-memory-bytes."""
    if options.gpu_memory_bytes is None:
        return None
    from .quantities import size  # reads 16.3GiB, too

    memory = size(options.gpu_memory_bytes, "--gpu-memory-bytes")
    if memory < 1:
        raise InputError(
            f"{memory} bytes are no memory of a GPU",
            code="CG903",
            where="--gpu-memory-bytes",
            fix="give its bytes, 80G",
        )
    return memory


def _gpu_here(fields: dict[str, Any], assumptions: list[str]) -> Gpu:
    from cgplan.inputs.devices import detect

    here = detect()
    if here is None:
        assumptions.append("GPU: NVIDIA H100 80GB HBM3, since none is here; --gpu names another.")
        return Gpu()
    found, count = here
    fields.setdefault("gpus_per_node", count)
    assumptions.append(f"GPU: {count} x {found.name}, found in this machine; --gpu names another.")
    return found


class Here:
    """The GPUs of this machine; the driver is asked once, when somebody wants to know."""

    def __init__(self) -> None:
        self._found: list[tuple[Gpu, int] | None] = []

    def __call__(self) -> tuple[Gpu, int] | None:
        if not self._found:
            from cgplan.inputs.devices import detect

            self._found.append(detect())
        return self._found[0]


def software_of(options: DeploymentOptions, assumptions: list[str]) -> Software:
    """What --software says, else the image of the release."""
    found = named_software(options)
    if found is None:
        assumptions.append(OFFICIAL_IMAGE)
    return found or Software()


def named_software(options: DeploymentOptions) -> Software | None:
    """What --software says."""
    if not options.software:
        return None
    given: dict[str, Any] = {}
    for name, text in values.pairs(options.software, "--software").items():
        default = getattr(Software(), name, None)
        if name not in Software.model_fields:
            raise InputError(
                f"unknown software {shorten(name, 40)}",
                code="CG901",
                where="--software",
                fix=did_you_mean(name, Software.model_fields) or f"give one of {', '.join(Software.model_fields)}",
            )
        if isinstance(default, bool):
            given[name] = _yes_or_no(text, name)
        elif isinstance(default, tuple):
            given[name] = tuple(_package(part.strip()) for part in text.split(","))
        elif _VERSION.match(text):
            given[name] = text
        else:
            raise InputError(
                f"{shorten(text, 40)!r} is no version",
                code="CG906",
                where="--software",
                fix=f"write --software {name}=2.11.0",
            )
    return Software(**given)


def _package(name: str) -> str:
    if name in PACKAGES:
        return name
    raise InputError(
        f"no package {shorten(name, 40)!r} is looked at",
        code="CG901",
        where="--software",
        fix=did_you_mean(name, PACKAGES) or f"give one of {', '.join(PACKAGES)}",
    )


def _yes_or_no(text: str, name: str) -> bool:
    if text.lower() in ("true", "yes", "1", "on"):
        return True
    if text.lower() in ("false", "no", "0", "off"):
        return False
    raise InputError(
        f"{shorten(text, 40)!r} is neither true nor false",
        code="CG906",
        where="--software",
        fix=f"write --software {name}=true or {name}=false",
    )
