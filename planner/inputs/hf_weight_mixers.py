"""Matrices of the layers that mix tokens: attention, multi-head latent attention, and layers with a state."""

from __future__ import annotations

from ..cache_layers import CacheLayers, StateSizes
from ..weight_shape import Matrix, projection
from .hf_dimensions import Dimensions
from .hf_node import ConfigNode, words

# The query projection also gives a gate for the output, as wide as the queries.
_GATED_ATTENTION = words("qwen3_next qwen3_5_text qwen3_5_moe_text")


def attention_matrices(text: ConfigNode, sizes: Dimensions, layers: CacheLayers) -> list[Matrix]:
    """Projections of attention layers of one shape."""
    if layers.kind == "mla":
        return _latent(text, sizes, layers)
    if layers.kind == "indexer":
        return _indexer(text, sizes, layers)
    if layers.kind == "sparse_window":
        return _deepseek_v4(text, sizes, layers)
    indices, hidden = layers.layers, sizes.hidden_size
    value = layers.head_size if layers.head_size_v is None else layers.head_size_v
    heads = _heads(text, layers)
    gate = 2 if text.flag("attn_output_gate") or text.model_type in _GATED_ATTENTION else 1
    kv_width = layers.num_kv_heads * (layers.head_size + value)
    if text.flag("attention_k_eq_v") and layers.sliding_window is None:
        kv_width = layers.num_kv_heads * layers.head_size  # Gemma 4: the keys are the values
    found = [
        projection("self_attn.q_proj", "attention", indices, gate * heads * layers.head_size, hidden, "rows"),
        projection("self_attn.k_proj", "attention", indices, kv_width, hidden, "kv_heads", heads=layers.num_kv_heads),
        projection("self_attn.o_proj", "attention", indices, hidden, heads * value, "columns"),
    ]
    if text.get("gating"):
        found.append(projection("self_attn.g_proj", "attention", indices, heads, hidden, "rows"))  # Laguna
    return found


def _heads(text: ConfigNode, layers: CacheLayers) -> int:
    """Query heads; where each layer has a number of its own, their mean."""
    listed = text.get("num_attention_heads_per_layer")
    if isinstance(listed, list):
        own = [n for i, n in enumerate(listed) if i in set(layers.layers) and type(n) is int and n > 0]
        if own:
            return max(1, sum(own) // len(own))
    return max(1, layers.num_heads)


def _latent(text: ConfigNode, sizes: Dimensions, layers: CacheLayers) -> list[Matrix]:
    """models/deepseek_v2.py, DeepseekV2MLAAttention."""
    indices, hidden = layers.layers, sizes.hidden_size
    rope = sizes.qk_rope_head_dim or 0
    latent = text.integer("kv_lora_rank") or max(1, layers.head_size - rope)
    nope, value = text.integer("qk_nope_head_dim") or 128, text.integer("v_head_dim") or 128
    heads, query = max(1, layers.num_heads), text.integer("q_lora_rank") or 0
    width = heads * (nope + rope)
    found = []
    if query:
        found += [
            projection("self_attn.q_a_proj", "attention", indices, query, hidden, "none"),
            projection("self_attn.q_b_proj", "attention", indices, width, query, "rows"),
        ]
    else:
        found.append(projection("self_attn.q_proj", "attention", indices, width, hidden, "rows"))
    found += [
        projection("self_attn.kv_a_proj_with_mqa", "attention", indices, latent + rope, hidden, "none"),
        projection("self_attn.kv_b_proj", "attention", indices, heads * (nope + value), latent, "rows"),
        projection("self_attn.o_proj", "attention", indices, hidden, heads * value, "columns"),
    ]
    if text.flag("mla_use_output_gate"):
        found.append(projection("self_attn.g_proj", "attention", indices, heads * value, hidden, "rows"))
    return found


def _indexer(text: ConfigNode, sizes: Dimensions, layers: CacheLayers) -> list[Matrix]:
    """The top-k search of sparse layers, models/deepseek_v2.py, Indexer: every rank has all of it."""
    size, heads = text.integer("index_head_dim") or 128, text.integer("index_n_heads") or 64
    indices, hidden = layers.layers, sizes.hidden_size
    query = text.integer("q_lora_rank") or hidden
    return [
        projection("self_attn.indexer.wq_b", "attention", indices, heads * size, query, "none"),
        projection("self_attn.indexer.wk", "attention", indices, size, hidden, "none"),
        Matrix(name="self_attn.indexer.weights_proj", part="attention", layers=indices, rows=heads, columns=hidden),
    ]


def _deepseek_v4(text: ConfigNode, sizes: Dimensions, layers: CacheLayers) -> list[Matrix]:
    """models/deepseek_v4/attention.py: low-rank queries and outputs, one latent vector of keys and values."""
    indices, hidden, size = layers.layers, sizes.hidden_size, layers.head_size
    heads, query = max(1, layers.num_heads), text.integer("q_lora_rank") or 1024
    groups, out = text.integer("o_groups") or 8, text.integer("o_lora_rank") or 1024
    return [
        projection("attn.wq_a", "attention", indices, query + size, hidden, "none"),
        projection("attn.wq_b", "attention", indices, heads * size, query, "rows"),
        projection("attn.wo_a", "attention", indices, groups * out, max(1, heads * size // groups), "rows"),
        projection("attn.wo_b", "attention", indices, hidden, groups * out, "columns"),
    ]


def mixer_matrices(text: ConfigNode, sizes: Dimensions, layers: CacheLayers) -> list[Matrix]:
    """Projections of layers with a state of fixed size."""
    assert layers.state is not None
    builders = {
        "mamba1": _mamba1,
        "mamba2": _mamba2,
        "gdn": _gated_delta_net,
        "kda": _kimi_delta,
        "linear": _linear_attention,
        "short_conv": _short_conv,
    }
    return builders[layers.kind](text, sizes.hidden_size, layers.layers, layers.state)


def _small(name: str, indices: tuple[int, ...], elements: int) -> Matrix:
    return Matrix(name=name, part="mixer", layers=indices, rows=max(1, elements), split="rows")


def _mamba1(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    width, rank = state.width, text.integer("mamba_dt_rank") or text.integer("time_step_rank") or -(-hidden // 16)
    return [
        projection("mixer.in_proj", "mixer", indices, 2 * width, hidden, "rows"),
        projection("mixer.x_proj", "mixer", indices, rank + 2 * state.state_size, width, "columns"),
        projection("mixer.dt_proj", "mixer", indices, width, rank, "rows"),
        projection("mixer.out_proj", "mixer", indices, hidden, width, "columns"),
        _small("mixer.conv1d", indices, width * (state.conv_kernel + 2)),
        Matrix(
            name="mixer.A", part="mixer", layers=indices, rows=width, columns=state.state_size, split="rows", itemsize=4
        ),
    ]


def _mamba2(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    groups = 2 * state.n_groups * state.state_size
    return [
        projection("mixer.in_proj", "mixer", indices, 2 * state.width + groups + state.num_heads, hidden, "rows"),
        projection("mixer.out_proj", "mixer", indices, hidden, state.width, "columns"),
        _small("mixer.conv1d", indices, (state.width + groups) * (state.conv_kernel + 1) + 2 * state.width),
    ]


def _gated_delta_net(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    keys = 2 * state.num_key_heads * state.key_head_size
    values = state.num_heads * state.head_size
    return [
        projection("linear_attn.in_proj_qkv", "mixer", indices, keys + 2 * values, hidden, "rows"),
        projection("linear_attn.in_proj_ba", "mixer", indices, 2 * state.num_heads, hidden, "rows"),
        projection("linear_attn.out_proj", "mixer", indices, hidden, values, "columns"),
        _small("linear_attn.conv1d", indices, (keys + values) * state.conv_kernel),
    ]


def _kimi_delta(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    width = state.num_heads * state.head_size
    inner = text.mapping("linear_attn_config") or {}
    found = [
        projection("self_attn.qkv_proj", "mixer", indices, 3 * width, hidden, "rows"),
        projection("self_attn.f_a_proj", "mixer", indices, state.head_size, hidden, "none"),
        projection("self_attn.f_b_proj", "mixer", indices, width, state.head_size, "rows"),
        projection("self_attn.b_proj", "mixer", indices, state.num_heads, hidden, "rows"),
        projection("self_attn.o_proj", "mixer", indices, hidden, width, "columns"),
        _small("self_attn.conv1d", indices, 3 * width * state.conv_kernel),
    ]
    if inner.get("use_full_rank_gate"):
        return [*found, projection("self_attn.g_proj", "mixer", indices, width, hidden, "rows")]
    return [
        *found,
        projection("self_attn.g_a_proj", "mixer", indices, state.head_size, hidden, "none"),
        projection("self_attn.g_b_proj", "mixer", indices, width, state.head_size, "rows"),
    ]


def _linear_attention(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    width = state.num_heads * state.head_size
    return [
        projection("self_attn.qkv_proj", "mixer", indices, 3 * width, hidden, "rows"),
        projection("self_attn.output_gate", "mixer", indices, width, hidden, "rows"),
        projection("self_attn.out_proj", "mixer", indices, hidden, width, "columns"),
    ]


def _short_conv(text: ConfigNode, hidden: int, indices: tuple[int, ...], state: StateSizes) -> list[Matrix]:
    width = state.width or hidden
    return [
        projection("conv.in_proj", "mixer", indices, 3 * width, hidden, "rows"),
        projection("conv.out_proj", "mixer", indices, hidden, width, "columns"),
        _small("conv.conv", indices, width * state.conv_kernel),
    ]
