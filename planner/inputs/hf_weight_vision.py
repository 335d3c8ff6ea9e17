"""The vision tower of a multimodal model: its weights, and what an image is to the language model."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

from ..weight_shape import PLAIN_TOWER, Matrix, VisionShape
from .hf_node import ConfigNode, checked_int

_QWEN_TOKENS = 16384
_TURNING = ("pixtral", "gemma4_vision", "moonvit", "llama4_vision_model")
"""Other towers with rotary positions."""
_QWEN_FRAMES = 14
"""models/qwen2_vl.py:120 @ 0.33.0, _MAX_FRAMES_PER_VIDEO."""
_QWEN3_VIDEO_TOKENS = 12288
"""Two frames: half of the 25,165,824 pixels of the processor's longest edge, models/qwen3_vl.py:1120 @ 0.33.0."""


class Tower(NamedTuple):
    """A tower's shape and weights, and what was assumed."""

    shape: VisionShape
    matrices: tuple[Matrix, ...]
    unsure: str


def vision_tower(root: ConfigNode, hidden_size: int) -> Tower | None:
    """The tower of `root`'s vision_config, or None.

    Args:
        hidden_size: of the language model.
    """
    config = root.mapping("vision_config")
    if config is None:
        thinker = root.mapping("thinker_config") or {}
        inner = thinker.get("vision_config")
        config = inner if isinstance(inner, dict) else None
    if not config:
        return None
    width = _first(config, "hidden_size", "embed_dim", "width", "vt_hidden_size")
    layers = _first(config, "num_hidden_layers", "depth", "layers", "num_layers", "vt_num_hidden_layers")
    if not width or not layers:
        return None
    ratio = config.get("mlp_ratio")
    inner_width = _first(config, "intermediate_size", "vt_intermediate_size") or int(
        width * (ratio if isinstance(ratio, (int, float)) and 0 < ratio < 16 else 4)
    )
    patch = _first(config, "patch_size", "spatial_patch_size") or 14
    per_token = _patches_per_token(root, config, patch)
    frames = _first(config, "temporal_patch_size") or 1
    deep = config.get("deepstack_visual_indexes")
    is_qwen = "temporal_patch_size" in config
    # Qwen3-VL and later have learned positions; a video is two frames there, and as many as fit before.
    is_qwen3 = "num_position_embeddings" in config or not root.model_type.startswith(("qwen2_vl", "qwen2_5"))
    has_video = is_qwen or any(key.startswith("video_token") for key in root.raw)
    shape = VisionShape(
        hidden_size=width,
        intermediate_size=inner_width,
        num_layers=layers,
        patches_per_token=per_token,
        values_per_token=max(1, 3 * frames * patch * patch * per_token),
        tokens_per_item=_tokens_per_item(root, config, patch, per_token),
        token_side=max(1, round(patch * sqrt(per_token))),
        modalities=("image", "video") if has_video else ("image",),
        video_tokens=(_QWEN3_VIDEO_TOKENS if is_qwen3 else _QWEN_TOKENS) if is_qwen else None,
        video_frames=2 if is_qwen3 else _QWEN_FRAMES,
        is_gated=_is_gated(config),
        turns_queries=is_qwen or config.get("model_type") in _TURNING,
        adds_positions=is_qwen and is_qwen3,
        features=1 + (len(deep) if isinstance(deep, list) else 0),
    )
    return Tower(shape, _matrices(config, shape, hidden_size, patch, frames), PLAIN_TOWER)


def _matrices(
    config: Mapping[str, Any], shape: VisionShape, hidden_size: int, patch: int, frames: int
) -> tuple[Matrix, ...]:
    """Attention and MLP of every layer, the patch embedding and the projector; every rank has all of it or a share."""
    width, inner, number = shape.hidden_size, shape.intermediate_size, shape.num_layers
    gated = 3 if shape.is_gated else 2
    merged = width * shape.patches_per_token
    out = _first(config, "out_hidden_size") or hidden_size
    merge = _first(config, "spatial_merge_size") or 1
    projector = merged * merged + merged * out if merge > 1 else width * out + out * out * (merged != width)
    # models/gemma4_mm.py:1010 @ 0.33.0: one projection of pooled patches; the positions of both axes are learned.
    is_gemma4 = config.get("model_type") == "gemma4_vision"
    if is_gemma4:
        projector = width * out
    positions = _first(config, "num_position_embeddings") or 2 * is_gemma4 * _first(config, "position_embedding_size")
    learned = (Matrix(name="vision.positions", part="vision", rows=positions, columns=width),) if positions else ()
    projectors = shape.features
    return (
        *learned,
        Matrix(
            name="vision.layers",
            part="vision",
            rows=number,
            columns=4 * width * width + gated * width * inner,
            split="columns",
        ),
        Matrix(name="vision.projector", part="vision", rows=projectors, columns=projector, split="columns"),
        Matrix(name="vision.patches", part="vision", rows=width, columns=3 * frames * patch * patch),
    )


def _is_gated(config: Mapping[str, Any]) -> bool:
    return config.get("hidden_act") == "silu" or config.get("model_type") in ("pixtral", "gemma4_vision")


def _patches_per_token(root: ConfigNode, config: Mapping[str, Any], patch: int) -> int:
    """Patches that are merged into one token of the language model."""
    merge = _first(config, "spatial_merge_size") or root.integer("spatial_merge_size") or 0
    if merge:
        return merge * merge
    kernel = config.get("merge_kernel_size")
    if isinstance(kernel, list) and len(kernel) == 2 and all(type(n) is int and n > 0 for n in kernel):
        return int(kernel[0] * kernel[1])
    size, tokens = _first(config, "image_size"), root.integer("mm_tokens_per_image") or 0
    if size and tokens:
        return max(1, (size // patch) ** 2 // tokens)
    pooled = _first(config, "pooling_kernel_size")
    shuffle = config.get("pixel_shuffle_ratio")
    if isinstance(shuffle, float) and 0 < shuffle < 1:
        return round(1 / shuffle**2)
    return pooled * pooled if pooled else 1


def _tokens_per_item(root: ConfigNode, config: Mapping[str, Any], patch: int, per_token: int) -> int | None:
    """Tokens of the largest image; None where the processor, which is not here, decides."""
    fixed = root.integer("mm_tokens_per_image") or root.integer("vision_soft_tokens_per_image")
    if fixed:
        return fixed
    size = _first(config, "image_size")
    if not size:
        # Qwen's processors scale an image to at most 16,384 tokens, whatever the patch.
        return _QWEN_TOKENS if "temporal_patch_size" in config else None
    merge = max(1, round(sqrt(per_token)))
    side = -(-size // (patch * merge))
    return side * side


def _first(config: Mapping[str, Any], *keys: str) -> int:
    """The first of `keys` that is a whole number above 0, or 0."""
    for key in keys:
        value = config.get(key)
        if value is not None and not isinstance(value, list):
            number = checked_int(value, f"vision_config.{key}")
            if number:
                return number
    return 0
