"""The cache part of vLLM's configuration, before the model is loaded: vllm/config/cache.py and the models' hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...releases import canonical, facts
from ...resolve import Resolution
from ...resolve.backends.facts import catalogue
from ...resolve.backends.request import effective_kv_cache_dtype
from ...resolve.mamba import caches_prefixes
from ...trace import Trace
from ..kv_dtypes import is_turboquant

_PACKED = ("turboquant_", "ultraquant_")


@dataclass(frozen=True)
class CacheSettings:
    """vLLM's CacheConfig, by vLLM's names, as far as the layers' specs depend on it.

    Attributes:
        cache_dtype: "auto" or the dtype of the run.
        block_size: tokens.
        user_block_size: the user gave it.
        skip_layers: indices, and "sliding_window", of the layers that stay at the model's dtype.
        enable_prefix_caching: after defaults.
        mamba_block_size: tokens, or None in a model without such layers.
        mamba_page_size_padded, skip_page_size_padded: bytes that a block of those layers is padded to, or None.
    """

    cache_dtype: str
    block_size: int
    user_block_size: bool
    skip_layers: frozenset[str] = frozenset()
    enable_prefix_caching: bool = True
    mamba_cache_mode: str = "none"
    mamba_block_size: int | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    mamba_page_size_padded: int | None = None
    skip_page_size_padded: int | None = None


def cache_settings(deployment: Deployment, resolution: Resolution) -> CacheSettings:
    """The settings before any layer exists."""
    release = canonical(deployment.vllm)
    cache = facts("kv_cache", release)
    dtype = effective_kv_cache_dtype(deployment, catalogue(release), Trace())
    prefix_caching = caches_prefixes(deployment, facts("pipeline", release)["mamba"])
    block_size = deployment.block_size or cache["block_size"]["default"]
    has_states = deployment.model.is_hybrid or bool(deployment.model.mamba_backends)
    mode, mamba_block = "none", None
    if has_states:
        mode = _mamba_mode(deployment, release) if prefix_caching else "none"
        mamba_block = deployment.mamba_block_size or (block_size if prefix_caching else resolution.max_model_len)
    elif deployment.mamba_cache_mode is not None and cache["mamba"]["mode_is_asked"]:
        mode = deployment.mamba_cache_mode
    return CacheSettings(
        cache_dtype=dtype,
        block_size=block_size,
        user_block_size=deployment.block_size is not None,
        skip_layers=frozenset(deployment.kv_cache_dtype_skip_layers) | _boundary_layers(deployment, dtype, release),
        enable_prefix_caching=prefix_caching,
        mamba_cache_mode=mode,
        mamba_block_size=mamba_block,
        mamba_cache_dtype=deployment.mamba_cache_dtype,
        mamba_ssm_cache_dtype=_ssm_dtype(deployment, cache),
    )


def _mamba_mode(deployment: Deployment, release: str) -> str:
    """MambaModelConfig, vllm/model_executor/models/config.py:750-787, where prefixes are cached."""
    mamba, cache = facts("pipeline", release)["mamba"], facts("kv_cache", release)["mamba"]
    asked = deployment.mamba_cache_mode if cache["mode_is_asked"] and deployment.mamba_cache_mode else "none"
    supports_all = deployment.model.architecture in mamba["supports_all"]
    if asked == "none":
        if mamba["default_cache_mode"] == "align" or not supports_all:
            return "align"
        return "align" if mamba["align_with_drafts"] and deployment.speculative_config is not None else "all"
    if asked == "all" and not (supports_all and cache["has_all_mode"]):
        return "align"
    return asked


def _ssm_dtype(deployment: Deployment, cache: Mapping[str, Any]) -> str:
    """mamba_ssm_cache_dtype after the model's hook, vllm/model_executor/models/config.py:813-985."""
    asked = deployment.mamba_ssm_cache_dtype
    shape = deployment.model.cache
    if asked != "auto" or shape is None or shape.ssm_dtype is None:
        return asked
    if shape.ssm_dtype == "model":
        default: str = cache["mamba"]["nemotron_ssm_dtype"]
        return default
    return shape.ssm_dtype


def _boundary_layers(deployment: Deployment, dtype: str, release: str) -> frozenset[str]:
    """The first and last two layers, which a packed dtype leaves alone; none of a hybrid model.

    vllm/model_executor/layers/quantization/turboquant/config.py:178-213; until 0.20 of hybrids as well.
    """
    if not (is_turboquant(dtype) or dtype.startswith(_PACKED)):
        return frozenset()
    if deployment.model.is_hybrid and facts("kv_cache", release)["specs"]["no_boundary_in_hybrids"]:
        return frozenset()
    layers = deployment.model.num_hidden_layers
    count = min(2, layers // 2)
    return frozenset(str(i) for i in (*range(count), *range(layers - count, layers)))
