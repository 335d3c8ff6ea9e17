"""Matrices of the MLPs and experts, and which layers have which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..light_dataclass import dataclass
from ..weight_shape import Matrix, Part, projection
from .hf_dimensions import Dimensions
from .hf_node import ConfigNode, checked_int

_PER_TOKEN_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_top_k",
    "experts_per_token",
    "moe_topk",
    "num_activated_experts",
)


@dataclass(frozen=True)
class MlpPlan:
    """The MLPs of a model.

    Attributes:
        matrices: of the dense layers, the shared and the routed experts, and the routers.
        per_token: routed experts a token goes through; 0: none.
    """

    matrices: tuple[Matrix, ...]
    per_token: int


def mlp_plan(text: ConfigNode, sizes: Dimensions, *, gated: bool) -> MlpPlan:
    """What stands in each layer after the mixing.

    Args:
        gated: the MLPs multiply two projections.
    """
    number = sizes.num_hidden_layers
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and text.model_type == "nemotron-nas":
        return MlpPlan(tuple(_searched(blocks, sizes.hidden_size)), 0)
    with_mlp = _with_mlp(text, number)
    if not sizes.num_experts:
        return MlpPlan(tuple(_dense_layers(text, sizes, with_mlp, gated)), 0)
    sparse = [i for i in _sparse(text, number) if i in set(with_mlp)]
    dense = [i for i in with_mlp if i not in set(sparse)]
    found = _dense_layers(text, sizes, dense, gated) if dense else []
    if text.model_type in ("gemma4_text", "gemma4"):
        found += _dense_layers(text, sizes, sparse, gated)  # beside the experts, not instead of them
    found += _experts(text, sizes, sparse, gated) if sparse else []
    return MlpPlan(tuple(found), text.first_integer(_PER_TOKEN_KEYS) or _any_integer(text, _PER_TOKEN_KEYS) or 1)


def _searched(blocks: list[Any], hidden: int) -> list[Matrix]:
    """Every layer has a width of its own, models/nemotron_nas.py:60-70."""
    widths: dict[int, list[int]] = {}
    for i, block in enumerate(blocks[:1000]):
        mlp = block.get("ffn") if isinstance(block, dict) else None
        scale = mlp.get("ffn_mult") if isinstance(mlp, dict) and not mlp.get("no_op") else None
        if isinstance(scale, (int, float)) and 0 < scale < 100:
            widths.setdefault(-(-int(2 * scale * hidden / 3) // 256) * 256, []).append(i)
    return [m for width, layers in widths.items() for m in _mlp("mlp", "mlp", layers, width, hidden, True)]


def _any_integer(text: ConfigNode, keys: Sequence[str]) -> int:
    return next((n for n in (text.integer(key) for key in keys) if n), 0)


def _with_mlp(text: ConfigNode, number: int) -> list[int]:
    """Layers that have an MLP or experts: all, but in Nemotron-H, where a layer is one thing."""
    if text.model_type != "nemotron_h":
        return list(range(number))
    pattern = text.text("hybrid_override_pattern")
    if pattern:
        return [i for i, kind in enumerate(pattern) if kind in "-E"]
    kinds = text.names("layers_block_type") or text.names("layer_types") or []
    return [i for i, kind in enumerate(kinds) if kind in ("moe", "mlp")]


def _sparse(text: ConfigNode, number: int) -> list[int]:
    """Layers with experts."""
    every = range(number)
    if text.model_type == "nemotron_h":
        pattern = text.text("hybrid_override_pattern") or ""
        kinds = text.names("layers_block_type") or text.names("layer_types") or []
        return [i for i, kind in enumerate(pattern or kinds) if kind in ("E", "moe")]
    listed = text.get("mlp_layer_types")
    if isinstance(listed, list):
        return [i for i in every if i < len(listed) and listed[i] == "sparse"]
    for key in ("moe_layer_freq", "moe_layers_pattern"):
        flags = text.get(key)
        if isinstance(flags, list):
            return [i for i in every if i < len(flags) and flags[i]]
    own = text.get("moe_layers")
    if isinstance(own, list):
        return [i for i in every if i in set(own)]
    step = text.integer("interleave_moe_layer_step") or text.integer("decoder_sparse_step") or 1
    if text.integer("expert_layer_period"):
        period, offset = text.integer("expert_layer_period") or 1, text.integer("expert_layer_offset") or 0
        return [i for i in every if i % period == offset]
    first = text.integer("first_k_dense_replace") or text.integer("moe_layer_start_index") or 0
    plain = text.get("mlp_only_layers")
    dense = {i for i in plain if type(i) is int} if isinstance(plain, list) else set()
    return [i for i in every if i >= first and (i + 1) % step == 0 and i not in dense]


def _dense_layers(text: ConfigNode, sizes: Dimensions, layers: Sequence[int], gated: bool) -> list[Matrix]:
    hidden = sizes.hidden_size
    listed = text.get("intermediate_size")
    if isinstance(listed, list) and listed:
        groups: dict[int, list[int]] = {}
        for i in layers:
            width = checked_int(listed[min(i, len(listed) - 1)], text.at("intermediate_size"), low=1) or 1
            groups.setdefault(width, []).append(i)
        return [m for width, own in groups.items() for m in _mlp("mlp", "mlp", own, width, hidden, gated)]
    width = (
        text.integer("intermediate_size_mlp")
        or text.integer("dense_intermediate_size")
        or text.integer("shared_intermediate_size")
        or sizes.intermediate_size
        or text.integer("n_inner")
        or text.integer("ffn_hidden_size")
        or 4 * hidden
    )
    if sizes.num_experts and text.model_type == "granitemoehybrid":
        width = text.integer("shared_intermediate_size") or width
    found = []
    plain = list(layers)
    shared = text.integer("num_kv_shared_layers") or 0
    if text.flag("use_double_wide_mlp") and shared:
        wide = [i for i in plain if i >= sizes.num_hidden_layers - shared]
        plain = [i for i in plain if i not in set(wide)]
        found += _mlp("mlp", "mlp", wide, 2 * width, hidden, gated)
    return [*_mlp("mlp", "mlp", plain, width, hidden, gated), *found]


def _mlp(name: str, part: Part, layers: Sequence[int], width: int, hidden: int, gated: bool) -> list[Matrix]:
    if not layers or not width:
        return []
    up = "gate_up_proj" if gated else "up_proj"
    return [
        projection(f"{name}.{up}", part, layers, width * (2 if gated else 1), hidden, "rows"),
        projection(f"{name}.down_proj", part, layers, hidden, width, "columns"),
    ]


def _experts(text: ConfigNode, sizes: Dimensions, layers: Sequence[int], gated: bool) -> list[Matrix]:
    hidden, number = sizes.hidden_size, sizes.num_experts
    inner = text.integer("moe_latent_size") or text.integer("routed_expert_hidden_size") or hidden
    width = (
        text.integer("moe_intermediate_size")
        or text.integer("expert_intermediate_size")
        or sizes.intermediate_size
        or text.integer("ffn_hidden_size")
        or 4 * hidden
    )
    up = "gate_up_proj" if gated else "up_proj"
    found = [
        projection(f"mlp.experts.{up}", "experts", layers, width * (2 if gated else 1), inner, "rows", count=number),
        projection("mlp.experts.down_proj", "experts", layers, inner, width, "columns", count=number),
        Matrix(name="mlp.gate", part="router", layers=tuple(layers), rows=number, columns=hidden),
    ]
    if inner != hidden:
        found += [
            projection("mlp.fc1_latent_proj", "shared_expert", layers, inner, hidden, "none"),
            projection("mlp.fc2_latent_proj", "shared_expert", layers, hidden, inner, "none"),
        ]
    shared = _shared_width(text, width)
    return [*found, *_mlp("mlp.shared_experts", "shared_expert", layers, shared, hidden, gated)]


def _shared_width(text: ConfigNode, width: int) -> int:
    """The shared experts of a layer together; 0: none."""
    own = _any_integer(
        text,
        ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim"),
    )
    if text.model_type in ("llama4_text", "llama4"):
        return text.integer("intermediate_size") or width
    if text.model_type in ("granitemoehybrid", "granitemoeshared"):
        return text.integer("shared_intermediate_size") or 0
    count = _any_integer(text, ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"))
    if own:
        return own * (count if count and text.model_type == "nemotron_h" else 1)
    if count and text.integer("shared_intermediate_size"):
        return count * (text.integer("shared_intermediate_size") or 0)
    return count * width
