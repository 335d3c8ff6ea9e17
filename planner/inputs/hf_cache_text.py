"""A config.json as the readers of cached layers see it: with the defaults that only they need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..cache_layers import CacheLayers
from ..releases import table
from .hf_dimensions import Dimensions
from .hf_node import ConfigNode, bad_value, checked_int


@cache
def _defaults(model_type: str) -> Mapping[str, Any]:
    text = table("kv_layers")["defaults"].get(model_type)
    found: dict[str, Any] = json.loads(text) if text is not None else {}
    return found


class CacheText:
    """The whole configuration, its language part and the sizes read from it.

    Attributes:
        window: of the sliding layers, tokens, or None.
        num_predict_layers: of the multi-token-prediction module, or None.
    """

    def __init__(
        self,
        root: ConfigNode,
        text: ConfigNode,
        sizes: Dimensions,
        window: int | None,
        num_predict_layers: int | None,
    ) -> None:
        self.root = root
        self.text = text
        self.sizes = sizes
        self.window = window
        self.num_predict_layers = num_predict_layers

    def get(self, key: str) -> Any:
        value = self.text.get(key)
        return _defaults(self.text.model_type).get(key) if value is None else value

    def integer(self, key: str) -> int:
        """The whole number of `key`, 0 where it is absent and has no default."""
        return checked_int(self.get(key), self.text.at(key)) or 0

    def needed(self, key: str) -> int:
        """The whole number of `key`, at least 1.

        Raises:
            InputError: CG912 it is absent and has no default.
        """
        value = self.get(key)
        if value is None:
            raise bad_value(self.text.at(key), "the key is missing", fix="give the model's own config.json, in full")
        number = checked_int(value, self.text.at(key), low=1)
        assert number is not None
        return number

    def layer_kinds(self) -> list[str]:
        """The kind of every layer, in today's names.

        Raises:
            InputError: CG912 too few are listed, or none where the class has no rule for them.
        """
        number = self.sizes.num_hidden_layers
        given = self.text.layer_types()
        if given is not None:
            if len(given) < number:
                raise bad_value(self.text.at("layer_types"), f"{number} entries expected, got {len(given)}")
            return given[:number]
        rule = self.text.defaults.get("@layers", "full")
        if rule == "sliding":
            return ["sliding_attention"] * number
        if isinstance(rule, int) and rule > 1:
            pattern = self.text.get("sliding_window_pattern")
            step = pattern if isinstance(pattern, int) and pattern > 0 else rule
            return ["full_attention" if (i + 1) % step == 0 else "sliding_attention" for i in range(number)]
        if rule != "full":
            raise bad_value(self.text.at("layer_types"), "the key is missing", fix="give the model's own config.json")
        if self.text.flag("use_sliding_window") and self.text.defaults.get("@window"):
            first = self.text.integer("max_window_layers") or 0
            return ["full_attention" if i < first else "sliding_attention" for i in range(number)]
        return ["full_attention"] * number

    def by_window(
        self, make: Callable[[tuple[int, ...], int | None], CacheLayers], sliding: Iterable[int]
    ) -> tuple[CacheLayers, ...]:
        """What `make` gives for the sliding layers and for the others, in order of their first layer."""
        slides = set(sliding)
        every = range(self.sizes.num_hidden_layers)
        groups = [
            (tuple(i for i in every if i in slides), self.window),
            (tuple(i for i in every if i not in slides), None),
        ]
        return tuple(make(layers, window) for layers, window in sorted(g for g in groups if g[0]))


def attention(
    given: CacheText, name: str, layers: Sequence[int], *, window: int | None = None, chunk: int | None = None
) -> CacheLayers:
    """Attention layers of the model's own heads."""
    return CacheLayers(
        name=name,
        layers=tuple(layers),
        num_heads=given.sizes.num_attention_heads,
        num_kv_heads=given.sizes.num_kv_heads,
        head_size=given.sizes.head_size,
        sliding_window=window,
        attention_chunk_size=chunk,
    )
