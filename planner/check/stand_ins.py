"""Whether what vLLM refuses rests on the model, where its shape is not known: other shapes are tried in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..deployment import Deployment
from ..errors import CgplanError
from ..model_shape import ModelShape
from .registry import CHECKS
from .subject import Subject
from .trying import resolved

OTHERS = (
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-27b-it",
)
"""Models of the catalogue that differ in what is refused: MLA with MTP, sparse MLA, a hybrid, experts, other heads."""


def of_any_model(deployment: Deployment, error: CgplanError) -> CgplanError | None:
    """The refusal that holds whatever the model; None: vLLM would take the deployment with some other one.

    It is `error`, or one that says less of what stands in: another shape is refused for a part of the reasons.
    """
    found = [error]
    for shape in _others(deployment):
        other = _refusal(deployment.model_copy(update={"model": shape}))
        if other is None:
            return None
        found += [other] if other.code == error.code and _reasons(other) <= _reasons(error) else []
    return min(found, key=lambda one: len(one.message))


def holds_of_any_model(subject: Subject, code: str) -> bool:
    """Whether a finding of the resolution, or of a check, is there whatever the model; what is written amiss is."""
    served = subject.asked.served
    found = {finding.code for finding in subject.resolution.findings} if subject.resolution is not None else set()
    if served is None or (code not in found and code not in CHECKS):
        return True
    for shape in _others(served.deployment):
        deployment = served.deployment.model_copy(update={"model": shape})
        try:
            resolution = resolved(deployment)
        except CgplanError:
            continue  # vLLM refuses that one: nothing would be changed
        if code in found:
            if all(finding.code != code for finding in resolution.findings):
                return False
            continue
        asked = replace(subject.asked, served=served._replace(deployment=deployment))
        if not any(CHECKS[code].find(Subject(asked, resolution))):
            return False
    return True


def _refusal(deployment: Deployment) -> CgplanError | None:
    try:
        resolved(deployment)
    except CgplanError as error:
        return error
    return None


def _reasons(error: CgplanError) -> set[str]:
    return {part.rpartition(": ")[2] for part in error.message.split("; ")}


def _others(deployment: Deployment) -> Iterator[ModelShape]:
    """Shapes that fit what is asked for: their heads divide, and they have no longest length."""
    from ..inputs.catalogue import load

    yield _fitted(deployment.model, deployment)
    for name in OTHERS:
        yield _fitted(load(name), deployment)


def _fitted(shape: ModelShape, deployment: Deployment) -> ModelShape:
    ranks = deployment.tensor_parallel_size
    heads = max(-(-shape.num_attention_heads // ranks), 1) * ranks
    vocabulary = -(-shape.vocab_size // (64 * ranks)) * 64 * ranks
    return shape.model_copy(
        update={"num_attention_heads": heads, "vocab_size": vocabulary, "max_model_len_limit": 0, "block_weights": None}
    )
