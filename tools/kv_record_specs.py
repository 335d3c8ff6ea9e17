"""Layers and specs as a golden KV record states them, in the order in which the workers report them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from cgplan.memory import kv_specs
from cgplan.memory.kv_specs import AttentionSpec, KVCacheSpec, MLAAttentionSpec, MultipleOf, SlidingWindowMLASpec
from cgplan.releases import holds

_OWN_NAMES = {"compress_ratio": "tokens_per_state"}
_LEFT_OUT = {"kind", "page_size_bytes", "real_page_size_bytes", "unpadded_page_size_bytes", "num_states", "inner"}


def spec_of(recorded: Mapping[str, Any], release: str) -> KVCacheSpec:
    """The spec that a record of `release` describes; fields that are None or False are left out there."""
    kind: type[KVCacheSpec] = getattr(kv_specs, recorded["kind"])
    known = kind.__dataclass_fields__
    values: dict[str, Any] = {}
    for key, value in recorded.items():
        name = _OWN_NAMES.get(key, key)
        if key not in _LEFT_OUT and name in known:
            values[name] = _value(name, value)
    if issubclass(kind, AttentionSpec):
        if holds(release, "0.31.0"):
            values["dcp_sharded"] = bool(recorded.get("dcp_sharded", False))
        if issubclass(kind, (MLAAttentionSpec, SlidingWindowMLASpec)):
            values["head_size_v"] = 0
    spec = kind(**values)
    if isinstance(spec, AttentionSpec) and "state_content_bytes" not in recorded:
        return _with_packing(spec, values, recorded)
    return spec


def _value(name: str, value: Any) -> Any:
    if name == "shapes":
        return tuple(tuple(shape) for shape in value)
    if name == "dtypes":
        return tuple(value)
    if name == "tokens_per_state" and isinstance(value, str):
        return Fraction(value)
    if name == "block_stride_alignment" and isinstance(value, str):
        return MultipleOf(int(re.findall(r"\d+", value)[0]))
    return value


def _with_packing(spec: AttentionSpec, values: dict[str, Any], recorded: Mapping[str, Any]) -> KVCacheSpec:
    """Older releases pack pages inside the class: the bytes of a state are worked out from the page."""
    page = recorded.get("unpadded_page_size_bytes")
    if page is None:
        page = recorded.get("real_page_size_bytes", recorded["page_size_bytes"])
    if "page_size_padded" not in recorded:
        page = recorded["page_size_bytes"]
    if spec.unpadded_page_size_bytes == page or spec.num_states == 0:
        return spec
    return type(spec)(**{**values, "state_content_bytes": page // (spec.num_heads * spec.num_states)})


def stages_of(output: Mapping[str, Any], stages: int, release: str) -> list[dict[str, KVCacheSpec]]:
    """By pipeline stage, layer name to spec."""
    found: list[list[tuple[tuple[Any, ...], str, KVCacheSpec]]] = [[] for _ in range(stages)]
    for entry, row in enumerate(output["specs"]):
        spec = spec_of(row["spec"], release)
        layers = sorted(_layers(row, entry))
        counts = row.get("n_layers_per_stage", [row["n_layers"]])
        start = 0
        for stage, count in enumerate(counts):
            found[stage] += [(key, name, spec) for key, name in layers[start : start + count]]
            start += count
    return [{name: spec for _, name, spec in sorted(stage, key=lambda item: item[0])} for stage in found]


def _layers(row: Mapping[str, Any], entry: int) -> Iterator[tuple[tuple[Any, ...], str]]:
    is_draft = bool(row["spec"].get("is_draft"))
    for place, (template, ranges) in enumerate(row["layers"].items()):
        later = is_draft or template.startswith(("draft", "mtp", "model.mtp"))
        if not ranges:
            yield (later, 0, entry, place), template
        for number in numbers(ranges):
            yield (later, number, entry, place), template.replace("{}", str(number))


def numbers(ranges: str) -> Iterator[int]:
    """The numbers of "0-2,5"."""
    for part in ranges.split(",") if ranges else ():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
