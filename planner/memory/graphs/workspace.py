"""The workspace that attention kernels take inside a FULL graph, or for the first one, by backend.

FlashAttention 3 (Hopper) splits the keys of a decode batch, and vLLM bounds the number of splits so that a graph can be
captured at all; each split has a float32 output of its own. FlashInfer keeps one buffer, which the first step with
attention allocates. The other backends take their workspaces before the capture, from memory that the profile run has
seen.

Source: vllm/v1/attention/backends/flash_attn.py:385-401, 465-483; mla/flashattn_mla.py @ 0.25.1; flashinfer.py:111-158,
1255-1278, model_executor/warmup/kernel_warmup.py:125-160 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...deployment import Deployment
from ...env_switches import int_switch
from ...model_shape import ModelShape
from ...releases import canonical, holds
from ...resolve import Resolution
from ...vocabulary import CUDAGraphMode
from ..estimates import MIB
from .pool import Splits

_HOPPER = 9
_SPLITTING = ("FLASH_ATTN", "FLASH_ATTN_MLA", "FLASH_ATTN_DIFFKV")
UNDERSTOOD = (*_SPLITTING, "TRITON_ATTN", "FLASHINFER", "MAMBA1_ATTN", "MAMBA2_ATTN", "GDN_ATTN", "SHORT_CONV_ATTN")
"""Backends whose captures were measured, or that take nothing while they are captured."""


def splits_of(deployment: Deployment, resolution: Resolution, known: Mapping[str, Any]) -> Splits | None:
    """The split accumulators of the model's FULL graphs, or None: its attention keeps none.

    Args:
        known: facts of the topic `graph_memory`.
    """
    if not resolution.cudagraph_mode.has_full or deployment.gpu.major != _HOPPER:
        return None
    names = [group.name for group in resolution.backend.groups if "FlashAttention 2" not in group.condition]
    if not any(name in _SPLITTING for name in names):
        return None
    if int_switch(deployment.env, "VLLM_BATCH_INVARIANT"):
        return None
    asked = deployment.attention_config.flash_attn_max_num_splits_for_cuda_graph
    limits = known["workspace"]
    splits = asked if asked is not None else int(limits["splits"])
    heads, size = widest_heads(deployment.model)
    return Splits(splits, -(-heads // deployment.tensor_parallel_size), size, int(limits["most_requests"]))


def widest_heads(model: ModelShape) -> tuple[int, int]:
    """Query heads and elements of an attention output a head, where their product is largest. MLA: the latent's."""
    if model.use_mla and model.kv_lora_rank is not None:
        return model.num_attention_heads, model.kv_lora_rank
    found = (model.num_attention_heads, model.head_size)
    if model.cache is not None:
        groups = [group for group in model.cache.layers if group.kind == "attention" and group.num_heads]
        sizes = [(group.num_heads, group.head_size_v or group.head_size) for group in groups]
        found = max(sizes, key=lambda pair: pair[0] * pair[1], default=found)
    return found


class AttentionBuffer(NamedTuple):
    """The buffer that attention allocates with the first FULL graph.

    Attributes:
        size: bytes; 0: none.
        again: whether capture allocates it, as the buffer of vLLM's estimate is given back; else it is there by then,
            from the estimate or from a warm-up.
    """

    size: int
    again: bool


_FLASHINFER = "FLASHINFER"
_FLASHINFER_BYTES = 394 * MIB
"""envs.py, VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE where it is unset, 0.19.1 to 0.33.0."""
_DIGITS = 14
"""A buffer of more digits is larger than any GPU."""
_BATCH_INVARIANT_BYTES = 2048 * MIB
_BYTES_PER_ELEMENT = 16
"""FLASHINFER_PREFILL_WORKSPACE_BYTES_PER_ELEM, since 0.26.0: the buffer grows with heads and batched tokens."""


def attention_buffer(deployment: Deployment, resolution: Resolution) -> AttentionBuffer:
    """FlashInfer's buffer. Kernels of capability 9.x and 10.x (XQA, TRT-LLM) share one that outlives the estimate.

    The warm-up before capture takes it too, but only where every layer that keeps a cache runs with FlashInfer.
    """
    names = [group.name for group in resolution.backend.groups]
    if _FLASHINFER not in names or not resolution.captures.get(CUDAGraphMode.FULL):
        return AttentionBuffer(0, False)
    given = deployment.env.get("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "")
    size = int(given) if given.isdecimal() and len(given) < _DIGITS else _FLASHINFER_BYTES
    if deployment.gpu.major in (9, 10):
        return AttentionBuffer(size, False)
    heads, width = widest_heads(deployment.model)
    if int_switch(deployment.env, "VLLM_BATCH_INVARIANT"):
        size = _BATCH_INVARIANT_BYTES
    elif holds(canonical(deployment.vllm), "0.26.0"):
        elements = resolution.max_num_batched_tokens * -(-heads // deployment.tensor_parallel_size) * width
        size = max(size, elements * _BYTES_PER_ELEMENT)
    return AttentionBuffer(size, any(name != _FLASHINFER for name in names))
