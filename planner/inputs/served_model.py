"""The model that a line names: its shape, or that of another one in its place, and what is said of that."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import InputError, nearest, shorten
from ..model_shape import ModelShape
from ..weight_shape import NOT_SAID
from .hf_weight_names import stored_by_name
from .model_family import of_the_family
from .safe_json import shown

_QUANTISED = re.compile(
    r"[-_.](?:unsloth|quantized|quant|dynamic|static|block|pertensor|perchannel|fp8|fp4|nvfp4|nvfp4a16|mxfp4|mxfp8|awq|gptq|"
    r"auto-?round|bnb|gguf|mlx|hqq|aqlm|inc|exl[23]|w[248]a(?:4|8|16)(?:-fp8)?|w[248]g[0-9]{2,4}|int[48]|[2-8]-?bit|"
    r"[0-9](?:\.[0-9]{1,3})?-?bpw|h[68]|bf16|fp16|gs?[0-9]{2,4}|(?:32|64|128|256)g|a?sym|mixed|"
    r"q[2-8](?:_[0-9k])?(?:_[sml])?)$",
    re.IGNORECASE,
)
"""Ends of a name that speak of how the weights are stored."""
_POOLS = re.compile(
    r"(?:^|(?<=[-_.]))(?:embedding|embed|embedder|bge|gte|e5|minilm|colbert)(?=[-_.0-9]|$)",
    re.IGNORECASE,
)
"""Words of a name that tell of a pooling model: vLLM serves it with --runner pooling by itself."""
_TASK = re.compile(r"[-_.](?:embedding|embed|reranker|rerank)(?=[-_.]|$)", re.IGNORECASE)
"""Words that are put into the name of the model that was trained on: Qwen3-Embedding-8B has the layers of Qwen3-8B."""
_ENDS = re.compile(r"\.(?:gguf|safetensors|json)$", re.IGNORECASE)
MOST_ENDS = 6


class NamedModel(NamedTuple):
    """What is known of the model that a line names.

    Attributes:
        name: as it was given, printable and short.
        shape: its shape, or what stands in for it.
        is_known: the shape is its own.
        like: the model of the catalogue whose shape stands in; None: a dense 8B decoder does, or none has to.
        near: models of the catalogue with a name much like it.
        is_relative: what stands in is another model of the same family and size, whose shape may differ.
    """

    name: str
    shape: ModelShape
    is_known: bool = True
    like: str | None = None
    near: tuple[str, ...] = ()
    is_relative: bool = False

    @property
    def instead(self) -> str:
        """The same with what it has in common with the model, as a part of a sentence."""
        pools = self.shape.runner_type == "pooling" and pools_by_name(self.name)
        said = [
            *(["of the same family and size"] if self.is_relative else []),
            *(["pooling by its name"] if pools else []),
        ]
        shape = self.stand_in if self.like is None else f"the shape of {self.like}"
        return f"{shape}, {' and '.join(said)}," if said else shape

    @property
    def stand_in(self) -> str:
        """What stands in for it, in words."""
        return self.like or "a dense 8B decoder"


def named_model(name: str, runner: str = "auto") -> NamedModel:
    """The model of that name: a path, or an id of the catalogue; else one that has its shape by its name, or a dense
    8B decoder.

    How weights are stored, which a name's end says, is little to CUDA graphs: Qwen3-8B-AWQ has the shape of Qwen3-8B.
    For memory they are counted as the name says, which is unsure; where it says nothing known, they are not.

    Raises:
        InputError: the model is here or in the catalogue, and its files cannot be used.
    """
    from .catalogue import load, load_model
    from .secret_shapes import hidden

    said = shorten(hidden(shown(name)), 80)
    try:
        return NamedModel(said, load_model(name, runner=runner))
    except InputError as error:
        if error.code not in ("CG910", "CG915"):
            raise
    except RuntimeError:  # ~NAME of a user who is not here
        pass
    like = _alike(name)
    is_relative = like is None
    pools = pools_by_name(name)
    if is_relative:
        like = _relative(name) or _trained_on(name)
    if pools and runner == "auto":
        runner = "pooling"
    try:
        shape = load(like, runner=runner) if like is not None else None
    except InputError:  # vLLM's registry lacks it
        shape = None
    if like is not None and shape is not None:
        short = _short(name).casefold()
        if _base(short) != short if is_relative else _short(like).casefold() != short:
            shape = _stored_as(shape, name)
        shape = _as_stand_in(shape, like, is_relative)
        return NamedModel(
            said, shape.model_copy(update={"name": said}), False, like, _near(name) if is_relative else (), is_relative
        )
    kind = "pooling" if runner == "pooling" else "generate"
    return NamedModel(said, ModelShape(name=said, runner_type=kind), False, None, _near(name))


def pools_by_name(name: str) -> bool:
    """Whether a name tells of an embedding model."""
    return _POOLS.search(_short(name)) is not None


def _stored_as(shape: ModelShape, name: str) -> ModelShape:
    """A shape without what depends on how the weights are stored, but for what the name says of it."""
    weights = None
    if shape.weights is not None and shape.quantization is None:
        states = any(kind != "GDN_ATTN" for kind in shape.mamba_backends)
        keeps = shape.kv_lora_rank is not None or states
        weights = stored_by_name(shape.weights, _short(name), keeps_attention=keeps)
    unknown = {"quantization": None, "is_nvfp4_quantized": False, "weight_block_quantized": False,
               "block_weights": None, "kv_cache_dtype": None, "weights": weights, "confidence": None}  # fmt: skip
    return shape.model_copy(update=unknown)


def _as_stand_in(shape: ModelShape, like: str, is_relative: bool) -> ModelShape:
    """The shape with weights that say whose they are, where the model's own may differ: quantised by others, or another
    model's."""
    weights = shape.weights
    if weights is None or not (weights.schemes or is_relative):
        return shape
    stored = NOT_SAID if weights.schemes and NOT_SAID not in weights.unsure else ""
    said = "; ".join(text for text in (stored, weights.unsure, f"those of {like} stand in") if text)
    return shape.model_copy(update={"weights": weights.model_copy(update={"unsure": said})})


def _alike(name: str) -> str | None:
    """The model of the catalogue that is the same but for its organisation and the storage of its weights."""
    from .catalogue import catalogue_names

    short = _short(name).casefold()
    by_short: dict[str, str] = {}
    by_base: dict[str, str] = {}
    for model_id in catalogue_names():
        own = _short(model_id).casefold()
        by_short.setdefault(own, model_id)
        base = _base(own)
        # One that is stored as published goes before its quantised forms.
        if base not in by_base or own == base:
            by_base[base] = model_id
    alike = by_base.get(_base(short))
    if alike is not None and _short(alike).casefold() == _base(short):
        # Another organisation's quantised form of the same name may be stored in another way.
        return alike
    return by_short.get(short) or alike


def _relative(name: str) -> str | None:
    """The model of the catalogue that is of the same family and size, stored as published."""
    from .catalogue import catalogue_names

    by_short = {_short(model_id): model_id for model_id in reversed(catalogue_names())}
    plain = [short for short in by_short if _base(short) == short]
    found = of_the_family(_base(_short(name)), plain)
    return by_short[found] if found is not None else None


def _trained_on(name: str) -> str | None:
    """The model whose layers an embedding model or a reranker has, by its name: Qwen3-8B of Qwen3-Embedding-8B."""
    short = _short(name)
    plain = _TASK.sub("", short)
    return _alike(plain) if plain != short else None


def _short(name: str) -> str:
    """A name without organisation or folder."""
    parts = [part for part in re.split(r"[\\/]|__", name) if part]
    return _ENDS.sub("", parts[-1]) if parts else ""


def _base(short: str) -> str:
    for _ in range(MOST_ENDS):
        cut = _QUANTISED.sub("", short)
        if cut in ("", short):
            break
        short = cut
    return short


def _near(name: str) -> tuple[str, ...]:
    from .catalogue import catalogue_names

    names = {_short(model_id): model_id for model_id in reversed(catalogue_names())}
    return tuple(names[short] for short in nearest(_base(_short(name)), names))
