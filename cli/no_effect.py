"""Options that were given and change nothing, because another one is missing."""

from __future__ import annotations

from typing import Any

from cgplan import ModelShape

LORA = ("max_loras", "max_lora_rank", "specialize_active_lora")
EXPERTS = ("all2all_backend", "enable_expert_parallel")
UBATCHES = ("dbo_decode_token_threshold", "dbo_prefill_token_threshold")


def notes(fields: dict[str, Any], model: ModelShape) -> list[str]:
    """One line a group of options without effect."""
    found = []
    if not fields.get("enable_lora"):
        found += _note(fields, LORA, "without --enable-lora")
    if not model.is_moe:
        found += _note(fields, EXPERTS, "on a model without experts")
    if not fields.get("enable_dbo") and not fields.get("ubatch_size"):
        found += _note(fields, UBATCHES, "without --enable-dbo")
    return found


def _note(fields: dict[str, Any], names: tuple[str, ...], why: str) -> list[str]:
    given = ["--" + name.replace("_", "-") for name in names if fields.get(name)]
    if not given:
        return []
    return [f"{', '.join(given)}: no effect {why}."]
