"""Whether the release knows the model's architecture.

Source: vllm/model_executor/models/registry.py of each release.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..errors import StartupError
from ..releases import SUPPORTED, holds, table
from ..trace import Rule

if TYPE_CHECKING:
    from .engine import Engine

LATER = Rule(
    "CG137",
    title="A release serves the architectures of its registry.",
    why="The model's code came with a later release.",
    example="KimiK3ForConditionalGeneration on 0.26.0 does not start; 0.27.1 has it.",
    instead="Use the release named, or a later one.",
    source="vllm/model_executor/models/registry.py:73-837",
)


def check(engine: Engine) -> None:
    """Refuse a model all of whose architectures came later.

    An architecture that no release names is let through: it may be served by Transformers, or be a plugin's.
    """
    if engine.release == SUPPORTED[-1]:
        return
    came = [first_release(name) for name in engine.deployment.model.architectures]
    later = [release for release in came if release is not None and not holds(engine.release, release)]
    if came and len(later) == len(came):
        name = engine.deployment.model.architecture
        raise StartupError(
            f"architecture {name} came with vLLM {later[0]}; this is {engine.release}",
            code=LATER.code,
            raised_in="ModelConfig",
            where="--model",
            fix=f"use --vllm {later[0]} or later",
        )


def first_release(architecture: str) -> str | None:
    """The release that brought `architecture`; None: the first one known, or none at all."""
    return _first().get(architecture)


@cache
def _first() -> dict[str, str]:
    releases = table("architecture_releases")["first"]
    return {name: release for release, names in releases.items() for name in names.split()}
