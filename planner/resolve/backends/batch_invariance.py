"""What VLLM_BATCH_INVARIANT asks of attention beside the selection's own check."""

from __future__ import annotations

from ...errors import StartupError
from ...releases import holds
from ...trace import Rule

MAMBA_BATCH_INVARIANT = Rule(
    code="CG304",
    title="Batch-invariant mode has no kernels for state space and linear attention layers.",
    why="Their kernels split the work by the batch's shape.",
    example="VLLM_BATCH_INVARIANT=1 with Qwen3-Next: vLLM does not start.",
    instead="Unset VLLM_BATCH_INVARIANT for such models.",
    source="vllm/v1/attention/selector.py:243-249",
    since="0.20.2",
)
BATCH_INVARIANT_ON_REQUEST = Rule(
    code="CG345",
    title="Batch-invariant mode takes a few backends only, and wants one of them named.",
    why="The worker looked at --attention-backend alone, before a backend was selected.",
    example="VLLM_BATCH_INVARIANT=1 without --attention-backend: vLLM does not start.",
    instead="Give --attention-backend FLASH_ATTN or TRITON_ATTN, for MLA FLASH_ATTN_MLA or TRITON_MLA.",
    source="vllm/model_executor/layers/batch_invariant.py:990-1025",
    until="0.19.1",
    release="0.19.1",
)

NAMED_BACKENDS = ("FLASH_ATTN", "TRITON_ATTN", "FLASH_ATTN_MLA", "TRITON_MLA")
"""What CG345 takes."""

CHECKED_SINCE = "0.20.2"
"""Since then the selection and the Mamba layers ask the backend class."""


def check_request(release: str, backend: str | None) -> None:
    """The worker's check of the backend that was asked for.

    Raises:
        StartupError: vLLM refuses it (CG345).
    """
    if holds(release, CHECKED_SINCE) or backend in NAMED_BACKENDS:
        return
    asked = backend or "the automatic selection"
    raise StartupError(
        f"batch-invariant mode needs a backend that is named and has such kernels, not {asked}",
        code=BATCH_INVARIANT_ON_REQUEST.code,
        stage="init_device",
        raised_as="RuntimeError",
        raised_in="init_batch_invariance",
        where="--attention-backend",
        fix=f"use {', '.join(NAMED_BACKENDS)}",
    )


def check_mamba(release: str, backend: str) -> None:
    """The selection of state space and linear attention layers.

    Raises:
        StartupError: they have no such kernels (CG304).
    """
    if not holds(release, CHECKED_SINCE):
        return
    raise StartupError(
        f"{backend} has no batch-invariant kernels",
        code=MAMBA_BATCH_INVARIANT.code,
        stage="attn_backend_selection",
        raised_as="RuntimeError",
        raised_in="attention selector",
        where="VLLM_BATCH_INVARIANT",
        fix="unset VLLM_BATCH_INVARIANT",
    )
