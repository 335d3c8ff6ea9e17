"""What was asked: one deployment of vLLM, frozen and validated, with fields named as vLLM's flags.

A field left at None was not given; vLLM's default then applies and the resolver says so. Types are strict: no
string is taken for a number. An unknown field is refused with the nearest known name.
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    ValidationError,
    field_serializer,
    field_validator,
)

from .errors import InputError, did_you_mean, shorten
from .model_shape import ModelShape, Tuple
from .releases import SUPPORTED
from .sections import (
    MAX_COUNT,
    AttentionOptions,
    CompilationOptions,
    Count,
    Gpu,
    KVTransferOptions,
    Section,
    Size,
    Software,
    SpeculativeOptions,
    member,
)
from .strict_model import explained
from .vocabulary import AttentionCGSupport, UsageContext

LATEST = SUPPORTED[-1]

ALL2ALL_BACKENDS = (
    "naive",
    "pplx",
    "deepep_high_throughput",
    "deepep_low_latency",
    "deepep_v2",
    "mori_high_throughput",
    "mori_low_latency",
    "mori",
    "moonep",
    "nixl_ep",
    "allgather_reducescatter",
    "flashinfer_all2allv",
    "flashinfer_nvlink_two_sided",
    "flashinfer_nvlink_one_sided",
    "passthrough",
)
"""vllm/config/parallel.py, All2AllBackend at 0.33.0."""


class Deployment(Section):
    """One deployment of vLLM, as asked. Every field but `vllm`, `gpu`, `model` and `software` is a vLLM flag.

    Attributes:
        vllm: release of vLLM, "0.33.0".
        gpu: the GPU of every rank.
        gpus_per_node: GPUs that a node shows to vLLM.
        model: shape of the model; the default is a dense 8B decoder.
        software: what is installed beside vLLM.
        usage_context: who starts the engine; `vllm serve` is OPENAI_API_SERVER. None: the argument is absent.
        env: environment variables that vLLM reads (VLLM_*, TORCH_COMPILE_DISABLE).
        attention_support: overrides the support level of the attention backend, for a backend of your own.
        num_gpu_blocks: KV cache blocks, where known; the check of Mamba blocks needs it.

    Raises:
        InputError: a value has the wrong type or range, or a field is unknown.
        StartupError: vLLM itself would refuse the value.
    """

    vllm: str = LATEST
    gpu: Gpu = Gpu()
    gpus_per_node: Count = 8
    model: ModelShape = ModelShape()
    software: Software = Software()
    usage_context: UsageContext | None = UsageContext.OPENAI_API_SERVER
    env: dict[str, str] = Field(default_factory=dict)

    runner: Literal["auto", "generate", "pooling", "draft"] = "auto"
    dtype: str = "auto"
    quantization: str | None = None
    max_model_len: Count | None = None
    enforce_eager: bool = False
    optimization_level: Annotated[int, Field(ge=0, le=3)] | None = None
    performance_mode: Literal["balanced", "interactivity", "throughput"] | None = None

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_num_scheduled_tokens: Count | None = None
    max_num_active_seqs: Count | None = None
    long_prefill_token_threshold: NonNegativeInt = 0
    enable_chunked_prefill: bool | None = None
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None

    block_size: Count | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_dtype_skip_layers: Tuple[str] = ()
    num_gpu_blocks: Annotated[int, Field(ge=0, le=MAX_COUNT)] | None = None
    num_gpu_blocks_override: Count | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    mamba_block_size: Count | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    mamba_cache_mode: Literal["none", "align", "all"] | None = None

    attention_backend: str | None = None
    attention_config: AttentionOptions = AttentionOptions()
    attention_support: AttentionCGSupport | None = None

    compilation_config: CompilationOptions = CompilationOptions()
    cudagraph_capture_sizes: Tuple[Size] | None = None
    max_cudagraph_capture_size: Size | None = None

    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Count = 1
    data_parallel_size: Count = 1
    decode_context_parallel_size: Count = 1
    prefill_context_parallel_size: Count = 1
    nnodes: Count = 1
    distributed_executor_backend: str | None = None
    enable_expert_parallel: bool = False
    all2all_backend: str | None = None
    enable_dbo: bool = False
    ubatch_size: NonNegativeInt = 0
    dbo_decode_token_threshold: NonNegativeInt = 32
    dbo_prefill_token_threshold: NonNegativeInt = 512

    limit_mm_per_prompt: dict[str, Any] | None = None
    language_model_only: bool = False
    mm_encoder_only: bool = False
    mm_encoder_tp_mode: Literal["weights", "data"] = "weights"
    mm_processor_kwargs: dict[str, Any] | None = None
    skip_mm_profiling: bool = False

    offload_backend: Literal["auto", "uva", "prefetch"] = "auto"
    cpu_offload_gb: Annotated[float, Field(ge=0, le=MAX_COUNT)] = 0.0
    cpu_offload_params: Tuple[str] = ()
    offload_group_size: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    offload_num_in_group: Count = 1
    offload_prefetch_step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 1
    offload_params: Tuple[str] = ()

    speculative_config: SpeculativeOptions | None = None
    enable_lora: bool = False
    max_loras: Count = 1
    max_lora_rank: Count = 16
    specialize_active_lora: bool = False
    kv_transfer_config: KVTransferOptions | None = None

    @classmethod
    def from_json(cls, text: str | bytes) -> "Deployment":
        """The deployment that `model_dump_json` wrote.

        Raises:
            InputError: `text` is no such document.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise explained(error) from None

    @field_validator("attention_support", mode="before")
    @classmethod
    def _read_support(cls, value: Any) -> Any:
        if value is None or isinstance(value, AttentionCGSupport):
            return value
        return member(AttentionCGSupport, value, "attention support level", "attention_support")

    @field_serializer("attention_support", when_used="json")
    def _write_support(self, value: AttentionCGSupport | None) -> str | None:
        return None if value is None else value.name

    @field_validator("usage_context", mode="before")
    @classmethod
    def _read_usage_context(cls, value: Any) -> Any:
        if value is None or isinstance(value, UsageContext):
            return value
        return member(UsageContext, value, "usage context", "usage_context")

    @field_validator("all2all_backend")
    @classmethod
    def _known_all2all(cls, value: str | None) -> str | None:
        if value is not None and value not in ALL2ALL_BACKENDS:
            raise InputError(
                f"unknown all2all backend {shorten(value)!r}",
                code="CG902",
                where="--all2all-backend",
                fix=did_you_mean(value, ALL2ALL_BACKENDS) or f"give one of {', '.join(ALL2ALL_BACKENDS)}",
            )
        return value
