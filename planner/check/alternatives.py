"""Another attention backend that keeps the graphs which the chosen one loses. Each is tried by resolving with it."""

from __future__ import annotations

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, other_backend
from .places import Edits, add, change_dotted, change_value
from .subject import Subject
from .trying import resolved


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
    if now is None or deployment is None:
        return None
    return other_backend.best_backend(deployment, now, _attempt)


def _attempt(deployment: Deployment) -> Resolution | None:
    try:
        return resolved(deployment)
    except CgplanError:
        return None
