"""What the model's layers refuse when they are built, after the configuration passed: the rules about the KV cache."""

from __future__ import annotations

from ..errors import StartupError
from ..trace import Rule

STAGE = "load_model"

NOT_DIVISIBLE = Rule(
    "CG540",
    title="Heads and channels of a layer must divide by the tensor parallel size.",
    why="Every rank holds an equal share; only key and value heads may be replicated, and then evenly.",
    example="Qwen3.6-27B has 16 linear-attention key heads: --tensor-parallel-size 6 does not load.",
    instead="Choose a tensor parallel size that divides the model's heads, usually a power of two.",
    source="vllm/distributed/utils.py:50-54; vllm/model_executor/models/llama.py:145-156",
)
KDA_STATE_DTYPE = Rule(
    "CG541",
    title="The recurrent state of KDA layers is float32 or bfloat16.",
    why="The kernels have no other type.",
    example="Kimi K3 with --mamba-ssm-cache-dtype float16 does not load.",
    instead="Leave --mamba-ssm-cache-dtype out, or give float32 or bfloat16.",
    source="vllm/model_executor/layers/mamba/mamba_utils.py:130-148",
)


def load_error(
    rule: Rule, message: str, *, where: str, raised_in: str, raised_as: str = "ValueError", fix: str = ""
) -> StartupError:
    """The error of a model that does not load."""
    return StartupError(
        message,
        code=rule.code,
        stage=STAGE,
        raised_as=raised_as,
        raised_in=raised_in,
        where=where,
        fix=fix or rule.instead,
    )
