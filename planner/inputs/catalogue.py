"""Published models whose config.json is shipped with cgplan, so that a name is enough.

The file releases/models.json.gz is made by tools/build_catalogue.py and read only when a model is asked for by name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from .. import releases
from ..errors import InputError, cannot_read, nearest, shorten
from ..model_shape import ModelShape
from ..weight_shape import PLAIN_TOWER, Matrix, WeightShape
from .hf_architecture import registry
from .hf_config import read_config, shape_of
from .safe_json import exists, shown

_GRANITE_LAYERS = tuple("attention" if i % 10 == 5 else "mamba" for i in range(40))
_COMPLETED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "ibm-granite/granite-4.0-h-1b": (
        {"shared_intermediate_size": 4096, "num_local_experts": 0, "tie_word_embeddings": True},
        "no experts and a tied head are assumed; the width of the MLP is worked out from the number of parameters",
    ),
    "ibm-granite/granite-4.0-h-small": (
        {"layer_types": list(_GRANITE_LAYERS), "max_position_embeddings": 131072},
        "where its 4 attention layers stand, and its length, are taken from granite-4.0-h-1b",
    ),
    "Qwen/Qwen3.5-4B": (
        {
            "tie_word_embeddings": True,
            "vision_config": {
                "model_type": "qwen3_5",
                "deepstack_visual_indexes": [],
                "depth": 24,
                "hidden_act": "gelu_pytorch_tanh",
                "hidden_size": 1024,
                "in_channels": 3,
                "intermediate_size": 4096,
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 2560,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            },
            "text_config": {
                "rope_parameters": {
                    "mrope_interleaved": True,
                    "mrope_section": [11, 11, 10],
                    "partial_rotary_factor": 0.25,
                    "rope_theta": 10000000,
                    "rope_type": "default",
                }
            },
        },
        "a tied head and a vision tower of 24 layers of 1024 are worked out from the number of parameters",
    ),
    "Qwen/Qwen3.8-27B": (
        {"text_config": {"mtp_num_hidden_layers": 1}},
        "its one MTP layer is taken from Qwen3.6-27B, whose layers are the same; the parameters are then its own",
    ),
}
"""Keys that a record lacks and Transformers would fill with another model's, and what they rest on. With them the
parameters are those of the checkpoint, to 0.1 %. They fill what is missing, at any depth, and replace nothing."""

_BESIDE: Mapping[str, tuple[str, int, str]] = {
    "google/gemma-4-E4B-it": (
        "audio_tower",
        364_000_000,
        "the audio tower is what the number of parameters leaves for it",
    ),
}
"""Parameters that a record says nothing of: name, number, and what they rest on."""


class CatalogueEntry(NamedTuple):
    """One line of the catalogue.

    Attributes:
        model_id: as on the Hugging Face Hub, "Qwen/Qwen3-8B".
        architecture: the first one of its config.json.
        served: vLLM knows one of its architectures; the registry of the newest release is looked at.
        params: parameters, or None where unknown. Of a quantised checkpoint it counts scales too.
        weights: what is known of the size of the weights, or "".
        dtype: data type and quantisation of the checkpoint, in words.
        attention: kind of attention, in words.
        confidence: what the shape rests on.
        source: where the config.json was found, and what is not as published.
    """

    model_id: str
    architecture: str
    served: bool
    params: int | None
    weights: str
    dtype: str
    attention: str
    confidence: str
    source: str


def catalogue_ids() -> list[CatalogueEntry]:
    """Every model of the catalogue, by id; no shape is worked out."""
    return [_entry(model_id, record) for model_id, record in _catalogue().items()]


def catalogue_names() -> tuple[str, ...]:
    """The ids of the catalogue, in its order."""
    return tuple(_catalogue())


def load(model_id: str, *, runner: str = "auto", completed: bool = True) -> ModelShape:
    """The shape of a model of the catalogue.

    Args:
        model_id: "Qwen/Qwen3-8B" or "Qwen__Qwen3-8B", in any case.
        runner: `--runner`: auto, generate, pooling or draft.
        completed: with keys that the record lacks and the checkpoint has; False: what vLLM would make of the record.

    Raises:
        InputError: CG915 there is no such model; the nearest ids are named.
    """
    known = _by_folded_id().get(_fold(model_id))
    if known is None:
        raise _unknown(model_id)
    return _shape(known, runner, completed)


@lru_cache(maxsize=64)  # a folder of manifests names the same few models again and again; shapes are frozen
def _shape(known: str, runner: str, completed: bool) -> ModelShape:
    record = _catalogue()[known]
    added, why = _COMPLETED.get(known, ({}, "")) if completed else ({}, "")
    shape = shape_of(_filled(_config(record), added), name=known, runner=runner, where=known)
    update: dict[str, Any] = {"confidence": record["confidence"] or None}
    weights = shape.weights
    if why and weights is not None:
        weights = weights.model_copy(update={"unsure": why})
    if completed and weights is not None and known in _BESIDE:
        name, parameters, why = _BESIDE[known]
        beside = Matrix(name=name, part="vision", rows=parameters)
        said = "; ".join(text for text in (weights.unsure, why) if text)
        weights = weights.model_copy(update={"matrices": (*weights.matrices, beside), "unsure": said})
    if weights is not None and weights.unsure == PLAIN_TOWER and _is_whole(weights, record.get("params")):
        # The number of parameters says that the tower was counted right.
        weights = weights.model_copy(update={"unsure": ""})
    return shape.model_copy(update={**update, "weights": weights})


def _is_whole(weights: WeightShape, params: object) -> bool:
    """Whether the matrices are all that the checkpoint holds, to a third of its vision tower."""
    if not isinstance(params, int) or weights.schemes:
        return False  # scales count among the parameters
    counted = [
        (matrix.part, matrix.count * matrix.rows * matrix.columns * max(1, len(matrix.layers)))
        for matrix in (*weights.matrices, *weights.draft)
    ]
    tower = sum(size for part, size in counted if part == "vision")
    return abs(sum(size for _, size in counted) - params) * 3 <= tower


def _filled(config: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with the keys of `added` that it lacks, at any depth."""
    filled = {**added, **config}
    for key, value in added.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            filled[key] = _filled(config[key], value)
    return filled


def load_model(text: str, *, runner: str = "auto") -> ModelShape:
    """The shape of what a user calls a model: a path, or an id of `cgplan models`. A path that exists wins.

    Raises:
        InputError: CG910 to CG914 the file cannot be used, CG915 there is no such model.
    """
    if not isinstance(text, str):
        raise InputError(
            f"a model is a path or an id, a text, not {type(text).__name__}",
            code="CG915",
            where="--model",
            fix="give a path to its config.json, or an id of `cgplan models`",
        )
    path = _path(text)
    if text and exists(path):
        return read_config(path, runner=runner)
    if _fold(text) in _by_folded_id():
        return load(text, runner=runner)
    if _looks_like_path(text):
        raise cannot_read(
            FileNotFoundError(), shown(text), "give the model's directory, its config.json, or an id of `cgplan models`"
        )
    raise _unknown(text)


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser() if text.startswith("~") else Path(text)
    except (RuntimeError, ValueError):
        return Path(text)  # the system knows no such user


def _looks_like_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~", ".\\")) or text.endswith((".json", "/")) or text.count("/") > 1


def _unknown(text: str) -> InputError:
    near = nearest(text, _catalogue()) or nearest(text.rpartition("/")[2], _short_names())
    by_short = _short_names()
    names = [by_short.get(name, name) for name in near]
    return InputError(
        f"model {shorten(shown(text), 80)!r} is neither a path nor in the catalogue",
        code="CG915",
        where="model",
        fix=f"did you mean {' or '.join(names)}? `cgplan models` lists all"
        if names
        else "give the path of its config.json; `cgplan models` lists the names",
    )


def _entry(model_id: str, record: Mapping[str, Any]) -> CatalogueEntry:
    architectures = _config(record).get("architectures") or [""]
    return CatalogueEntry(
        model_id=model_id,
        architecture=architectures[0],
        served=any(name in registry().known for name in architectures),
        **{field: record[field] for field in ("params", "weights", "dtype", "attention", "confidence", "source")},
    )


def _config(record: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a record, which is kept as text: all but one of them are not asked for."""
    config: dict[str, Any] = json.loads(record["config"])
    return config


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    packed = (files(releases) / "models.json.gz").read_bytes()
    models: dict[str, dict[str, Any]] = json.loads(gzip.decompress(packed))["models"]
    return models


@cache
def _by_folded_id() -> dict[str, str]:
    return {_fold(model_id): model_id for model_id in _catalogue()}


@cache
def _short_names() -> dict[str, str]:
    return {model_id.partition("/")[2]: model_id for model_id in _catalogue()}


def _fold(model_id: str) -> str:
    return model_id.casefold().replace("__", "/", 1)
