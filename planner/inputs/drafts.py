"""The draft model that a speculative_config names, which is at times no model at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model_shape import ModelShape

NGRAM = ("ngram", "[ngram]")
"""Names of a model that stand for the method; vllm/config/speculative.py:1241 @ 0.33.0."""

WITHOUT_MODEL = ("ngram", "[ngram]", "ngram_gpu", "suffix")
"""Methods whose drafts no model makes."""


def with_draft(config: dict[str, Any], load: Callable[[str], ModelShape]) -> dict[str, Any]:
    """`config` with the shape of its draft model in the place of the model's name.

    Args:
        config: of --speculative-config, as given.
        load: gives the shape of a model of that name.
    """
    name, method = config.get("model"), config.get("method")
    if not isinstance(name, str):
        return config
    if method is None and name in NGRAM:
        return {**config, "method": "ngram", "model": None}
    no_model = name in (*WITHOUT_MODEL, "mtp") or method in WITHOUT_MODEL
    return {**config, "model": None if no_model else load(name)}
