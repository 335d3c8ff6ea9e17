"""Other shapes in the place of a model that is not known: what is refused whatever the model."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..errors import CgplanError
from ..model_shape import ModelShape
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
    for shape in others(deployment):
        other = _refusal(deployment.model_copy(update={"model": shape}))
        if other is None:
            return None
        found += [other] if other.code == error.code and _reasons(other) <= _reasons(error) else []
    return min(found, key=lambda one: len(one.message))


def _refusal(deployment: Deployment) -> CgplanError | None:
    try:
        resolved(deployment)
    except CgplanError as error:
        return error
    return None


def _reasons(error: CgplanError) -> set[str]:
    return {part.rpartition(": ")[2] for part in error.message.split("; ")}


def others(deployment: Deployment) -> Iterator[ModelShape]:
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
