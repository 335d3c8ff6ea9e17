"""Parts of a deployment: the GPU, the software, and the JSON options of vLLM, each frozen and strict.

A field left at None was not given. Types are strict: no string is taken for a number. An unknown field is refused
with the nearest known name.
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    NonNegativeInt,
    PositiveInt,
    Strict,
    field_validator,
    model_validator,
)

from .errors import InputError, StartupError, did_you_mean, shorten
from .model_shape import ModelShape, Tuple
from .strict_model import StrictModel
from .vocabulary import CompilationMode, CUDAGraphMode

MAX_COUNT = 2**31 - 1
"""Largest count taken anywhere: vLLM keeps these in 32-bit tensors."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Size = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]


class Section(StrictModel):
    """Base of all input sections: frozen, strict, no unknown field."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for key in data:
                if key not in cls.model_fields:
                    _refuse_field(cls, str(key))
        return data


def _refuse_field(section: type[BaseModel], key: str) -> None:
    raised_in = _VLLM_CLASS.get(section.__name__)
    fix = did_you_mean(key, section.model_fields) or f"give one of {', '.join(sorted(section.model_fields))}"
    if raised_in is None:
        raise InputError(f"unknown field {shorten(key, 60)}", code="CG901", where=section.__name__, fix=fix)
    raise StartupError(
        f"{raised_in} has no field {shorten(key, 60)}",
        code="CG901",
        raised_in=raised_in,
        where=f"{raised_in}.{shorten(key, 60)}",
        fix=fix,
    )


_VLLM_CLASS = {
    "CompilationOptions": "CompilationConfig",
    "PassOptions": "CompilationConfig",
    "AttentionOptions": "AttentionConfig",
    "SpeculativeOptions": "SpeculativeConfig",
    "KVTransferOptions": "KVTransferConfig",
}


class Gpu(Section):
    """One GPU model as the driver reports it.

    Attributes:
        name: device name (NVML); vLLM looks for "a100" in it.
        capability: compute capability, (major, minor).
        memory_bytes: total memory that the driver reports, bytes.
        sm_count: streaming multiprocessors.
        integrated: shares its memory with the CPU (GB10).
        platform: vLLM's platform name. Only "cuda" is fully modelled.
    """

    name: str = "NVIDIA H100 80GB HBM3"
    capability: Annotated[tuple[int, int], Strict(False)] = (9, 0)
    memory_bytes: PositiveInt = 85520809984
    sm_count: PositiveInt = 132
    integrated: bool = False
    platform: Literal["cuda", "rocm", "xpu", "cpu", "tpu"] = "cuda"

    @property
    def major(self) -> int:
        return self.capability[0]


class Software(Section):
    """What is installed beside vLLM. The defaults describe the official CUDA image of the release.

    Attributes:
        flashinfer: FlashInfer is installed.
        flashinfer_cubins: its kernels can be had: the cubin package is there, or NVIDIA's artifact store answers.
        triton: Triton is installed and finds a driver.
        flash_attn_3, flash_attn_4: the wheel carries these FlashAttention versions.
        deep_gemm: DeepGEMM is installed.
        torch_version: version of torch.
        packages: further optional packages that unlock a backend (b12x, hpc, tokenspeed_mla, ray).
    """

    flashinfer: bool = True
    flashinfer_cubins: bool = True
    triton: bool = True
    flash_attn_3: bool = True
    flash_attn_4: bool = True
    deep_gemm: bool = True
    torch_version: str = "2.13.0"
    packages: Tuple[str] = ()


class PassOptions(Section):
    """`compilation_config.pass_config`; None lets the optimisation level decide.

    `enable_sp`, `fuse_gemm_comms` and `sp_min_token_num` exist up to 0.31.
    """

    fuse_norm_quant: bool | None = None
    fuse_act_quant: bool | None = None
    fuse_attn_quant: bool | None = None
    eliminate_noops: bool | None = None
    fuse_allreduce_rms: bool | None = None
    enable_qk_norm_rope_fusion: bool | None = None
    fuse_rope_kvcache_cat_mla: bool | None = None
    fuse_act_padding: bool | None = None
    fuse_mla_dual_rms_norm: bool | None = None
    fuse_rope_kvcache: bool | None = None
    fuse_qk_norm_rope_kvcache: bool | None = None
    enable_sp: bool | None = None
    fuse_gemm_comms: bool | None = None
    sp_min_token_num: NonNegativeInt | None = None
    rope_kvcache_fusion_max_token_num: PositiveInt | None = None
    fi_allreduce_fusion_max_size_mb: float | None = None


class CompilationOptions(Section):
    """`--compilation-config`, the fields that decide CUDA graphs.

    Sizes are tokens. `splitting_ops` may hold "<attention_ops>" for the release's default attention ops.
    """

    mode: CompilationMode | None = None
    backend: str = ""
    custom_ops: Tuple[str] = ()
    splitting_ops: Tuple[str] | None = None
    cudagraph_mode: CUDAGraphMode | None = None
    cudagraph_capture_sizes: Tuple[Size] | None = None
    max_cudagraph_capture_size: Size | None = None
    cudagraph_num_of_warmups: NonNegativeInt | None = None
    cudagraph_specialize_lora: bool = True
    cudagraph_mm_encoder: bool = False
    compile_sizes: Tuple[Size | str] | None = None
    compile_ranges_endpoints: Tuple[Size] | None = None
    use_inductor_graph_partition: bool | None = None
    pass_config: PassOptions = PassOptions()

    @field_validator("mode", mode="before")
    @classmethod
    def _read_mode(cls, value: Any) -> Any:
        names = [m.value for m in CompilationMode]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
            return CompilationMode(names[value])
        if value is None or isinstance(value, CompilationMode):
            return value
        return member(CompilationMode, value, "compilation mode", "compilation_config.mode")

    @field_validator("cudagraph_mode", mode="before")
    @classmethod
    def _read_cudagraph_mode(cls, value: Any) -> Any:
        scalars = [CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(scalars):
            return scalars[value]
        if value is None or isinstance(value, CUDAGraphMode):
            return value
        return member(CUDAGraphMode, value, "CUDA graph mode", "compilation_config.cudagraph_mode")


class AttentionOptions(Section):
    """`--attention-config`, the fields that decide the backend, its support level, or the memory of its graphs."""

    backend: str | None = None
    backend_per_kind: dict[str, str] | None = None
    flash_attn_version: Literal[2, 3, 4] | None = None
    flash_attn_max_num_splits_for_cuda_graph: Count | None = None
    use_trtllm_attention: bool | None = None
    use_non_causal: bool = False
    hisparse_config: dict[str, Any] | None = None


class SpeculativeOptions(Section):
    """`--speculative-config`.

    `num_speculative_tokens_per_batch_size` is a list of (first batch size, last batch size, tokens) rows: dynamic
    speculative decoding. `model` is the draft model's shape, not its name. `attention_backend` is the draft's own;
    vLLM has it from 0.21.0 on.
    """

    method: str | None = None
    num_speculative_tokens: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    model: ModelShape | None = None
    num_speculative_tokens_per_batch_size: Tuple[Tuple[Size]] | None = None
    enable_adaptive_verification: bool = False
    enforce_eager: bool | None = None
    parallel_drafting: bool | None = None
    use_heterogeneous_vocab: bool = False
    disable_padded_drafter_batch: bool = False
    draft_tensor_parallel_size: Count | None = None
    draft_lm_head_quantization: str | None = None
    prompt_lookup_max: Count | None = None
    prompt_lookup_min: Count | None = None
    max_model_len: Count | None = None
    attention_backend: str | None = None
    suffix_decoding_max_tree_depth: Count = 24


class KVTransferOptions(Section):
    """`--kv-transfer-config`, the fields that can force a CUDA graph mode."""

    kv_connector: str | None = None
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = None
    kv_connector_extra_config: dict[str, Any] = Field(default_factory=dict)


def member(kind: Any, value: Any, what: str, where: str) -> Any:
    """The member of enum `kind` named `value`, in any case; vLLM upper-cases these names too."""
    names = list(kind.__members__)
    name = value.upper().replace("-", "_") if isinstance(value, str) else None
    if name in names:
        return kind[name]
    raise InputError(
        f"unknown {what} {shorten(value)!r}" if isinstance(value, str) else f"unknown {what} {shorten(value)}",
        code="CG902",
        where=where,
        fix=(did_you_mean(value, names) if isinstance(value, str) else None) or f"give one of {', '.join(names)}",
    )
