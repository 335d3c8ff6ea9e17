"""What vLLM would make of the launch with one thing changed: how a remedy is tried before it is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..deployment import Deployment
from ..errors import CgplanError
from ..inputs.launches.asked import Located
from ..resolve import Resolution
from .places import Edits, add, change_dotted, change_value, place_of
from .subject import Subject
from .trying import resolved

SIZES = "cudagraph_capture_sizes"
MAXIMUM = "max_cudagraph_capture_size"


def what_if(subject: Subject, **changes: Any) -> Resolution | None:
    """The resolution with these fields of the deployment changed; None where vLLM would not start.

    Capture sizes and their maximum are changed wherever they were given.
    """
    key = f"what_if {sorted(changes.items())!r}"
    if key not in subject.cache:
        subject.cache[key] = _resolve(subject.deployment, changes)
    found: Resolution | None = subject.cache[key]
    return found


def _resolve(deployment: Deployment | None, changes: dict[str, Any]) -> Resolution | None:
    if deployment is None:
        return None
    inner = {name: None for name in (SIZES, MAXIMUM) if name in changes}
    if inner and "compilation_config" not in changes:
        changes = {**changes, "compilation_config": deployment.compilation_config.model_copy(update=inner)}
    try:
        return resolved(deployment.model_copy(update=changes))
    except CgplanError:
        return None


def named_sizes(deployment: Deployment) -> tuple[int, ...] | None:
    """The capture sizes that the user listed, as listed, or None."""
    given = deployment.cudagraph_capture_sizes
    return given if given is not None else deployment.compilation_config.cudagraph_capture_sizes


def named_maximum(deployment: Deployment) -> int | None:
    """The largest capture size that the user named, tokens, or None."""
    given = deployment.max_cudagraph_capture_size
    return given if given is not None else deployment.compilation_config.max_cudagraph_capture_size


def in_section(subject: Subject, key: str) -> bool:
    """Whether that setting stands in --compilation-config, not in an option of its own."""
    section = subject.args.values.get("compilation_config") if subject.args is not None else None
    return not subject.is_given(key) and key in (section or {})


def sizes_flag(subject: Subject, sizes: Sequence[int]) -> tuple[str, Edits]:
    """The flag that names these sizes, spelled where the launch has it, and its edit."""
    if in_section(subject, SIZES):
        text = f"[{','.join(map(str, sizes))}]"
        return f"-cc.{SIZES}={text}", change_dotted(subject, "-cc", SIZES, text)
    texts = [str(size) for size in sizes]
    flag = f"--cudagraph-capture-sizes {' '.join(texts)}"
    if subject.is_given(SIZES):
        return flag, change_value(subject, SIZES, texts, list(sizes))
    return flag, add(subject, "--cudagraph-capture-sizes", *texts)


def number_flag(subject: Subject, option: str, value: float | str) -> tuple[str, Edits]:
    """The flag that sets `option`, one of vLLM's, to `value`, and its edit: the value changed, or the flag put in."""
    dest = option.lstrip("-").replace("-", "_")
    if in_section(subject, dest):
        return f"-cc.{dest}={value}", change_dotted(subject, "-cc", dest, str(value))
    flag = f"{option} {value}"
    if subject.is_given(dest):
        return flag, change_value(subject, dest, [str(value)], value)
    return flag, add(subject, option, str(value))


def sizes_at(subject: Subject) -> Located | None:
    """Where the capture sizes stand."""
    return place_of(subject, f"-cc.{SIZES}")
