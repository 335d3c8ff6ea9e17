"""Settings whose value is one of vLLM's names.

Source: vllm/config/cache.py, CacheDType; vllm/model_executor/layers/quantization/__init__.py, QuantizationMethods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import StartupError, did_you_mean, shorten
from ..releases import facts
from ..trace import Rule
from . import checkpoint_method

if TYPE_CHECKING:
    from .engine import Engine

KV_CACHE_DTYPE = Rule(
    "CG138",
    title="--kv-cache-dtype is a name that the release knows.",
    why="The KV cache's layout and the attention kernels follow from it.",
    example="--kv-cache-dtype nvfp4 on 0.20.2 does not start.",
    instead="Use one of the names listed, or auto.",
    source="vllm/config/cache.py:18-45",
)
QUANTIZATION = Rule(
    "CG139",
    title="--quantization is a method that the release knows.",
    why="The layers are built by it.",
    example="--quantization fp3 does not start.",
    instead="Leave --quantization out: the checkpoint says what it is. A plugin's own method is not known here: CUDA"
    " graphs do not rest on it, and --weights-bytes tells `plan` how large the weights of a GPU are.",
    source="vllm/model_executor/layers/quantization/__init__.py",
)


FROM_A_PLUGIN = (
    " (a plugin's own method is not known here: leave it out, as CUDA graphs do not rest on it; `cgplan plan"
    " --weights-bytes N` takes the weights of a GPU as they are stored)"
)


def check(engine: Engine) -> None:
    """`--quantization` in ModelConfig, then `--kv-cache-dtype` in CacheConfig."""
    d = engine.deployment
    for rule, value, where, raised_in in (
        (QUANTIZATION, d.quantization, "quantization", "ModelConfig"),
        (KV_CACHE_DTYPE, d.kv_cache_dtype, "kv_cache_dtype", "CacheConfig"),
    ):
        known = facts("names", engine.release)[where]
        if value is None or value in known:
            continue
        raise StartupError(
            f"unknown {where} {shorten(value)} in {engine.release}",
            code=rule.code,
            raised_in=raised_in,
            where="--" + where.replace("_", "-"),
            fix=_instead(rule, value, known),
        )
    checkpoint_method.check(engine)


def _instead(rule: Rule, value: str, known: Sequence[str]) -> str:
    if value.casefold() in ("none", "null", ""):
        return "leave it out; without it the checkpoint decides"
    return (did_you_mean(value, known) or f"give one of {', '.join(known)}") + (
        FROM_A_PLUGIN if rule is QUANTIZATION else ""
    )
