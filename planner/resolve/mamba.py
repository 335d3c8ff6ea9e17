"""Models with Mamba layers: prefix caching, and the cache mode it takes.

Source: vllm/model_executor/models/config.py, MambaModelConfig; vllm/config/model.py, is_prefix_caching_supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..deployment import Deployment
from ..errors import StartupError
from ..trace import Rule

if TYPE_CHECKING:
    from .engine import Engine

PREFIX_CACHING = Rule(
    "CG134",
    title="Prefix caching of a model with Mamba layers needs chunked prefill.",
    why="A cached state exists only where a chunk ended.",
    example="Jamba with --no-enable-chunked-prefill does not start on 0.33.0, where prefix caching is on by default.",
    instead="Keep chunked prefill, or add --no-enable-prefix-caching.",
    source="vllm/model_executor/models/config.py:750-787",
)


def caches_prefixes(deployment: Deployment, facts: Mapping[str, Any]) -> bool:
    """enable_prefix_caching after defaults. `facts`: [mamba] of releases/pipeline.toml."""
    asked = deployment.enable_prefix_caching
    if asked is not None:
        return asked
    model = deployment.model
    return model.prefix_caching_default and (facts["hybrid_prefix_caching"] or not model.is_hybrid)


def cache_mode(engine: Engine) -> str:
    """vLLM's mamba_cache_mode: "none" without prefix caching, "align", or "all" in older releases."""
    d, facts = engine.deployment, engine.facts["mamba"]
    model = d.model
    if not caches_prefixes(d, facts):
        return "none"
    if facts["default_cache_mode"] == "align" or model.architecture not in facts["supports_all"]:
        return "align"
    return "align" if facts["align_with_drafts"] and d.speculative_config is not None else "all"


def check_prefix_caching(engine: Engine) -> None:
    """The hook of hybrid and Mamba models (step 3.1).

    Raises:
        StartupError: CG134.
    """
    model = engine.deployment.model
    if not (model.is_hybrid or model.architecture in engine.facts["hooks"]["mamba"]):
        return
    if cache_mode(engine) == "align" and not engine.enable_chunked_prefill:
        raise StartupError(
            "prefix caching of a model with Mamba layers needs chunked prefill",
            code=PREFIX_CACHING.code,
            where="--enable-chunked-prefill",
            fix=PREFIX_CACHING.instead,
        )
