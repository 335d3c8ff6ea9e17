"""What vLLM's ModelConfig says of a model, as far as CUDA graphs depend on it.

`inputs/hf_config.py` makes one from a config.json; a caller may also fill one by hand. Field names follow
ModelConfig (vllm/config/model.py at 0.33.0).
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from .cache_layers import CacheShape, Tuple
from .strict_model import StrictModel
from .weight_shape import WeightShape

__all__ = ["MOST_LAYERS", "BlockWeights", "ModelShape", "Tuple"]

MOST_LAYERS = 1_000
"""Most layers of a model that are taken; published ones have under 200."""


class BlockWeights(BaseModel):
    """Weights quantised in blocks, and the widths that tensor parallelism cuts.

    Attributes:
        rows, columns: of a block.
        experts, shared_experts, dense: intermediate sizes of the expert, shared-expert and dense layers, whole
            model; 0: the model has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rows: PositiveInt
    columns: PositiveInt
    experts: int = Field(default=0, ge=0)
    shared_experts: int = Field(default=0, ge=0)
    dense: int = Field(default=0, ge=0)


class ModelShape(StrictModel):
    """A model as the resolver sees it. The defaults describe a dense 8B decoder (Llama 3.1).

    Attributes:
        name: what the user called it; only printed.
        architectures: `architectures` of config.json; the first known one decides.
        model_type: `model_type` of config.json (of the text part for multimodal models).
        dtype: torch name of the dtype that `--dtype auto` gives: bfloat16, float16 or float32.
        hidden_size, num_hidden_layers, num_attention_heads, num_kv_heads: of the decoder, whole model, before
            tensor parallelism.
        head_size: elements a head in the KV cache, as ModelConfig.get_head_size gives it (MLA: latent + rope).
        vocab_size: entries of the embedding.
        intermediate_size: of the dense MLP, or None where it varies by layer or there is none.
        max_model_len: the length that vLLM derives from config.json when the user names none, tokens.
        max_model_len_limit: the longest that the user may ask for, tokens. 0: no limit. None: max_model_len.
        runner_type: "generate" or "pooling", what `--runner auto` gives.
        is_moe, use_mla, is_hybrid, is_attention_free, is_encoder_decoder, is_multimodal_model, is_mm_prefix_lm,
            is_diffusion: ModelConfig's properties of the same names.
        largest_mm_item: tokens of the largest image, video or sound that a prefix-LM model takes, or None: not known.
        is_encoder_only: every attention layer is bidirectional (BERT).
        mamba_backends: state-space or linear attention kinds of the layers (MAMBA1, MAMBA2, GDN_ATTN, LINEAR,
            SHORT_CONV, ...).
        sliding_window: window of the sliding layers, tokens, or None.
        has_full_attention_layers: False when every attention layer slides.
        attention_chunk_size: chunked local attention (Llama 4), tokens, or None.
        index_topk: of sparse MLA (DeepSeek V3.2 style), or None.
        has_sinks: attention sinks (gpt-oss).
        kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim: MLA dimensions, or None.
        quantization: `quant_method` as vLLM names it, or None.
        is_nvfp4_quantized, weight_block_quantized: facts of the quantisation that fusion defaults look at.
        block_weights: of weights quantised in blocks, or None.
        num_nextn_predict_layers: multi-token-prediction layers of the checkpoint.
        chunked_prefill_default, prefix_caching_default: what vLLM turns on when the user says nothing.
        canvas_length: of a block-diffusion model, or None.
        sample_from_anchor: of a DSpark draft: its first query is the token before the drafts, not one of them.
        kv_cache_dtype: dtype that the checkpoint asks for when `--kv-cache-dtype auto`, or None.
        cache: what its layers keep between steps; None: not known, and the KV cache cannot be sized.
        cache_unknown: why that is not known, where config.json is the reason.
        confidence: how sure the catalogue is of this entry, or None.
        weights: its matrices; None: not known, and memory cannot be estimated from the shape.
    """

    name: str | None = None
    architectures: Tuple[str] = ("LlamaForCausalLM",)
    model_type: str = "llama"
    dtype: str = "bfloat16"
    hidden_size: PositiveInt = 4096
    num_hidden_layers: int = Field(default=32, ge=1, le=MOST_LAYERS)
    num_attention_heads: int = Field(default=32, ge=0)
    num_kv_heads: int = Field(default=8, ge=0)
    head_size: int = Field(default=128, ge=0)
    vocab_size: PositiveInt = 128256
    intermediate_size: int | None = Field(default=14336, ge=0)
    max_model_len: PositiveInt = 131072
    max_model_len_limit: int | None = Field(default=None, ge=0)
    runner_type: str = "generate"
    is_moe: bool = False
    use_mla: bool = False
    is_hybrid: bool = False
    is_attention_free: bool = False
    is_encoder_decoder: bool = False
    is_encoder_only: bool = False
    is_multimodal_model: bool = False
    is_mm_prefix_lm: bool = False
    largest_mm_item: int | None = Field(default=None, ge=0)
    is_diffusion: bool = False
    mamba_backends: Tuple[str] = ()
    sliding_window: int | None = None
    has_full_attention_layers: bool = True
    attention_chunk_size: int | None = None
    index_topk: int | None = None
    has_sinks: bool = False
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    quantization: str | None = None
    is_nvfp4_quantized: bool = False
    weight_block_quantized: bool = False
    block_weights: BlockWeights | None = None
    num_nextn_predict_layers: int | None = Field(default=None, ge=0, le=MOST_LAYERS)
    chunked_prefill_default: bool = True
    prefix_caching_default: bool = True
    canvas_length: int | None = None
    sample_from_anchor: bool = True
    kv_cache_dtype: str | None = None
    cache: CacheShape | None = None
    cache_unknown: str | None = None
    confidence: str | None = None
    weights: WeightShape | None = None

    @property
    def architecture(self) -> str:
        """The architecture that vLLM's registry would pick: the first named."""
        return self.architectures[0] if self.architectures else ""

    @property
    def longest_model_len(self) -> int | None:
        """The longest max_model_len that the user may ask for, tokens; None: any."""
        if self.max_model_len_limit is None:
            return self.max_model_len
        return self.max_model_len_limit or None
