"""How the matrices of a checkpoint are quantised, read from its quantization_config.

Patterns of modules that are left out come from the file. They are compared as text with * for anything, never run as
regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..weight_shape import Part, QuantScheme
from .hf_node import ConfigNode
from .hf_weight_names import scheme_by_id

MAX_PATTERNS = 4000
"""Patterns that are looked at; published files have under 2,000."""

# What a pattern may call the module of each part, after the layer's number.
_STEMS: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn", "attn", "attention", "mixer"),
    "mixer": ("linear_attn", "mixer", "mamba", "self_attn", "conv"),
    "mlp": ("mlp", "feed_forward", "ffn", "mixer"),
    "shared_expert": (
        "mlp.shared_experts",
        "mlp.shared_expert",
        "ffn.shared_experts",
        "feed_forward.shared_expert",
        "mixer.shared_experts",
        "block_sparse_moe.shared_experts",
        "shared_mlp",
    ),
    "experts": (
        "mlp.experts.0",
        "mlp.experts",
        "ffn.experts.0",
        "ffn.experts",
        "block_sparse_moe.experts.0",
        "feed_forward.experts.0",
        "feed_forward.experts",
        "mixer.experts.0",
        "mixer.experts",
        "experts",
        "experts.0",
    ),
}
_LEAVES: Mapping[str, tuple[str, ...]] = {
    "gate_up_proj": ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3"),
    "up_proj": ("up_proj", "w1"),
    "down_proj": ("down_proj", "w2"),
    "in_proj_qkv": ("in_proj_qkv", "in_proj_qkvz", "in_proj_z"),
    "in_proj_ba": ("in_proj_ba", "in_proj_a", "in_proj_b"),
    "kv_a_proj_with_mqa": ("kv_a_proj_with_mqa", "kv_a_proj"),
    "wq_a": ("wq_a", "wkv", "fused_wqa_wkv"),
}


_GEMMA4_EXPERTS = ("moe.experts", "moe.experts.0", "experts", "experts.0")


class Schemes:
    """The schemes of a checkpoint, and which matrix is stored in which.

    Attributes:
        found: the schemes; a matrix names one by its index.
        unsure: what was assumed of them, or "".
    """

    def __init__(
        self,
        found: list[QuantScheme],
        ignored: Iterable[str] = (),
        named: Mapping[str, int] | None = None,
        unsure: str = "",
        experts: int | None = None,
        left_out: Iterable[Part] = (),
        expert_stems: tuple[str, ...] | None = None,
    ) -> None:
        self.found = found
        self._left_out = frozenset(left_out)
        self._expert_stems = expert_stems
        self.unsure = unsure
        self._experts = experts
        self._ignored = _ByLayer({text: 0 for pattern in list(ignored)[:MAX_PATTERNS] for text in _as_globs(pattern)})
        self._named = _ByLayer(named) if named else None
        self._answers: dict[tuple[str, Part, _Names, _Names], int | None] = {}

    @property
    def names_modules(self) -> bool:
        """The checkpoint names each module that is quantised, not those that are left out."""
        return self._named is not None

    def of(self, name: str, part: Part, layer: int | None) -> int | None:
        """The scheme of the matrix `name` of decoder layer `layer`; None: it is not quantised."""
        if part == "experts" and self._experts is not None:
            return self._experts
        own = self._ignored.of(layer)
        given = self._named.of(layer) if self._named is not None else frozenset()
        # Most layers are named alike.
        key = (name, part, own, given)
        if key not in self._answers:
            self._answers[key] = self._look(name, part, layer, own, given)
        return self._answers[key]

    def _look(self, name: str, part: Part, layer: int | None, own: _Names, given: _Names) -> int | None:
        stems = self._expert_stems if part == "experts" and self._expert_stems else _STEMS.get(part, ())
        candidates = _spellings(name, stems) if layer is not None else [name]
        if self._named is not None:
            names = dict(given)
            for text in candidates:
                for parent in _parents(text):
                    if parent in names:
                        return names[parent]
            return None
        if part not in _STEMS or part in self._left_out or any(_is_ignored(text, own) for text in candidates):
            return None
        return 0


_Names = frozenset[tuple[str, int]]


class _ByLayer:
    """Names of modules with a number each, by decoder layer: what stands after "layers.N."."""

    def __init__(self, names: Mapping[str, int]) -> None:
        own: dict[int, set[tuple[str, int]]] = {}
        self._all: set[tuple[str, int]] = set()
        for text, number in names.items():
            found = re.match(r"layers\.(\d{1,6}|\*)(\*?$|\.)", text)
            if found is None:
                self._all.add((text, number))
            elif found[1] == "*":
                self._all.add((text[found.end() :] or "*", number))
            else:
                own.setdefault(int(found[1]), set()).add((text[found.end() :] or "*", number))
        self._others: _Names = frozenset(self._all)
        self._own: dict[int, _Names] = {layer: frozenset(self._all | texts) for layer, texts in own.items()}

    def of(self, layer: int | None) -> _Names:
        return self._own.get(layer, self._others) if layer is not None else self._others


def _is_ignored(text: str, own: _Names) -> bool:
    parents = _parents(text)
    for pattern, _ in own:
        if "*" not in pattern:
            if pattern in parents:
                return True
        # A pattern that begins with * may name the layer as well.
        elif any(fnmatchcase(name, pattern) for parent in parents for name in (parent, f"layers.0.{parent}")):
            return True
    return False


def _parents(text: str) -> list[str]:
    """The module and those that hold it, from the inside out."""
    parts = text.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def read_schemes(root: ConfigNode, text: ConfigNode, name: str | None = None) -> Schemes:
    """The schemes of the checkpoint; none where it is not quantised."""
    config: Mapping[str, Any] | None = None
    for node in (root, text):
        for key in ("quantization_config", "compression_config"):
            config = config or node.mapping(key)
    if config is None:
        named = scheme_by_id(text, name or "")
        return Schemes([named.scheme], unsure=named.unsure, left_out=named.left_out) if named else Schemes([])
    inner = config.get("quantization")
    flat: Mapping[str, Any] = {**config, **inner} if isinstance(inner, dict) else config
    ignored = _texts(
        flat, "modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers", "llm_int8_skip_modules"
    )
    mixed = _mixed(flat)
    if mixed is not None:
        return Schemes(mixed[0], named=mixed[1])
    if root.model_type.startswith("deepseek_v4") and root.get("expert_dtype") == "fp4":
        experts = QuantScheme(name="fp4 experts", bits=4, group_columns=32, scale_bytes=1)
        return Schemes([scheme_of(flat, None), experts], experts=1)
    scheme = scheme_of(flat, name)
    if flat.get("quant_method") in ("mxfp4", "gpt_oss_mxfp4"):
        ignored = [*ignored, "*.mlp.gate_up_proj", "*.self_attn"]
    unsure = "" if scheme.is_certain else f"the checkpoint does not say its bits; {scheme.name} assumed"
    # Gemma 4 has an MLP beside the experts, and "mlp*" does not mean them: models/gemma4.py.
    stems = _GEMMA4_EXPERTS if text.model_type.startswith("gemma4") else None
    return Schemes([scheme], ignored, unsure=unsure, expert_stems=stems)


def scheme_of(config: Mapping[str, Any], name: str | None) -> QuantScheme:
    """The one scheme of `config`."""
    method = str(config.get("quant_method") or "").lower()
    algorithm = str(config.get("quant_algo") or "").upper()
    block = config.get("weight_block_size")
    if method in ("gptq", "awq", "auto_gptq", "auto_awq", "gptq_marlin", "awq_marlin", "inc", "auto-round"):
        bits, group = _number(config, "bits", 4), _number(config, "group_size", 128)
        zero = bits if "awq" in method or config.get("zero_point") else 0
        return QuantScheme(
            name=f"int{bits}, groups of {group}",
            bits=bits,
            group_columns=max(group, 0),
            scale_bytes=2,
            zero_bits=zero,
            is_certain="group_size" in config,
        )
    if method in ("mxfp4", "gpt_oss_mxfp4") or "mxfp4" in str(config.get("format")):
        return QuantScheme(name="mxfp4", bits=4, group_columns=32, scale_bytes=1)
    if "NVFP4" in algorithm or "nvfp4" in str(config.get("format")):
        return QuantScheme(name="nvfp4", bits=4, group_columns=_number(config, "group_size", 16), scale_bytes=1)
    if method == "bitsandbytes" and config.get("load_in_4bit", True):
        return QuantScheme(name="bitsandbytes nf4", bits=4, group_columns=64, scale_bytes=4)
    groups = config.get("config_groups")
    weights = [g.get("weights") for g in groups.values() if isinstance(g, dict)] if isinstance(groups, dict) else []
    first = next((w for w in weights if isinstance(w, dict)), None)
    if first is not None:
        return _of_group(first)
    if isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block):
        return QuantScheme(
            name=f"fp8, blocks of {block[0]} x {block[1]}", bits=8, group_rows=block[0], group_columns=block[1]
        )
    if method in ("fp8", "fbgemm_fp8", "modelopt", "modelopt_fp8") or "FP8" in algorithm:
        return QuantScheme(name="fp8", bits=8, group_rows=0)
    return _by_name(config, name)


def _of_group(weights: Mapping[str, Any]) -> QuantScheme:
    """llm-compressor: the weights of a config group."""
    bits = _number(weights, "num_bits", 8)
    kind = "fp" if weights.get("type") == "float" else "int"
    strategy, group = weights.get("strategy"), _number(weights, "group_size", 0)
    block = weights.get("block_structure")
    if strategy == "block" and isinstance(block, list) and len(block) == 2:
        rows, columns = (n if type(n) is int and n > 0 else 128 for n in block)
        return QuantScheme(
            name=f"{kind}{bits}, blocks of {rows} x {columns}", bits=bits, group_rows=rows, group_columns=columns
        )
    if group > 0:
        size = 1 if kind == "fp" and bits == 4 else 2
        return QuantScheme(name=f"{kind}{bits}, groups of {group}", bits=bits, group_columns=group, scale_bytes=size)
    return QuantScheme(name=f"{kind}{bits}", bits=bits, group_rows=0 if strategy == "tensor" else 1)


def _by_name(config: Mapping[str, Any], name: str | None) -> QuantScheme:
    """The bits that the model's name says; else 8, which is the commonest."""
    said = (name or "").lower()
    if "w4a16" in said or "int4" in said or "4bit" in said or _number(config, "bits", 0) == 4:
        return QuantScheme(name="int4, groups of 128", bits=4, group_columns=128, scale_bytes=2, is_certain=False)
    return QuantScheme(name="8 bits", bits=8, is_certain=False)


def _mixed(config: Mapping[str, Any]) -> tuple[list[QuantScheme], dict[str, int]] | None:
    """ModelOpt's mixed precision: each module by name; None where the checkpoint is of one kind."""
    layers = config.get("quantized_layers")
    if not isinstance(layers, dict) or config.get("quant_method") == "fp8":
        return None
    found: list[QuantScheme] = []
    named: dict[str, int] = {}
    for module, how in list(layers.items())[: 50 * MAX_PATTERNS]:
        if not isinstance(module, str) or not isinstance(how, dict):
            continue
        scheme = scheme_of({"quant_method": "modelopt", **how}, None)
        if scheme not in found:
            found.append(scheme)
        named[_tail(module)] = found.index(scheme)
    return (found, named) if found else None


def _spellings(name: str, stems: Iterable[str]) -> list[str]:
    """What a checkpoint may call the matrix, after its layer's number."""
    leaf = name.rpartition(".")[2]
    return [f"{stem}.{end}" for stem in stems for end in _LEAVES.get(leaf, (leaf,))]


def _tail(module: str) -> str:
    """A module's name from "layers." on; names differ in what stands before it."""
    at = module.find("layers.")
    return module[at:] if at >= 0 else module


def _as_globs(pattern: str) -> list[str]:
    """A pattern in which only * means anything, or several; () where it cannot be put that way."""
    if not pattern.startswith("re:"):
        return [_tail(pattern)]
    text = pattern[3:].strip("^$").replace(r"\.", ".").replace(".*", "*")
    choice = re.fullmatch(r"([^()]*)\(([^()]*)\)([^()]*)", text)
    variants = [f"{choice[1]}{word}{choice[3]}" for word in choice[2].split("|")] if choice else [text]
    plain = [v for v in variants if not re.search(r"[\[\]{}()?+|\\]", v)]
    return [_tail(v) if not v.startswith("*") else v for v in plain[:100]]


def _texts(config: Mapping[str, Any], *keys: str) -> list[str]:
    found: list[str] = []
    for key in keys:
        value = config.get(key)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, str) and len(item) < 300]
    return found


def _number(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key)
    return value if type(value) is int and -1 <= value <= 1 << 20 else default
