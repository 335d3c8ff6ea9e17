"""Whether the hybrid KV cache manager is on: groups of layers have block tables of their own.

Source: vllm/config/vllm.py:2222-2293 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..deployment import Deployment
from ..env_switches import int_switch
from ..errors import StartupError
from ..releases import canonical
from ..releases import facts as facts_of
from ..trace import Rule

HYBRID_MANAGER = Rule(
    "CG580",
    title="The hybrid KV cache manager cannot be forced on where vLLM switches it off.",
    why="Chunked local attention with an EAGLE draft model, and KV connectors without support for it, need one block"
    " table for all layers.",
    example="Llama 4 with an EAGLE3 draft model and --no-disable-hybrid-kv-cache-manager does not start.",
    instead="Leave --no-disable-hybrid-kv-cache-manager out; vLLM decides itself.",
    source="vllm/config/vllm.py:2222-2293",
)

_ALLOW_CHUNKED = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"


def uses_manager(deployment: Deployment) -> bool:
    """Whether the hybrid KV cache manager is on: groups of layers have block tables of their own.

    Raises:
        StartupError: CG580.
    """
    disabled = deployment.disable_hybrid_kv_cache_manager
    must_be_off = _chunks_forbid(deployment)
    if disabled is None:
        return not (must_be_off or _connector_forbids(deployment))
    if not disabled and must_be_off:
        raise StartupError(
            "the hybrid KV cache manager is not supported for this deployment, but was asked for",
            code=HYBRID_MANAGER.code,
            where="--no-disable-hybrid-kv-cache-manager",
            fix=HYBRID_MANAGER.instead,
        )
    return not disabled


def _chunks_forbid(deployment: Deployment) -> bool:
    if deployment.model.attention_chunk_size is None:
        return False
    options = deployment.speculative_config
    if options is not None and options.method in ("eagle", "eagle3", "mtp", "dflash", "dspark"):
        return True
    return int_switch(deployment.env, _ALLOW_CHUNKED) is False


def _connector_forbids(deployment: Deployment) -> bool:
    transfer = deployment.kv_transfer_config
    if transfer is None or transfer.kv_connector is None:
        return False
    known: Sequence[str] = facts_of("kv_planning", canonical(deployment.vllm))["hybrid_manager"]["connectors"]
    names = [transfer.kv_connector]
    if names == ["MultiConnector"] and known:
        inner = transfer.kv_connector_extra_config.get("connectors")
        parts = inner if isinstance(inner, list) else []
        names = [part.get("kv_connector", "") if isinstance(part, Mapping) else "" for part in parts]
    return not all(name in known for name in names)
