"""What the model's layers refuse when they are built, after the configuration passed: the rules about the KV cache."""

from __future__ import annotations

from ...errors import StartupError
from ...trace import Rule

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
UNKNOWN_LAYERS = Rule(
    "CG543",
    title="cgplan must know what a model's layers keep to size its KV cache.",
    why="The model's class decides it, and a guess would be wrong by whole gigabytes.",
    example="A model of a class that is not among releases/kv_layers.toml: no number is given.",
    instead="Read the KV cache size from vLLM's own log, or add the class (docs/adding-a-release.md).",
    source="cgplan",
)
FP8_E5M2_SCALES = Rule(
    "CG544",
    title="fp8_e5m2 is no KV cache dtype for a checkpoint with fp8 scales.",
    why="The checkpoint's scales are for e4m3.",
    example="MiniMax-M2.7-NVFP4 with --kv-cache-dtype fp8_e5m2 does not load.",
    instead="Use --kv-cache-dtype fp8.",
    source="vllm/model_executor/layers/attention/attention.py:193-215",
)
TRITON_FP8 = Rule(
    "CG545",
    title="The Triton attention backend needs compute capability 8.9 for an fp8 KV cache.",
    why="Older GPUs have no fp8 arithmetic.",
    example="Gemma 4 with an fp8 KV cache on an A100 does not load.",
    instead="Use --kv-cache-dtype bfloat16.",
    source="vllm/v1/attention/backends/triton_attn.py:510-528",
    since="0.24.0",
)
TRITON_MLA_FP8 = Rule(
    "CG546",
    title="The Triton MLA backend needs compute capability 8.9 for an fp8 KV cache.",
    why="Older GPUs have no fp8 arithmetic.",
    example="DeepSeek V3 with --kv-cache-dtype fp8 on an A100 does not load.",
    instead="Use --kv-cache-dtype bfloat16.",
    source="vllm/v1/attention/backends/mla/triton_mla.py:199-217",
    since="0.26.0",
)
SPARSE_DCP = Rule(
    "CG547",
    title="FlashMLA's sparse kernels serve decode context parallelism from the fp8_ds_mla layout only.",
    why="Only their fp8 path returns what merging the ranks' answers needs.",
    example="GLM-5.1 with --decode-context-parallel-size 2 and --kv-cache-dtype bfloat16 on an H200 does not load.",
    instead="Use --kv-cache-dtype fp8, or leave decode context parallelism out.",
    source="vllm/v1/attention/backends/mla/flashmla_sparse.py:785-791",
    since="0.29.0",
)
FLEX_SOFTCAP = Rule(
    "CG548",
    title="FlexAttention has no soft cap of the attention logits.",
    why="Its kernels do not apply one; the backend selection does not look.",
    example="Gemma 2 with --attention-backend FLEX_ATTENTION does not load.",
    instead="Leave --attention-backend out.",
    source="vllm/v1/attention/backends/flex_attention.py:1184-1190",
)
V4_PACKED = Rule(
    "CG549",
    title="DeepSeek V4's packed cache layout needs an fp8 KV cache dtype.",
    why="FlashMLA reads rows of scaled fp8 only.",
    example="DeepSeek V4 with --kv-cache-dtype bfloat16 on an H200 does not load; up to 0.29 nor does auto.",
    instead="Use --kv-cache-dtype fp8.",
    source="vllm/models/deepseek_v4/attention.py:94-129",
    since="0.20.2",
)
DUPLICATE_NAME = Rule(
    "CG558",
    title="An EAGLE draft's layers must not bear the names of the model's own.",
    why="Its layers are numbered on from those of the last pipeline stage alone, and the last stage's are numbered by"
    " the whole model.",
    example="Llama 3.1 8B with an EAGLE draft and --pipeline-parallel-size 2: layer 16 is there twice.",
    instead="Leave pipeline parallelism out, or use an EAGLE3 draft from 0.30 on.",
    source="vllm/model_executor/models/llama_eagle.py:157-163",
)
BLOCK_WEIGHTS = Rule(
    "CG559",
    title="Weights quantised in blocks are cut at whole blocks only.",
    why="A block has one scale, and every rank needs its own.",
    example="Laguna XS FP8 has shared experts of 512 channels in blocks of 128; with TP 8 it does not load.",
    instead="Lower --tensor-parallel-size; for expert layers --enable-expert-parallel does as well.",
    source="vllm/model_executor/layers/quantization/utils/fp8_utils.py:1285-1372",
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
