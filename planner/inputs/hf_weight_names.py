"""How the matrices of a published checkpoint are stored by its name, where its config.json does not say.

ModelOpt writes the quantisation into hf_quant_config.json, which a catalogue of config.json files lacks.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..weight_shape import NOT_SAID, Part, QuantScheme, WeightShape
from .hf_node import ConfigNode

# What a published name calls a scheme: the first that is found counts.
_NAMED: tuple[tuple[str, QuantScheme], ...] = (
    ("nvfp4", QuantScheme(name="nvfp4", bits=4, group_columns=16, scale_bytes=1, is_certain=False)),
    ("mxfp4", QuantScheme(name="mxfp4", bits=4, group_columns=32, scale_bytes=1, is_certain=False)),
    ("w8a8|w8a16|int8|8-?bit", QuantScheme(name="int8", bits=8, is_certain=False)),
    (
        "awq|gptq|w4a16|w4a8|int4|4-?bit",
        QuantScheme(name="int4, groups of 128", bits=4, group_columns=128, scale_bytes=2, is_certain=False),
    ),
    ("fp8", QuantScheme(name="fp8", bits=8, is_certain=False)),
)
# Checkpoints whose name does not say it either; assumed to be stored as moonshotai/Kimi-K2.5, whose record says it.
_INT4_EXPERTS = ("moonshotai/kimi-k2-thinking",)


class NamedScheme(NamedTuple):
    """A scheme that a name speaks of, the parts of the model that it leaves out, and what is said of it."""

    scheme: QuantScheme
    left_out: tuple[Part, ...]
    unsure: str


def scheme_by_id(text: ConfigNode, name: str) -> NamedScheme | None:
    """The scheme that a published id, ORG/NAME, speaks of; a folder's name says nothing, its files would."""
    said = name.casefold()
    if said in _INT4_EXPERTS:
        scheme = QuantScheme(name="int4, groups of 32", bits=4, group_columns=32, scale_bytes=2, is_certain=False)
        unsure = f"{NOT_SAID}; int4 experts are assumed, as in Kimi-K2.5"
        return NamedScheme(scheme, ("attention", "mlp", "shared_expert"), unsure)
    if "/" not in said:
        return None
    state = any(key in text.raw for key in ("hybrid_override_pattern", "layers_block_type", "ssm_state_size"))
    return _scheme_by_name(said, state or text.get("kv_lora_rank") is not None)


def stored_by_name(weights: WeightShape, name: str, *, keeps_attention: bool) -> WeightShape | None:
    """The weights of the same model that is stored as `name` says; None: it does not say, or they are stored already
    in a way of their own.

    Args:
        weights: as the model was published.
        keeps_attention: the model compresses its attention, or has layers with a state beside it.
    """
    named = _scheme_by_name(name.casefold(), keeps_attention)
    if named is None or weights.schemes:
        return None
    parts = _QUANTISED.difference(named.left_out)
    matrices = tuple(
        matrix.model_copy(update={"scheme": 0}) if matrix.linear and matrix.layers and matrix.part in parts else matrix
        for matrix in weights.matrices
    )
    unsure = "; ".join(text for text in (named.unsure, weights.unsure) if text)
    return weights.model_copy(update={"matrices": matrices, "schemes": (named.scheme,), "unsure": unsure})


_QUANTISED = frozenset(("attention", "mixer", "mlp", "shared_expert", "experts"))
"""Parts whose projections are quantised where nothing else is said."""


def _scheme_by_name(said: str, keeps_attention: bool) -> NamedScheme | None:
    for spellings, scheme in _NAMED:
        if re.search(rf"[-_.](?:{spellings})(?=[-_.]|$)", said):
            # ModelOpt mostly leaves attention as it was that compresses, and that beside layers with a state.
            left_out: tuple[Part, ...] = ("attention", "mixer") if scheme.name == "nvfp4" and keeps_attention else ()
            return NamedScheme(scheme, left_out, f"{NOT_SAID}; its name says {scheme.name}")
    return None
