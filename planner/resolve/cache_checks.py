"""Cache options that vLLM's configuration refuses together: the validators of VllmConfig that look at the KV cache.

They run when everything else of the configuration is settled (vllm/config/vllm.py:3421-3452).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from . import hybrid_manager, mamba
from .backends.facts import catalogue
from .backends.request import effective_kv_cache_dtype

if TYPE_CHECKING:
    from .engine import Engine

MAMBA_DTYPE = Rule(
    "CG555",
    title="States kept in bfloat16 are asked for since vLLM 0.22.1.",
    why="Before, --mamba-cache-dtype and --mamba-ssm-cache-dtype took auto, float32 and float16.",
    example="vLLM 0.21.0 with --mamba-ssm-cache-dtype bfloat16 does not start.",
    instead="Leave the option out, or use vLLM 0.22.1 or newer.",
    source="vllm/config/cache.py:35",
    until="0.21.0",
    release="0.21.0",
)
NVFP4_MLA = Rule(
    "CG556",
    title="An NVFP4 KV cache does not serve MLA models.",
    why="Its layout is of keys and values by head; MLA keeps one latent vector.",
    example="DeepSeek V3 with --kv-cache-dtype nvfp4 does not start.",
    instead="Use --kv-cache-dtype fp8, or nvfp4_ds_mla with a sparse MLA model.",
    source="vllm/config/vllm.py:3421-3438",
    since="0.21.0",
)
TURBOQUANT_HYBRID = Rule(
    "CG588",
    title="A TurboQuant KV cache needs a hybrid model whose configuration lists its attention layers.",
    why="vLLM looks for them by name in layer_types and the like; 0.20.2 takes no hybrid model at all.",
    example="Granite 4.0-H with a config.json without layer_types and --kv-cache-dtype turboquant_k8v4 does not start.",
    instead="Use --kv-cache-dtype fp8.",
    source="vllm/model_executor/layers/quantization/turboquant/config.py:193-201",
    since="0.20.2",
)
_NOT_LISTED = ("KimiLinearForCausalLM",)
"""Architectures whose configuration lists them under a name of its own."""
MAMBA_BLOCK_SIZE = Rule(
    "CG557",
    title="--mamba-block-size needs prefix caching.",
    why="Without it a request keeps one state, whatever the block.",
    example="Nemotron-H with --mamba-block-size 64 and --no-enable-prefix-caching does not start.",
    instead="Add --enable-prefix-caching, or leave --mamba-block-size out.",
    source="vllm/config/vllm.py:3440-3452",
)


def check_turboquant(engine: Engine) -> None:
    """EngineArgs.create_engine_config, before the configurations are put together.

    Raises:
        StartupError: CG588.
    """
    model = engine.deployment.model
    if not (model.is_hybrid and engine.has(TURBOQUANT_HYBRID)):
        return
    dtype = effective_kv_cache_dtype(engine.deployment, catalogue(engine.release), engine.trace)
    if not dtype.startswith(("turboquant_", "ultraquant_")):
        return
    cache = model.cache
    listed = cache is None or any(layers.kind in ("attention", "mla") for layers in cache.layers)
    if engine.release == "0.20.2":
        what = f"{dtype} does not serve hybrid models"
    elif not listed or model.architecture in _NOT_LISTED:
        what = f"{dtype} needs attention layers that are listed, and the model's configuration lists none"
    else:
        return
    raise StartupError(
        what,
        code=TURBOQUANT_HYBRID.code,
        raised_as="NotImplementedError",
        where="--kv-cache-dtype",
        fix=TURBOQUANT_HYBRID.instead,
    )


def check(engine: Engine) -> None:
    """The validators, in vLLM's order.

    Raises:
        StartupError: CG555, CG556, CG557, CG580.
    """
    d = engine.deployment
    hybrid_manager.uses_manager(d)
    if engine.has(MAMBA_DTYPE):
        for option in ("mamba_cache_dtype", "mamba_ssm_cache_dtype"):
            if getattr(d, option) == "bfloat16":
                where = f"--{option.replace('_', '-')}"
                raise _refusal(MAMBA_DTYPE, f"vLLM {engine.release} does not take bfloat16", where)
    if engine.has(NVFP4_MLA) and d.model.use_mla:
        dtype = effective_kv_cache_dtype(d, catalogue(engine.release), engine.trace)
        if dtype.startswith("nvfp4") and not dtype.endswith("_ds_mla"):
            raise _refusal(NVFP4_MLA, f"kv_cache_dtype {dtype} does not serve an MLA model", "--kv-cache-dtype")
    block = d.mamba_block_size
    if block is not None and block != engine.max_model_len and not mamba.caches_prefixes(d, engine.facts["mamba"]):
        raise _refusal(MAMBA_BLOCK_SIZE, "mamba_block_size is set, but prefix caching is off", "--mamba-block-size")


def _refusal(rule: Rule, what: str, where: str) -> StartupError:
    return StartupError(what, code=rule.code, where=where, fix=rule.instead)
