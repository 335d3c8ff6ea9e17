"""What took the place of environment variables that vLLM no longer reads."""

from __future__ import annotations

from typing import NamedTuple

from ..releases.env_variables import read_elsewhere, readers, releases_with


class Successor(NamedTuple):
    """What took the place of a variable.

    Attributes:
        option: the option or dotted key, or "" for none.
        valued: the variable's value is the option's value.
        note: what to do, where there is no option.
    """

    option: str
    valued: bool = False
    note: str = ""


BEFORE_ALL = {
    "VLLM_ATTENTION_BACKEND": Successor("--attention-backend", True),
    "VLLM_USE_V1": Successor("", note="leave it out; there is one engine, V1"),
    "VLLM_FLASH_ATTN_VERSION": Successor("--attention-config.flash_attn_version", True),
    "VLLM_ALL2ALL_BACKEND": Successor("--all2all-backend", True),
    "VLLM_TORCH_PROFILER_DIR": Successor("--profiler-config.torch_profiler_dir", True),
    "VLLM_TORCH_PROFILER_WITH_STACK": Successor("--profiler-config.torch_profiler_with_stack"),
    "VLLM_TORCH_PROFILER_RECORD_SHAPES": Successor("--profiler-config.torch_profiler_record_shapes"),
    "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY": Successor("--profiler-config.torch_profiler_with_memory"),
    "VLLM_TORCH_PROFILER_WITH_FLOPS": Successor("--profiler-config.torch_profiler_with_flops"),
    "VLLM_TORCH_PROFILER_USE_GZIP": Successor("--profiler-config.torch_profiler_use_gzip"),
    "VLLM_TORCH_CUDA_PROFILE": Successor("--profiler-config.profiler"),
    "VLLM_USE_TRTLLM_ATTENTION": Successor("--attention-config.use_trtllm_attention"),
    "VLLM_USE_CUDNN_PREFILL": Successor("--attention-config.use_cudnn_prefill"),
    "VLLM_DISABLE_FLASHINFER_PREFILL": Successor("--attention-config.disable_flashinfer_prefill"),
    "VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL": Successor("--attention-config.use_trtllm_ragged_deepseek_prefill"),
    "VLLM_FLASHINFER_DISABLE_Q_QUANTIZATION": Successor("--attention-config.disable_flashinfer_q_quantization"),
    "VLLM_V1_USE_PREFILL_DECODE_ATTENTION": Successor("--attention-config.use_prefill_decode_attention"),
    "VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH": Successor(
        "--attention-config.flash_attn_max_num_splits_for_cuda_graph", True
    ),
    "VLLM_TORCH_COMPILE_LEVEL": Successor("-O"),
    "VLLM_USE_TRITON_FLASH_ATTN": Successor("--attention-backend"),
    "VLLM_GUIDED_DECODING_BACKEND": Successor("--structured-outputs-config.backend", True),
}
"""Variables that went before the oldest release known."""

REPLACED = {
    "VLLM_FLASHINFER_MOE_BACKEND": Successor("--moe-backend"),
    "VLLM_MXFP4_USE_MARLIN": Successor("--moe-backend"),
    "VLLM_NVFP4_GEMM_BACKEND": Successor("--linear-backend"),
    "VLLM_USE_FBGEMM": Successor("--linear-backend"),
    "VLLM_USE_NVFP4_CT_EMULATIONS": Successor("--linear-backend"),
    "VLLM_USE_FLASHINFER_MOE_FP16": Successor("--moe-backend"),
    "VLLM_USE_FLASHINFER_MOE_FP4": Successor("--moe-backend"),
    "VLLM_USE_FLASHINFER_MOE_FP8": Successor("--moe-backend"),
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": Successor("--moe-backend"),
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": Successor("--moe-backend"),
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS": Successor("--moe-backend"),
    "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": Successor("--prefix-cache-retention-interval", True),
    "VLLM_MM_HASHER_ALGORITHM": Successor("--mm-hasher-algorithm", True),
    "VLLM_TRITON_ATTN_USE_TD": Successor("", note="use VLLM_TRITON_USE_TD"),
}
"""Variables that went between the releases known, with what took their place."""

ALREADY_SO = {"VLLM_USE_V1": "1"}
"""Values that ask for what every release does."""


def is_ignored(name: str, release: str) -> bool:
    """Whether a variable is one of another release of vLLM, and this one does not read it: what CG811 reports."""
    if name in readers(release) or name in read_elsewhere(release):
        return False
    return bool(releases_with(name)) or name in BEFORE_ALL
