"""vLLM's own words for CUDA graphs, as types: modes, compilation modes, support levels, usage contexts.

Values and names follow vllm/config/compilation.py:37-109 and vllm/v1/attention/backend.py:557-570 at 0.33.0.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class CUDAGraphMode(str, Enum):
    """What a batch runs in. NONE, PIECEWISE and FULL exist at run time; the two others only in configuration."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    # Plain attributes, filled below: members are looked up thousands of times a second.
    decode_mode: CUDAGraphMode
    mixed_mode: CUDAGraphMode
    separate_routine: bool
    has_full: bool
    has_piecewise: bool
    without_piecewise: CUDAGraphMode

    def __str__(self) -> str:
        return str(self.value)


def _describe_modes() -> None:
    m = CUDAGraphMode
    for mode, decode, mixed, without in (
        (m.NONE, m.NONE, m.NONE, m.NONE),
        (m.PIECEWISE, m.PIECEWISE, m.PIECEWISE, m.NONE),
        (m.FULL, m.FULL, m.FULL, m.FULL),
        (m.FULL_DECODE_ONLY, m.FULL, m.NONE, m.FULL_DECODE_ONLY),
        (m.FULL_AND_PIECEWISE, m.FULL, m.PIECEWISE, m.FULL_DECODE_ONLY),
    ):
        mode.decode_mode = decode
        mode.mixed_mode = mixed
        mode.separate_routine = decode is not mixed
        mode.has_full = m.FULL in (decode, mixed)
        mode.has_piecewise = m.PIECEWISE in (decode, mixed)
        mode.without_piecewise = without


_describe_modes()


class CompilationMode(str, Enum):
    """How torch.compile is used. vLLM numbers them 0 to 3 in this order."""

    NONE = "NONE"
    STOCK_TORCH_COMPILE = "STOCK_TORCH_COMPILE"
    DYNAMO_TRACE_ONCE = "DYNAMO_TRACE_ONCE"
    VLLM_COMPILE = "VLLM_COMPILE"

    def __str__(self) -> str:
        return str(self.value)


class AttentionCGSupport(IntEnum):
    """How much of the forward pass an attention backend lets a CUDA graph hold."""

    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3

    def __str__(self) -> str:
        return self.name


class UsageContext(str, Enum):
    """Who starts the engine; the default batch limits depend on it (vllm/engine/arg_utils.py:2945-3039)."""

    OPENAI_API_SERVER = "OPENAI_API_SERVER"
    LLM_CLASS = "LLM_CLASS"
    ENGINE_CONTEXT = "ENGINE_CONTEXT"
    OPENAI_BATCH_RUNNER = "OPENAI_BATCH_RUNNER"
    UNKNOWN_CONTEXT = "UNKNOWN_CONTEXT"

    def __str__(self) -> str:
        return str(self.value)


class Runner(str, Enum):
    """vLLM's two model runners."""

    V1 = "V1"
    V2 = "V2"

    def __str__(self) -> str:
        return str(self.value)
