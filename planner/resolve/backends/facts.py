"""The attention backends of one release as small objects, made once from `releases/backends.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from ... import releases
from ...light_dataclass import dataclass

Capability = tuple[int, int]

SOURCES = "0.33.0"
"""The release that sources in backends.toml refer to, unless an entry names another."""


@dataclass(frozen=True, eq=False)
class Backend:
    """One attention backend: what it accepts and what decides its CUDA graph support.

    Attributes:
        enum: the name that --attention-backend takes.
        name: what get_name() gives.
        class_name: what vLLM's resolver logs.
        level: a support level, or the name of the rule that decides it (support.py).
        source: where the level is set, file:line of vLLM.
        kv: KV cache dtypes.
        blocks, block_multiple: kernel block sizes, tokens; a block size must be a multiple of one of them.
        traits: what it can do.
        imports: the package without which its module cannot be imported.
        rule: checks of its own (backend_checks.py).
        unavailable: why nobody can select it.
    """

    enum: str
    name: str
    class_name: str
    level: str
    source: str
    lowest: Capability | None
    highest: Capability | None
    majors: frozenset[int] | None
    only: frozenset[Capability] | None
    heads: tuple[int, ...]
    head_min: int
    dtypes: frozenset[str]
    kv: tuple[str, ...]
    blocks: tuple[int, ...]
    block_multiple: int | None
    traits: frozenset[str]
    attn_types: frozenset[str]
    imports: str | None
    platform: str
    rule: str
    unavailable: str | None

    def runs_on(self, capability: Capability) -> bool:
        if self.only is not None:
            return capability in self.only
        return (
            (self.majors is None or capability[0] in self.majors)
            and (self.lowest is None or capability >= self.lowest)
            and (self.highest is None or capability <= self.highest)
        )

    @property
    def capability_text(self) -> str:
        """The compute capabilities it runs on, for a message."""
        if self.only is not None:
            return " or ".join(f"{major}.{minor}" for major, minor in sorted(self.only))
        if self.majors is not None:
            return " or ".join(f"{major}.x" for major in sorted(self.majors))
        low = f"{self.lowest[0]}.{self.lowest[1]} or newer" if self.lowest else "any"
        return f"{low}, up to {self.highest[0]}.{self.highest[1]}" if self.highest else low

    def takes_block_size(self, block_size: int) -> bool:
        """Whether the kernel can serve pages of `block_size` tokens by splitting them."""
        if self.block_multiple is not None and block_size % self.block_multiple == 0:
            return True
        return any(block_size % size == 0 for size in self.blocks)


class Order(NamedTuple):
    """Candidates of the automatic selection, and when this order is used. None: does not matter."""

    mla: bool
    majors: tuple[int, ...] | None
    non_causal: bool | None
    mm_prefix: bool | None
    quantized_kv: bool | None
    max_heads: int | None
    head_size: int | None
    names: tuple[str, ...]


class ModelGroups(NamedTuple):
    """A model that picks attention classes itself."""

    attention: Mapping[str, str]
    aliases: Mapping[str, str]
    refused: tuple[str, ...]
    extra: tuple[tuple[str, str, str, str], ...]
    source: str


class Catalogue(NamedTuple):
    """Everything of backends.toml that holds for one release.

    `backends` are the members of the enum, `own` the classes of models that have no name there.
    """

    release: str
    backends: Mapping[str, Backend]
    own: Mapping[str, Backend]
    mamba: Mapping[str, Backend]
    mamba_of_model: Mapping[tuple[str, str], str]
    orders: tuple[Order, ...]
    settings: Mapping[str, frozenset[str]]
    models: Mapping[str, ModelGroups]


@cache
def catalogue(release: str) -> Catalogue:
    """The backends of `release`.

    Raises:
        InputError: the release is not supported.
    """
    release = releases.canonical(release)
    table = {topic: _at(entries, release) for topic, entries in releases.table("backends").items()}
    unchecked = frozenset(table["unchecked"]["traits"])
    backend = partial(_backend, release=release, kv_dtypes=table["kv_dtypes"], unchecked=unchecked)
    return Catalogue(
        release=release,
        backends={name: backend(name, entry) for name, entry in table["backend"].items()},
        own={name: backend(name, entry) for name, entry in table["own"].items()},
        mamba={name: backend(name, entry) for name, entry in table["mamba"].items()},
        mamba_of_model={
            (model, entry["replaces"]): name
            for name, entry in table["mamba"].items()
            for model in entry.get("models", ())
        },
        orders=tuple(_order(entry) for entry in table["order"]),
        settings={name: frozenset(models) for name, models in table["settings"].items()},
        models={
            architecture: _model(entry, release)
            for entry in table["model"].values()
            for architecture in entry["architectures"]
        },
    )


def _at(value: Any, release: str) -> Any:
    """`value` at `release`: histories become their value, and entries that do not hold are left out."""
    if isinstance(value, Mapping):
        return {key: _at(item, release) for key, item in value.items() if _holds(item, release)}
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], Mapping) and "value" in value[0]:
        return _at(releases.at(value, release), release)
    rows = (row for row in value if _holds(row, release))
    return [_at(row["item"] if isinstance(row, Mapping) and "item" in row else row, release) for row in rows]


def _holds(value: Any, release: str) -> bool:
    return not isinstance(value, Mapping) or releases.holds(release, value.get("since"), value.get("until"))


def _backend(
    enum: str,
    entry: Mapping[str, Any],
    *,
    release: str,
    kv_dtypes: Mapping[str, list[str]],
    unchecked: frozenset[str],
) -> Backend:
    capability = entry.get("capability", {})
    kv = entry.get("kv", "plain")
    blocks = tuple(entry.get("blocks", ()))
    return Backend(
        enum=enum,
        name=entry.get("name", enum),
        class_name=entry.get("class", ""),
        level=entry.get("level", "NEVER"),
        source=_source(entry, release),
        lowest=_pair(capability.get("min")),
        highest=_pair(capability.get("max")),
        majors=frozenset(capability["majors"]) if "majors" in capability else None,
        only=frozenset((a, b) for a, b in capability["only"]) if "only" in capability else None,
        heads=tuple(entry.get("heads", ())),
        head_min=entry.get("head_min", 0),
        dtypes=frozenset(entry.get("dtypes", ("float16", "bfloat16"))),
        kv=tuple(kv_dtypes[kv] if isinstance(kv, str) else kv),
        blocks=blocks,
        block_multiple=entry.get("block_multiple", None if blocks else 16),
        traits=(frozenset(entry.get("traits", ())) | unchecked) - {f"no_{trait}" for trait in unchecked},
        attn_types=frozenset(entry.get("attn_types", ("decoder",))),
        imports=entry.get("imports") or None,
        platform=entry.get("platform", "cuda"),
        rule=entry.get("rule", ""),
        unavailable=entry.get("unavailable"),
    )


def _source(entry: Mapping[str, Any], release: str) -> str:
    """Where the entry's facts stand, with the release cited where another one is asked for."""
    source: str = entry.get("source", "")
    if source and not source.startswith("vllm/"):
        source = f"vllm/v1/attention/backends/{source}"
    cited = entry.get("release", SOURCES)
    return source if not source or release == cited else f"{source} @ {cited}"


def _pair(value: list[int] | None) -> Capability | None:
    return (value[0], value[1]) if value else None


def _order(entry: Mapping[str, Any]) -> Order:
    return Order(
        mla=entry["mla"],
        majors=tuple(entry["majors"]) if "majors" in entry else None,
        non_causal=entry.get("non_causal"),
        mm_prefix=entry.get("mm_prefix"),
        quantized_kv=entry.get("quantized_kv"),
        max_heads=entry.get("max_heads"),
        head_size=entry.get("head_size"),
        names=tuple(entry["names"]),
    )


def _model(entry: Mapping[str, Any], release: str) -> ModelGroups:
    return ModelGroups(
        attention=entry.get("attention", {}),
        aliases=entry.get("aliases", {}),
        refused=tuple(entry.get("refused", ())),
        extra=tuple((c, n, level, kind) for c, n, level, kind in entry.get("extra", ())),
        source=_source(entry, release),
    )
