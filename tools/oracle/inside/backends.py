"""The attention backends that vLLM's own selector chooses, and the support level of each."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import inspect
from typing import Any

from oracle.inside.engine import Engine
from oracle.inside.errors import Errors
from oracle.models import Layers


class Backends:
    """Asks the selector. FlashAttention is reloaded when a record wants another version of it."""

    def __init__(self, engine: Engine, errors: Errors) -> None:
        self.engine = engine
        self.errors = errors
        self._flash_attn_version: int | None = None

    def choose(self, asked: dict[str, Any], layers: Layers, config: Any) -> dict[str, Any]:
        """Groups as [name, level], the weakest level and its class; or the selector's error."""
        wanted = ((asked.get("args") or {}).get("attention_config") or {}).get("flash_attn_version")
        groups: list[tuple[str, str, Any]] = []
        try:
            if wanted != self._flash_attn_version:
                self.engine.reload_flash_attn(config)
                self._flash_attn_version = wanted
            with self.engine.set_config(config):
                if layers.attention:
                    groups.append(self._attention(layers, config))
                if layers.mamba is not None:
                    groups.append(self._mamba(layers.mamba, config))
        except Exception as error:
            return {"groups": [], "error": self.errors.describe(error, "attn_backend_selection")}
        weakest, class_name = self.engine.support.ALWAYS, None
        for _, cls, level in groups:
            if level.value < weakest.value:
                weakest, class_name = level, cls
        return {
            "groups": [[name, level.name] for name, _, level in groups],
            "min_support": weakest.name,
            "min_backend": class_name,
        }

    def _attention(self, layers: Layers, config: Any) -> tuple[str, str, Any]:
        from vllm.v1.attention.selector import get_attn_backend

        model = config.model_config
        answers: dict[str, Any] = {
            "head_size": model.get_head_size(),
            "dtype": model.dtype,
            "kv_cache_dtype": config.cache_config.cache_dtype,
            "use_mla": bool(model.use_mla),
            "num_heads": model.get_num_attention_heads(config.parallel_config),
            "block_size": None,
            "use_sparse": hasattr(model.hf_text_config, "index_topk"),
            "use_mm_prefix": bool(getattr(model, "is_mm_prefix_lm", False)),
            "has_sliding_window": layers.sliding_window,
        }
        if layers.encoder_only:
            answers["attn_type"] = "encoder_only"
        accepted = inspect.signature(get_attn_backend).parameters
        backend: Any = get_attn_backend(**{name: value for name, value in answers.items() if name in accepted})
        kv_heads = model.get_num_kv_heads(config.parallel_config)
        spec = attention_spec(kv_heads, model.get_head_size(), model.dtype, bool(model.use_mla))
        return _level(backend, config, spec)

    def _mamba(self, name: str, config: Any) -> tuple[str, str, Any]:
        from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum

        return _level(MambaAttentionBackendEnum[name].get_class(), config, mamba_spec(self.engine.torch))


def _level(backend: Any, config: Any, spec: Any) -> tuple[str, str, Any]:
    level = backend.get_builder_cls().get_cudagraph_support(config, spec)
    return backend.get_name(), backend.__name__, level


def attention_spec(kv_heads: int, head_size: int, dtype: Any, mla: bool = False) -> Any:
    """A KV cache group of attention layers."""
    from vllm.v1 import kv_cache_interface as interface

    if mla:
        return interface.MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=head_size, dtype=dtype)
    return interface.FullAttentionSpec(block_size=16, num_kv_heads=kv_heads, head_size=head_size, dtype=dtype)


def mamba_spec(torch: Any) -> Any:
    """A KV cache group of recurrent layers."""
    from vllm.v1.kv_cache_interface import MambaSpec

    return MambaSpec(block_size=16, shapes=((1, 1),), dtypes=(torch.float32,))
