"""The weights of a model out of its config.json: which matrices its class builds, and how they are stored.

The model classes of vLLM decide it (vllm/model_executor/models/ at 0.33.0). Most decoders are one pattern: attention
or a mixer, then an MLP or experts; what a class does otherwise is said where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..cache_layers import CacheLayers, CacheShape
from ..errors import InputError
from ..weight_shape import Matrix, WeightShape, projection
from .hf_architecture import Resolved
from .hf_dimensions import Dimensions
from .hf_node import ConfigNode, bad_value, checked_int, words
from .hf_weight_experts import mlp_plan
from .hf_weight_mixers import attention_matrices, mixer_matrices
from .hf_weight_schemes import Schemes, read_schemes
from .hf_weight_vision import vision_tower

# One projection and an activation instead of two that are multiplied.
_PLAIN_MLP = words(
    """
    phi gpt2 gpt_neox gpt_neox_japanese gptj gpt_bigcode opt bloom falcon mpt starcoder2 nemotron nemotron_h persimmon
    bert roberta xlm-roberta distilbert whisper codegen stablelm_epoch RefinedWeb RefinedWebModel arcee
    """
)
# Embedding and head are one matrix where config.json does not say.
_TIED = words(
    """
    gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_text gpt2 opt bloom falcon mpt cohere cohere2
    starcoder2 gpt_bigcode
    """
)
_STATE_KEYS = ("mamba_d_state", "mamba_d_ssm", "ssm_state_size", "state_size", "conv_L_cache", "linear_attn_config")


def read_weights(
    root: ConfigNode,
    text: ConfigNode,
    resolved: Resolved,
    sizes: Dimensions,
    cache: CacheShape | None,
    num_predict_layers: int | None,
    name: str | None = None,
) -> WeightShape | None:
    """The weights, or None where the configuration does not say enough; only estimates need them.

    Args:
        cache: which layers are attention and which are something else.
        name: of the model; where a checkpoint does not say its bits, its name may.
    """
    try:
        return _read(root, text, resolved, sizes, cache, num_predict_layers, name)
    except (InputError, ZeroDivisionError, ValueError):
        return None


def _read(
    root: ConfigNode,
    text: ConfigNode,
    resolved: Resolved,
    sizes: Dimensions,
    cache: CacheShape | None,
    num_predict_layers: int | None,
    name: str | None,
) -> WeightShape:
    gated = text.model_type not in _PLAIN_MLP
    if text.model_type == "granitemoehybrid" and "shared_intermediate_size" not in text.raw:
        # The defaults of Transformers are those of another model: 8 experts of width 32768.
        raise bad_value(text.at("shared_intermediate_size"), "the key is missing")
    plan = mlp_plan(text, sizes, gated=gated)
    layers, unsure = _mixing(text, sizes, cache)
    inner = [*layers, *plan.matrices, *_norms(text, sizes)]
    tower = vision_tower(root, sizes.hidden_size) if root is not text or root.get("vision_config") else None
    tied = _is_tied(root, text)
    matrices = [*_embedding(text, sizes, tied), *inner, *(tower.matrices if tower else ())]
    schemes = read_schemes(root, text, name)
    draft = _draft(text, sizes, inner, num_predict_layers)
    return WeightShape(
        matrices=tuple(_stored(matrices, schemes)),
        draft=tuple(_stored(draft, schemes)),
        tied=tied,
        schemes=tuple(schemes.found),
        experts_per_token=plan.per_token,
        gated_mlp=gated,
        rope_elements=_rope_elements(text, sizes),
        vision=tower.shape if tower else None,
        unsure="; ".join(part for part in (unsure, schemes.unsure, tower.unsure if tower else "") if part),
    )


def _mixing(text: ConfigNode, sizes: Dimensions, cache: CacheShape | None) -> tuple[list[Matrix], str]:
    """The attention and state layers, and what was assumed of them."""
    if cache is None:
        if text.get("hybrid_override_pattern") or any(key in text.raw for key in _STATE_KEYS):
            raise bad_value(text.where, "layers with a state, and how they are laid out is not known")
        every = CacheLayers(
            name="",
            layers=tuple(range(sizes.num_hidden_layers)),
            kind="mla" if sizes.is_mla else "attention",
            num_heads=sizes.num_attention_heads,
            num_kv_heads=sizes.num_kv_heads,
            head_size=sizes.head_size,
        )
        blocks = text.get("block_configs")
        if isinstance(blocks, list):
            own = tuple(i for i, block in enumerate(blocks[:1000]) if _attends(block))
            every = every.model_copy(update={"layers": own})
        return attention_matrices(text, sizes, every), "every layer was taken for attention of one shape"
    found: list[Matrix] = []
    seen: set[int] = set()
    for layers in cache.layers:
        if layers.kind in ("attention", "mla", "indexer", "sparse_window"):
            found += attention_matrices(text, sizes, layers)
            if layers.kind != "indexer":
                seen |= set(layers.layers)
        elif layers.state is not None:
            found += mixer_matrices(text, sizes, layers)
    shared = _sharing(text, sizes, seen)
    if shared:
        found += shared
    return found, ""


def _attends(block: Any) -> bool:
    attention = block.get("attention") if isinstance(block, dict) else None
    return not (isinstance(attention, dict) and attention.get("no_op"))


def _sharing(text: ConfigNode, sizes: Dimensions, seen: set[int]) -> list[Matrix]:
    """Layers that read another's keys and values: they have a query and an output projection of their own."""
    count = text.integer("num_kv_shared_layers") or 0
    kinds = text.layer_types() or []
    found: list[Matrix] = []
    for kind, key in (("sliding_attention", "head_dim"), ("full_attention", "global_head_dim")):
        size = text.integer(key) or text.integer("head_dim") or sizes.head_size
        first = sizes.num_hidden_layers - count
        layers = tuple(i for i in range(first, sizes.num_hidden_layers) if i < len(kinds) and kinds[i] == kind)
        layers = tuple(i for i in layers if i not in seen)
        if count and layers:
            width = sizes.num_attention_heads * size
            found += [
                projection("self_attn.q_proj", "attention", layers, width, sizes.hidden_size, "rows"),
                projection("self_attn.o_proj", "attention", layers, sizes.hidden_size, width, "columns"),
            ]
    return found


def _embedding(text: ConfigNode, sizes: Dimensions, tied: bool) -> list[Matrix]:
    hidden = text.integer("embedding_size") or sizes.hidden_size
    if text.model_type.startswith("deepseek") or hidden > sizes.hidden_size:
        hidden = sizes.hidden_size
    found = [Matrix(name="embed_tokens", part="embedding", rows=sizes.vocab_size, columns=hidden, split="vocab")]
    if not tied:
        found.append(Matrix(name="lm_head", part="head", rows=sizes.vocab_size, columns=hidden, split="vocab"))
    per_layer = text.integer("hidden_size_per_layer_input") or 0
    if per_layer:
        # Gemma 3n and 4: an embedding of its own for every layer, models/gemma4.py.
        number = sizes.num_hidden_layers
        entries = text.integer("vocab_size_per_layer_input") or sizes.vocab_size
        layers = tuple(range(number))
        found += [
            Matrix(
                name="embed_tokens_per_layer",
                part="embedding",
                rows=entries,
                columns=number * per_layer,
                split="vocab",
            ),
            projection("per_layer_model_projection", "other", (), number * per_layer, hidden, "none"),
            projection("per_layer_input_gate", "other", layers, per_layer, hidden, "none"),
            projection("per_layer_projection", "other", layers, hidden, per_layer, "none"),
        ]
    return found


def _norms(text: ConfigNode, sizes: Dimensions) -> list[Matrix]:
    """Two norms a layer, four in Gemma 2 and later, and one at the end."""
    each = 4 if text.model_type.startswith(("gemma2", "gemma3", "gemma4")) else 2
    every = tuple(range(sizes.num_hidden_layers))
    return [
        Matrix(name="norms", part="norm", layers=every, rows=each * sizes.hidden_size),
        Matrix(name="norm", part="norm", rows=sizes.hidden_size),
    ]


def _is_tied(root: ConfigNode, text: ConfigNode) -> bool:
    for node in (text, root):
        said = node.raw.get("tie_word_embeddings")
        if isinstance(said, bool):
            return said
    given = text.get("tie_word_embeddings")
    if isinstance(given, bool):
        return given
    return text.model_type in _TIED or root.model_type in _TIED


def _draft(
    text: ConfigNode, sizes: Dimensions, inner: Iterable[Matrix], num_predict_layers: int | None
) -> list[Matrix]:
    """A multi-token-prediction module: the last layer again, and a projection of embedding and hidden state."""
    number = num_predict_layers or text.integer("mtp_num_hidden_layers") or 0
    if not number:
        return []
    last = sizes.num_hidden_layers - 1
    if text.model_type.startswith(("qwen3_next", "qwen3_5")):
        number = 1
    layers = tuple(range(last + 1, last + 1 + number))
    same = [m.model_copy(update={"layers": layers, "part": "draft"}) for m in inner if last in m.layers]
    hidden = sizes.hidden_size
    return [*same, projection("eh_proj", "draft", layers, hidden, 2 * hidden, "none")]


def _stored(matrices: Iterable[Matrix], schemes: Schemes) -> list[Matrix]:
    """The matrices with their schemes; one whose layers are stored in several ways becomes several."""
    found: list[Matrix] = []
    for matrix in matrices:
        is_named_head = matrix.part == "head" and schemes.names_modules
        if not schemes.found or not (matrix.linear or is_named_head):
            found.append(matrix)
            continue
        if not matrix.layers:
            found.append(matrix.model_copy(update={"scheme": schemes.of(matrix.name, matrix.part, None)}))
            continue
        groups: dict[int | None, list[int]] = {}
        for layer in matrix.layers:
            groups.setdefault(schemes.of(matrix.name, matrix.part, layer), []).append(layer)
        found += [matrix.model_copy(update={"layers": tuple(ls), "scheme": s}) for s, ls in groups.items()]
    return found


def _rope_elements(text: ConfigNode, sizes: Dimensions) -> int:
    """Entries of the rotary tables: one for each way of turning, as long as its positions.

    vllm/model_executor/layers/rotary_embedding/: linear_scaling_rope.py and dynamic_ntk*.py stretch the table by the
    factor, yarn_scaling_rope.py from the original length, mrope.py makes it four times as long.
    """
    outer = text.mapping("rope_parameters") or text.mapping("rope_scaling") or {}
    ways: list[Mapping[str, Any]] = [value for value in outer.values() if isinstance(value, dict)] or [outer]
    if len(ways) == 1 and text.get("rope_local_base_freq") is not None:
        ways.append({})  # Gemma 3: the sliding layers turn by themselves
    size = sizes.qk_rope_head_dim if sizes.is_mla and sizes.qk_rope_head_dim else sizes.head_size
    factor = _fraction(text.get("partial_rotary_factor"))
    positions = text.integer("max_position_embeddings") or 0
    elements = 0
    for way in ways:
        inner = _fraction(way.get("partial_rotary_factor")) if factor == 1 else factor
        elements += int(_stretched(positions, way) * size * inner)
    return min(elements, 1 << 36)


def _stretched(positions: int, way: Mapping[str, Any]) -> int:
    """Positions of a rotary table."""
    kind = way.get("rope_type") or way.get("type")
    factor = way.get("factor")
    factor = factor if isinstance(factor, (int, float)) and 1 <= factor < 1000 else 1
    if kind in ("yarn", "longrope", "deepseek_yarn"):
        original = checked_int(way.get("original_max_position_embeddings"), "rope") or positions
        return max(positions, int(original * factor))
    if kind in ("linear", "dynamic"):
        return int(positions * factor)
    return positions * (4 if "mrope_section" in way else 1)


def _fraction(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 < value <= 1 else 1.0
