"""The encoder of a multimodal model in the profile run: which inputs it is run with, and the tensors alive in it.

Source: vllm/multimodal/budget.py (encoder_budget.py before), v1/core/encoder_cache_manager.py,
compute_mm_encoder_budget, and profile_run of both runners; the layers in model_executor/models/qwen2_5_vl.py:362-419,
qwen3_vl.py, siglip.py @ 0.33.0. Of two public starts of 0.19.0 and 0.22.0 with 16,384 image tokens the sum of peak and
libraries is within 4% of this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...deployment import Deployment
from ...releases import canonical, facts, holds
from ...resolve import Resolution
from ...vocabulary import Runner
from ...weight_shape import VisionShape

NO_LIMIT = 999
"""Items a prompt where --limit-mm-per-prompt does not say, vllm/config/multimodal.py:211 @ 0.33.0."""


class EncoderRun(NamedTuple):
    """What the profile run encodes.

    Attributes:
        items: images or videos.
        tokens: of one, as the language model gets it.
        modality: "image" or "video".
    """

    items: int
    tokens: int
    modality: str


def limit(deployment: Deployment, modality: str) -> int:
    """Most items of a modality that a prompt may have."""
    if deployment.language_model_only:
        return 0
    given: Any = (deployment.limit_mm_per_prompt or {}).get(modality)
    if isinstance(given, Mapping):
        given = given.get("count")
    return given if isinstance(given, int) and given >= 0 else NO_LIMIT


def has_tower(deployment: Deployment) -> bool:
    """Whether the vision tower is loaded: not where no item of its modalities is allowed.

    vllm/model_executor/models/interfaces.py:347-400 @ 0.33.0, _mark_tower_model.
    """
    vision = _vision(deployment)
    if vision is None:
        return False
    return deployment.mm_encoder_only or any(limit(deployment, modality) for modality in vision.modalities)


def takes_media(deployment: Deployment) -> bool:
    """Whether the model is given anything but text; of a tower that is not known, whether it may be."""
    if not deployment.model.is_multimodal_model:
        return False
    if _vision(deployment) is not None:
        return has_tower(deployment)
    return bool(limit(deployment, "image") or limit(deployment, "video"))


def stage_has_tower(deployment: Deployment, resolution: Resolution | None, first: bool) -> bool:
    """Whether a pipeline stage loads it; since 0.33 only the first does with runner V2."""
    if not has_tower(deployment):
        return False
    if first:
        return True
    is_v1 = resolution is None or resolution.runner is Runner.V1
    return is_v1 or not holds(canonical(deployment.vllm), "0.33.0")


def encoder_run(deployment: Deployment, resolution: Resolution, first: bool) -> EncoderRun | None:
    """What a pipeline stage encodes in its profile run; None: nothing."""
    vision = _vision(deployment)
    if vision is None or deployment.skip_mm_profiling or not has_tower(deployment):
        return None
    is_v1 = resolution.runner is Runner.V1
    if not is_v1 and not (first and facts("budget", canonical(deployment.vllm))["activation"]["v2_runs_encoder"]):
        return None
    allowed = [modality for modality in vision.modalities if limit(deployment, modality)]
    if not allowed:
        return None
    most = {modality: _most_tokens(deployment, resolution, vision, modality) for modality in allowed}
    modality = max(allowed, key=lambda name: (most[name], name))
    tokens = most[modality]
    # The largest item of any modality makes the budget, with or without the tower.
    budget = max(resolution.max_num_batched_tokens, max(most.values()))
    prompt = max(1, min(limit(deployment, modality), resolution.max_model_len // tokens))
    items = max(1, min(budget // tokens, resolution.max_num_seqs * prompt))
    return EncoderRun(items, _dummy_tokens(deployment, vision, modality, tokens), modality)


def _vision(deployment: Deployment) -> VisionShape | None:
    weights = deployment.model.weights
    return weights.vision if weights is not None and deployment.model.is_multimodal_model else None


def _most_tokens(deployment: Deployment, resolution: Resolution, vision: VisionShape, modality: str) -> int:
    """Tokens of the largest image or video."""
    image = _image_tokens(deployment, vision) or resolution.max_num_batched_tokens
    if modality == "image" or vision.video_tokens is None:
        return image
    two = vision.video_tokens
    if vision.video_frames <= 2:
        return two
    # models/qwen2_vl.py:1130-1200 @ 0.33.0: pairs of frames of the largest image, as many as max_model_len holds.
    pairs = min(vision.video_frames // 2, resolution.max_model_len // image)
    return image * max(1, pairs)


def _image_tokens(deployment: Deployment, vision: VisionShape) -> int | None:
    """Tokens of the largest image, by the processor's limit of pixels where the user sets one."""
    pixels = _max_pixels(deployment.mm_processor_kwargs or {})
    if pixels is None or "video" not in vision.modalities or vision.tokens_per_item is None:
        return vision.tokens_per_item
    return max(1, pixels // vision.token_side**2)


def _max_pixels(given: Mapping[str, Any]) -> int | None:
    scoped = given.get("images_kwargs")
    for scope in (scoped if isinstance(scoped, Mapping) else {}, given):
        size = scope.get("size")
        found = scope.get("max_pixels", size.get("longest_edge") if isinstance(size, Mapping) else None)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None


def _dummy_tokens(deployment: Deployment, vision: VisionShape, modality: str, most: int) -> int:
    """Tokens of the item that is encoded: of the size of --limit-mm-per-prompt where it is smaller."""
    given: Any = (deployment.limit_mm_per_prompt or {}).get(modality)
    if not isinstance(given, Mapping):
        return most
    width, height = given.get("width"), given.get("height")
    if not (isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0):
        return most
    return min(most, -(-width // vision.token_side) * -(-height // vision.token_side))


class EncoderStep:
    """Bytes of the encoder's step on one rank.

    Args:
        item: bytes of a number of the model's dtype.
    """

    def __init__(self, deployment: Deployment, run: EncoderRun, item: int) -> None:
        vision = _vision(deployment)
        assert vision is not None
        self.vision: VisionShape = vision
        self.run, self.item = run, item
        self.hidden_size = deployment.model.hidden_size
        self.by_data = deployment.mm_encoder_tp_mode == "data"
        self.ranks = deployment.tensor_parallel_size

    def held(self) -> dict[str, int]:
        """What stays until the profile run ends: pixels and outputs."""
        tokens = self.run.items * self.run.tokens
        return {
            "pixels": tokens * self.vision.values_per_token * self.item,
            "encoder outputs": tokens * self.hidden_size * self.vision.features * self.item,
        }

    def terms(self) -> dict[str, int]:
        """What is alive in a layer of the encoder, its pixels among it; the outputs come later."""
        vision = self.vision
        items, ranks = self.run.items, self.ranks
        if self.by_data:
            items, ranks = -(-items // ranks), 1
        patches = items * self.run.tokens * vision.patches_per_token
        step = patches * vision.hidden_size * self.item
        # Its input, the norm of it, queries, keys and values, what attention gives, its projection; queries and keys
        # again before and after they are turned.
        heads = 8 if vision.turns_queries else 4
        attention = 3 * step + heads * step // ranks
        widths = (3 if vision.is_gated else 2) * vision.intermediate_size // ranks
        mlp = 2 * step + patches * widths * self.item
        found = {"pixels": self.held()["pixels"], "encoder layer": max(attention, mlp)}
        if vision.adds_positions:
            found["positions"] = step
        deep = patches // vision.patches_per_token * (vision.features - 1) * self.hidden_size * self.item
        if deep:
            found["deep features"] = deep
        return found
