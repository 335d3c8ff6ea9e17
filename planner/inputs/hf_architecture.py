"""Which model class vLLM picks for the architectures of a config.json, and what that class can do.

Follows vllm/model_executor/models/registry.py:1182-1400 and vllm/config/model.py:1283-1381 at 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from ..errors import InputError, nearest, shorten
from ..light_dataclass import dataclass
from ..releases import table

# config/model.py:2336-2357: the first ending that fits decides.
_ENDINGS = (
    ("ForCausalLM", "generate", "none"),
    ("ForConditionalGeneration", "generate", "none"),
    ("ChatModel", "generate", "none"),
    ("LMHeadModel", "generate", "none"),
    ("ForTextEncoding", "pooling", "embed"),
    ("EmbeddingModel", "pooling", "embed"),
    ("ForSequenceClassification", "pooling", "classify"),
    ("ForTokenClassification", "pooling", "classify"),
    ("ForAudioClassification", "pooling", "classify"),
    ("ForImageClassification", "pooling", "classify"),
    ("ForVideoClassification", "pooling", "classify"),
    ("ClassificationModel", "pooling", "classify"),
    ("ForRewardModeling", "pooling", "embed"),
    ("RewardModel", "pooling", "embed"),
    ("Model", "pooling", "embed"),
)


@dataclass(frozen=True)
class Registry:
    """The architecture lists of the release, as sets."""

    known: frozenset[str]
    generates: frozenset[str]
    pools: frozenset[str]
    flags: dict[str, frozenset[str]]
    transformers: frozenset[str]

    def has(self, flag: str, name: str) -> bool:
        return name in self.flags[flag]


@cache
def registry() -> Registry:
    data = table("architectures")
    lists = {key: frozenset(names.split()) for key, names in data["registry"].items()}
    return Registry(
        known=frozenset().union(*lists.values()),
        generates=lists["generate"] | lists["both"] | lists["draft"],
        pools=lists["pooling"] | lists["both"],
        flags={key: frozenset(names.split()) for key, names in data["flags"].items()},
        transformers=frozenset(data["transformers"]["language_models"].split()),
    )


class Resolved(NamedTuple):
    """`architecture` is the name of config.json that decided; `model_class` the registry's entry that serves it."""

    architecture: str
    model_class: str
    runner_type: str
    convert_type: str
    transformers_backend: bool

    def has(self, flag: str) -> bool:
        return registry().has(flag, self.model_class)


def resolve(
    architectures: Sequence[str],
    *,
    runner: str,
    nested: bool,
    is_moe: bool,
    sentence_transformer: bool,
    where: str = "config.json",
) -> Resolved:
    """The model class and the runner for `architectures`.

    Args:
        runner: `--runner`: auto, generate, pooling or draft.
        nested: the language model is a part of the configuration (multimodal).
        sentence_transformer: there is a modules.json beside config.json.
        where: how errors name the configuration.

    Raises:
        InputError: CG913 vLLM knows none of them; CG912 the runner does not fit the model.
    """
    backend = _backend_class(architectures, runner, nested, is_moe)
    first = _inspect(architectures, None, "none", backend, where)
    runner_type = runner
    if runner == "auto":
        runner_type = "pooling" if sentence_transformer else _default_runner(architectures, first[1])
    convert_type = _default_convert(architectures, runner_type, first[1])
    name, model_class = _inspect(architectures, runner_type, convert_type, backend, where)
    _check_runner(runner_type, convert_type, first[1])
    served_by_backend = model_class.startswith("Transformers") or registry().has("transformers_backend", model_class)
    return Resolved(name, model_class, runner_type, convert_type, served_by_backend)


def _ending(name: str, runner_type: str | None = None, convert_type: str | None = None) -> tuple[str, str, str] | None:
    for ending, runner, convert in _ENDINGS:
        if runner_type in (None, runner) and convert_type in (None, convert) and name.endswith(ending):
            return ending, runner, convert
    return None


def _backend_class(architectures: Sequence[str], runner: str, nested: bool, is_moe: bool) -> str:
    """The Transformers backend's class, config/model.py:1129-1157."""
    match = _ending(architectures[0]) if architectures else None
    wanted, task = (match[1], match[2]) if match else (None, None)
    if runner != "auto":
        wanted = runner
    kind = ("MultiModal" if nested else "") + ("MoE" if is_moe else "")
    if wanted == "pooling" and task == "embed":
        return f"Transformers{kind}EmbeddingModel"
    if wanted == "pooling" and task == "classify":
        return f"Transformers{kind}ForSequenceClassification"
    return f"Transformers{kind}ForCausalLM"


def _inspect(
    architectures: Sequence[str], runner_type: str | None, convert_type: str, backend: str, where: str
) -> tuple[str, str]:
    """The deciding name and the registry's entry, registry.py:1286-1336."""
    known = registry().known
    none_known = bool(architectures) and all(name not in known for name in architectures)
    by_backend = none_known and architectures[0] in registry().transformers and backend in known
    if by_backend and convert_type == "none":
        return backend, backend
    for name in architectures:
        entry = _normalised(name, runner_type, None if runner_type is None else convert_type)
        if entry in known:
            return name, entry
    if by_backend:
        return backend, backend
    raise _unknown(architectures, where)


def _normalised(name: str, runner_type: str | None, convert_type: str | None) -> str:
    """`name`, or its base model when only that is registered (registry.py:1260-1284)."""
    known = registry().known
    if name in known:
        return name
    match = _ending(name, runner_type, convert_type)
    if match:
        for other, _, _ in _ENDINGS:
            base = name.replace(match[0], other)
            if base in known:
                return base
    return name


def _default_runner(architectures: Sequence[str], model_class: str) -> str:
    for name in architectures:
        if name in registry().known:
            if model_class in registry().pools:
                return "pooling"
            if model_class in registry().generates:
                return "generate"
        match = _ending(name)
        if match:
            return match[1]
    return "generate"


def _default_convert(architectures: Sequence[str], runner_type: str, model_class: str) -> str:
    for name in architectures:
        if name in registry().known:
            if runner_type == "generate" and model_class in registry().generates:
                return "none"
            if runner_type == "pooling" and model_class in registry().pools:
                return "none"
        match = _ending(name, runner_type)
        if match:
            return match[2]
    return "embed" if runner_type == "pooling" else "none"


def _check_runner(runner_type: str, convert_type: str, model_class: str) -> None:
    generates, pools = model_class in registry().generates, model_class in registry().pools
    refused = (pools and not generates and runner_type in ("draft", "generate")) or (
        runner_type == "generate" and not generates
    )
    if refused or (runner_type == "pooling" and not pools and convert_type not in ("embed", "classify")):
        raise InputError(
            f"{model_class} does not support --runner {shorten(runner_type, 20)}",
            code="CG912",
            where="--runner",
            fix="leave --runner at auto",
        )


def _unknown(architectures: Sequence[str], file: str) -> InputError:
    where = f"{file}: architectures"
    if not architectures:
        return InputError(
            "no architecture is named, and the model type has no default one",
            code="CG913",
            where=where,
            fix='add "architectures": ["..."] to it',
        )
    data: Any = table("architectures")
    for name in architectures:
        for release, names in data["removed"].items():
            if name in names.split():
                fix = f"use vLLM {release} or another model"
                return InputError(f"architecture {name} left vLLM after {release}", code="CG913", where=where, fix=fix)
        for url, names in data["plugins"].items():
            if name in names.split():
                return InputError(
                    f"architecture {name} needs a plugin of vLLM", code="CG913", where=where, fix=f"see {url}"
                )
    name = architectures[0]
    # Of two spellings the one with fewer capitals is the usual one.
    known = sorted(registry().known, key=lambda known: (sum(map(str.isupper, known)), known))
    near = _near(name, known)
    return InputError(
        f"architecture {shorten(name, 60)} is not known to vLLM (the registry of 0.33.0 was looked at)",
        code="CG913",
        where=where,
        fix=f"nearest known: {', '.join(near)}" if near else "give a model of an architecture that vLLM knows",
    )


def _near(name: str, known: Sequence[str]) -> list[str]:
    """The names most like `name`; a common ending says nothing."""
    stems: dict[str, list[str]] = {}
    for item in known:
        stems.setdefault(_stem(item), []).append(item)
    found = [item for stem in nearest(_stem(name), stems) for item in stems[stem]]
    match = _ending(name)
    return sorted(found, key=lambda item: match is None or not item.endswith(match[0]))[:3]


def _stem(name: str) -> str:
    match = _ending(name)
    return name.removesuffix(match[0]) if match else name
