"""What a KV cache plan is made from besides layers and memory, and what it says."""

from __future__ import annotations

from ...errors import StartupError
from ...light_dataclass import dataclass
from ...trace import Finding
from ..kv_specs import RequestLimits
from .groups import GroupSpec
from .layout import KVCacheLayout
from .prefix import PrefixSteps


@dataclass(frozen=True)
class PlanningSettings:
    """What the plan depends on besides layers and memory.

    Attributes:
        release: of vLLM.
        limits: of one request; `max_model_len` is the derived maximum where the length is to be fitted.
        auto_fit: --max-model-len is -1 or auto.
        num_gpu_blocks_override: or None.
        hybrid_manager: False: the hybrid KV cache manager is off, by the user or for the model.
        block_size: of the cache configuration; kept where the model has no KV cache.
        tensor_parallel_size, decode_context_parallel_size: ranks.
        extra_retained_tokens: tokens kept behind each window for chained draft modules.
        layouts: `supported_layouts` of the workers; (): the backends have no wish, or the release is before 0.29.
        requested_layout: VLLM_KV_CACHE_LAYOUT, or None.
        prefix_caching: prefixes of requests are cached.
        has_connector: a KV connector reads the block hashes.
    """

    release: str
    limits: RequestLimits
    auto_fit: bool = False
    num_gpu_blocks_override: int | None = None
    hybrid_manager: bool = True
    block_size: int = 16
    tensor_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    extra_retained_tokens: int = 0
    layouts: tuple[KVCacheLayout, ...] = ()
    requested_layout: str | None = None
    prefix_caching: bool = True
    has_connector: bool = False


@dataclass(frozen=True)
class PlannedGroup:
    """A group of layers in the finished plan.

    Attributes:
        layer_names: of all stages.
        layers_per_stage: how many each stage has.
        spec: as the first stage has it.
        blocks_per_request: blocks that the longest request takes of it.
    """

    layer_names: tuple[str, ...]
    layers_per_stage: tuple[int, ...]
    spec: GroupSpec
    blocks_per_request: int


@dataclass(frozen=True)
class KVCachePlan:
    """The KV cache that a server gets.

    Attributes:
        groups: in vLLM's order; () for a model without a KV cache.
        layout: of the cache; None before 0.29.
        bytes_per_block: of one block, by pipeline stage.
        num_blocks: of every rank, with the null block.
        block_size: cache_config.block_size at the end, tokens.
        max_model_len: after fitting, tokens.
        tokens: reported capacity, or None without a KV cache.
        max_concurrency: requests of max_model_len tokens that fit at once, or None without a KV cache.
        blocks_per_request: blocks that a request of max_model_len tokens takes.
        tp_replicas: neighbouring tensor parallel ranks with the same cache.
        prefix_steps: where prefixes are found again; None without a KV cache, or where `refusal` says why.
        refusal: why vLLM stops after the cache is sized, when it sets up the scheduler; None: it does not.
        warnings: what vLLM logs, and what an operator should know.
    """

    groups: tuple[PlannedGroup, ...]
    layout: KVCacheLayout | None
    bytes_per_block: tuple[int, ...]
    num_blocks: int
    block_size: int
    max_model_len: int
    tokens: int | None
    max_concurrency: float | None
    blocks_per_request: int
    tp_replicas: int = 1
    prefix_steps: PrefixSteps | None = None
    refusal: StartupError | None = None
    warnings: tuple[Finding, ...] = ()
