"""Another attention backend that keeps the graphs which the chosen one loses. Each is tried by resolving with it."""

from __future__ import annotations

from ..resolve import Resolution
from ..resolve.backends.facts import catalogue
from ..vocabulary import CUDAGraphMode
from .places import Edits, add, change_dotted, change_value
from .subject import Subject
from .what_if import what_if

PREFERRED = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
"""Order among backends that keep equally much: compiled kernels before generated ones."""


def best_backend(subject: Subject) -> tuple[str, Resolution] | None:
    """The backend that keeps most of the mode asked for, and what vLLM makes of the launch with it.

    None where no other backend of the release keeps more than the chosen one.
    """
    if "best_backend" not in subject.cache:
        subject.cache["best_backend"] = _search(subject)
    found: tuple[str, Resolution] | None = subject.cache["best_backend"]
    return found


def backend_flag(subject: Subject, name: str) -> tuple[str, Edits]:
    """The flag that chooses backend `name`, and its edit."""
    if subject.is_given("attention_backend"):
        return f"--attention-backend {name}", change_value(subject, "attention_backend", [name], name)
    given = (subject.args.values.get("attention_config") if subject.args is not None else None) or {}
    if "backend" in given:
        return f"-ac.backend={name}", change_dotted(subject, "-ac", "backend", name)
    return f"--attention-backend {name}", add(subject, "--attention-backend", name)


def _search(subject: Subject) -> tuple[str, Resolution] | None:
    now, deployment = subject.resolution, subject.deployment
    if now is None or deployment is None or deployment.attention_support is not None:
        return None
    asked = now.requested_mode
    best: tuple[tuple[int, ...], str, Resolution] | None = None
    section = deployment.attention_config.model_copy(update={"backend": None})
    names = list(catalogue(deployment.vllm).backends)
    for name in sorted(names, key=lambda name: (_rank(name), name)):
        found = what_if(subject, attention_backend=name, attention_config=section)
        # A request that the worker only refuses later is no remedy.
        if found is None or found.backend.name != name or any(f.severity == "error" for f in found.noted):
            continue
        score = _kept(found, asked)
        if score > _kept(now, asked) and (best is None or score > best[0]):
            best = score, name, found
    return None if best is None else best[1:]


def _rank(name: str) -> int:
    return PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)


def _kept(found: Resolution, asked: CUDAGraphMode) -> tuple[int, ...]:
    """How much of the mode asked for is there: FULL decode graphs first."""
    full = CUDAGraphMode.FULL
    decode = int(found.decode_mode is full or asked.decode_mode is not full)
    mixed = int(found.mixed_mode is asked.mixed_mode)
    return decode, mixed, int(found.cudagraph_mode is not CUDAGraphMode.NONE)
