"""The layers of a model that keep something between steps, as its class builds them: before any parallelism.

`inputs/hf_cache.py` makes them from a config.json; a caller may also fill them by hand.
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, Strict

T = TypeVar("T")
Tuple = Annotated[tuple[T, ...], Strict(False)]
"""A tuple that also takes a list; the items stay strict."""

LayerKind = Literal[
    "attention",
    "mla",
    "indexer",
    "sparse",
    "sparse_window",
    "compressor",
    "mamba1",
    "mamba2",
    "gdn",
    "kda",
    "linear",
    "short_conv",
    "encoder_only",
    "cross_attention",
]
"""What a layer keeps.

attention: keys and values. mla: one latent vector a token. indexer: keys of a sparse model's top-k search.
sparse, sparse_window, compressor: the parts of a DeepSeek V4 layer. mamba1 to short_conv: a state of fixed size.
"""


class StateSizes(BaseModel):
    """Sizes of a state of fixed size, whole model.

    Attributes:
        width: channels of the convolution, without the groups' (mamba1, mamba2, short_conv).
        conv_kernel: taps of the convolution; 0: none.
        num_heads, head_size: of the values.
        num_key_heads, key_head_size: of the keys (gdn).
        n_groups: of mamba2.
        state_size: of one channel (mamba1) or head (mamba2).
        has_gate_bound: KDA's gate is bounded, which its fast prefill kernel needs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    width: int = Field(default=0, ge=0)
    conv_kernel: int = Field(default=0, ge=0)
    num_heads: int = Field(default=0, ge=0)
    head_size: int = Field(default=0, ge=0)
    num_key_heads: int = Field(default=0, ge=0)
    key_head_size: int = Field(default=0, ge=0)
    n_groups: int = Field(default=1, ge=1)
    state_size: int = Field(default=0, ge=0)
    has_gate_bound: bool = False


class CacheLayers(BaseModel):
    """Layers that keep the same thing.

    Attributes:
        name: vLLM's name of a layer, with {} for its index.
        layers: their indices, ascending.
        name_offset: added to the index in the name.
        kind: what they keep.
        num_heads: query heads.
        num_kv_heads: key and value heads.
        head_size, head_size_v: elements of a key and of a value; None: as long as a key.
        sliding_window: tokens that a layer looks back, or None.
        window_without_self: sliding_window does not count the token itself.
        attention_chunk_size: tokens of a chunk of local attention, or None.
        compress_ratio: tokens of one entry (sparse, compressor, indexer of DeepSeek V4).
        index_topk: of a sparse MLA layer, or None.
        leads_index_group: the MLA layer has an indexer of its own.
        state: of layers with a state.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    layers: Tuple[int]
    name_offset: int = Field(default=0, ge=0)
    kind: LayerKind = "attention"
    num_heads: int = Field(default=0, ge=0)
    num_kv_heads: int = Field(default=0, ge=0)
    head_size: int = Field(default=0, ge=0)
    head_size_v: int | None = None
    sliding_window: int | None = None
    window_without_self: bool = False
    attention_chunk_size: int | None = None
    compress_ratio: PositiveInt = 1
    index_topk: int | None = None
    leads_index_group: bool = False
    state: StateSizes | None = None


class CacheShape(BaseModel):
    """What a model keeps.

    Attributes:
        layers: of the model itself.
        draft_layers: of its multi-token-prediction module, loaded only when that drafts.
        num_layers: decoder layers that pipeline stages share out; 0: num_hidden_layers.
        ssm_dtype: what `--mamba-ssm-cache-dtype auto` gives, a torch name; "model": what vLLM has for the
            model; None: the dtype of the convolution's part.
        built_kv_dtype: what `--kv-cache-dtype auto` becomes when the attention layers are built (llm-compressor
            checkpoints with a scheme for the cache), or None.
        chunk_size: tokens of a step of the state's prefill kernel, as config.json says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    layers: Tuple[CacheLayers]
    draft_layers: Tuple[CacheLayers] = ()
    num_layers: int = Field(default=0, ge=0)
    ssm_dtype: str | None = None
    built_kv_dtype: str | None = None
    chunk_size: int | None = None
