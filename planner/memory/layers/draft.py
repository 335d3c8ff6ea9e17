"""The attention layers of a drafter, under the names that vLLM gives them."""

from __future__ import annotations

from ...cache_layers import CacheLayers, CacheShape
from ...deployment import Deployment
from ...errors import InputError
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, facts
from ...resolve import Resolution
from .load_rules import UNKNOWN_LAYERS
from .pipeline_stages import stage_ranges
from .plain_decoder import plain_layers

WITHOUT_LAYERS = frozenset({"ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class"})
"""Methods whose drafter keeps nothing in the KV cache."""


@dataclass(frozen=True)
class Draft:
    """The drafter's model and its layers, all on the last pipeline stage."""

    model: ModelShape
    shape: CacheShape
    layers: tuple[CacheLayers, ...]
    tensor_parallel_size: int


def draft_of(deployment: Deployment, resolution: Resolution) -> Draft | None:
    """The drafter of `deployment`, or None where it keeps nothing.

    Raises:
        InputError: CG543 it is not known what its layers keep.
    """
    spec = deployment.speculative_config
    method = resolution.config["spec_method"]
    if spec is None or method is None or method in WITHOUT_LAYERS:
        return None
    model = deployment.model if spec.model is None else spec.model
    shape = model.cache or (None if model.cache_unknown else plain_layers(model))
    if shape is None:
        raise _unknown(model, method)
    tp = spec.draft_tensor_parallel_size or deployment.tensor_parallel_size
    if method == "mtp" and spec.model is None:
        if not shape.draft_layers:
            raise _unknown(model, method)
        return Draft(model, shape, shape.draft_layers, tp)
    if method == "draft_model":
        layers = tuple(_renamed(group, "draft_model.", 0) for group in _of_last_stage(deployment, model, shape))
        return Draft(model, shape, layers, tp)
    if method in ("eagle", "eagle3"):
        first = _first_layer(deployment, method)
        return Draft(model, shape, tuple(_renamed(group, "", first) for group in shape.layers), tp)
    raise _unknown(model, method)


def _first_layer(deployment: Deployment, method: str) -> int:
    """Where the indices of an EAGLE draft begin: after the layers of the last stage, or of the whole model."""
    number = deployment.model.num_hidden_layers
    stages = deployment.pipeline_parallel_size
    if method == "eagle3" and facts("kv_cache", canonical(deployment.vllm))["draft"]["eagle3_follows_model"]:
        return number
    return len(stage_ranges(number, stages, deployment.env.get("VLLM_PP_LAYER_PARTITION"))[-1])


def _renamed(group: CacheLayers, prefix: str, first: int) -> CacheLayers:
    layers = tuple(first + index for index in group.layers)
    return group.model_copy(update={"name": f"{prefix}{group.name}", "layers": layers})


def _of_last_stage(deployment: Deployment, model: ModelShape, shape: CacheShape) -> tuple[CacheLayers, ...]:
    """A standalone draft was cut into the target's stages up to 0.29, and only the last stage loads it."""
    stages = deployment.pipeline_parallel_size
    if stages == 1 or not facts("pipeline", canonical(deployment.vllm))["speculative"]["draft_has_stages"]:
        return shape.layers
    number = shape.num_layers or model.num_hidden_layers
    kept = stage_ranges(number, stages, deployment.env.get("VLLM_PP_LAYER_PARTITION"))[-1]
    return tuple(
        group.model_copy(update={"layers": tuple(i for i in group.layers if i in kept)}) for group in shape.layers
    )


def _unknown(model: ModelShape, method: str) -> InputError:
    return InputError(
        f"what the {method} drafter of {model.architecture or 'the model'} keeps is not known to cgplan",
        code=UNKNOWN_LAYERS.code,
        where="speculative_config",
        fix="leave speculative_config out to size the cache of the model alone",
    )
