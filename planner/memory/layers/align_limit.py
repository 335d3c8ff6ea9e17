"""What vLLM asked of the block size once the cache was sized: validate_block_size, vllm/config/vllm.py @ 0.26.0."""

from __future__ import annotations

from ...errors import StartupError
from ...releases import canonical, facts
from ...resolve import Resolution
from ...trace import Rule
from .kv_layers import KVLayers

ALIGNED_STEP = Rule(
    "CG554",
    title="Until 0.26 a step must hold a whole block where states are kept at block boundaries.",
    why="Prefix caching in the mode align keeps a state at the end of each block, so a step must reach it.",
    example="vLLM 0.25.1 with a block of 2096 tokens and --max-num-batched-tokens 2048 does not start.",
    instead="Raise --max-num-batched-tokens to the block size, or add --no-enable-prefix-caching.",
    source="vllm/config/vllm.py:2265-2271",
    until="0.26.0",
    release="0.26.0",
)


def check_aligned_step(vllm: str, resolution: Resolution, layers: KVLayers, block_size: int) -> None:
    """The check.

    Args:
        block_size: of the finished plan, tokens.

    Raises:
        StartupError: CG554.
    """
    tokens = resolution.max_num_batched_tokens
    if not facts("kv_cache", canonical(vllm))["mamba"]["step_holds_block"]:
        return
    if layers.settings[0].mamba_cache_mode == "align" and block_size > tokens:
        raise StartupError(
            f"blocks of {block_size} tokens do not fit into a step of {tokens}",
            code=ALIGNED_STEP.code,
            where="--max-num-batched-tokens",
            fix=ALIGNED_STEP.instead,
            stage="initialize_kv_caches",
            raised_as="AssertionError",
            raised_in="validate_block_size",
        )
