"""Selection of a backend for one layer: a named one is checked, else the first that fits is taken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ...errors import StartupError, shorten
from ...trace import Rule
from .checks import reasons
from .combinations import Reason
from .facts import Backend, Catalogue, catalogue
from .layer import Layer, is_quantized
from .nearest import nearest
from .support import Level

AUTOMATIC = Rule(
    code="CG301",
    title="Without --attention-backend the first candidate that fits the layers is taken.",
    why="The order puts the fastest backend for the GPU first; what a candidate lacks excludes it.",
    example="Llama 3.1 on an H100: FLASH_ATTN; on a B200: FLASHINFER.",
    instead="Give --attention-backend NAME; it is then checked in the same way.",
    source="vllm/platforms/cuda.py:84-182,377-518",
)
EXPLICIT_INVALID = Rule(
    code="CG302",
    title="An explicit attention backend that does not fit stops the start.",
    why="vLLM does not replace a backend that was asked for.",
    example="--attention-backend FLASHMLA on an A100: refused, it needs compute capability 9.x or 10.x.",
    instead="Use a backend that fits, or leave the choice to vLLM.",
    source="vllm/platforms/cuda.py:432-455",
)
NONE_VALID = Rule(
    code="CG303",
    title="No attention backend fits the layers, so vLLM does not start.",
    why="Each candidate lacks something that the model or a flag demands.",
    example="DeepSeek V3.2 on an A100: every sparse backend needs compute capability 9.0 or newer.",
    instead="Take back the flag that excludes the nearest candidate, which the finding names, or use another GPU.",
    source="vllm/platforms/cuda.py:476-480",
)
BLOCK_SIZE = Rule(
    code="CG308",
    title="--block-size excludes a backend that would come first.",
    why="A user's block size is a demand on the kernels; without it the size follows from the backend.",
    example="--block-size 8 on an H100: FLASH_ATTN takes multiples of 16 only.",
    instead="Leave --block-size out.",
    source="vllm/platforms/cuda.py:490-510",
)

EXPLICIT_ONLY = ("B12X", "HPC_ATTN")
"""Backends that are never taken automatically and may still be the remedy."""


class Selected(NamedTuple):
    """The backend for a layer, the candidates before it with the reasons against them, and why it was taken.

    `level` and `override` replace the backend's support level and class name, where the platform has its own.
    """

    backend: Backend
    rejected: tuple[tuple[str, tuple[Reason, ...]], ...] = ()
    why: str = ""
    level: Level | None = None
    override: str | None = None

    @property
    def class_name(self) -> str:
        return self.override or self.backend.class_name


@lru_cache(maxsize=8192)
def select(layer: Layer, name: str | None, release: str, unavailable: frozenset[str] = frozenset()) -> Selected:
    """The backend of `layer` on CUDA. `unavailable` are backends whose modules cannot be imported.

    Raises:
        StartupError: `name` does not fit (CG302), or nothing does (CG303).
    """
    facts = catalogue(release)
    if name is not None:
        backend = facts.backends[name]
        against = _against(backend, layer, unavailable)
        if against:
            raise _invalid(backend, against, layer, facts, unavailable)
        return Selected(backend, why=f"{name} was asked for and fits")
    rejected: list[tuple[str, tuple[Reason, ...]]] = []
    for backend in candidates(layer, facts):
        against = _against(backend, layer, unavailable)
        if not against:
            return Selected(backend, tuple(rejected), _why(backend, rejected))
        rejected.append((backend.enum, against))
    raise _none_valid(layer, rejected, facts)


def candidates(layer: Layer, facts: Catalogue) -> Iterator[Backend]:
    """The automatic selection's candidates for `layer`, best first."""
    quantized = is_quantized(layer, layer.kv_dtype)
    for order in facts.orders:
        if (
            order.mla == layer.mla
            and (order.majors is None or layer.capability[0] in order.majors)
            and order.non_causal in (None, layer.non_causal)
            and order.mm_prefix in (None, layer.mm_prefix)
            and order.quantized_kv in (None, quantized)
            and (order.max_heads is None or layer.num_heads <= order.max_heads)
            and order.head_size in (None, layer.head_size)
        ):
            return (facts.backends[name] for name in order.names if name in facts.backends)
    return iter(())


def only_block_size(against: tuple[Reason, ...]) -> bool:
    """Whether nothing but --block-size speaks against a backend."""
    return len(against) == 1 and against[0].kind == "block_size"


def _against(backend: Backend, layer: Layer, unavailable: frozenset[str]) -> tuple[Reason, ...]:
    if backend.enum in unavailable:
        return (Reason("unavailable", "its module cannot be imported"),)
    return reasons(backend, layer)


def _why(backend: Backend, rejected: list[tuple[str, tuple[Reason, ...]]]) -> str:
    if not rejected:
        return f"{backend.enum} is the first candidate and fits"
    passed = "; ".join(f"{name}: {against[0].text}" for name, against in rejected)
    return f"{backend.enum} is the first candidate that fits ({passed})"


def _invalid(
    backend: Backend, against: tuple[Reason, ...], layer: Layer, facts: Catalogue, unavailable: frozenset[str]
) -> StartupError:
    others = [*candidates(layer, facts), *(facts.backends[n] for n in EXPLICIT_ONLY if n in facts.backends)]
    valid = [other.enum for other in others if not _against(other, layer, unavailable)]
    named = ", ".join(valid)
    kind = against[0].kind
    return StartupError(
        f"attention backend {backend.enum} does not fit: {'; '.join(reason.text for reason in against)}",
        code="CG302",
        stage="attn_backend_selection",
        raised_as=kind.partition(":")[2] if kind.startswith("raises:") else "ValueError",
        raised_in="attention selector",
        where="--attention-backend",
        fix=f"use {named}, or leave the backend out" if valid else "no attention backend fits here",
    )


def _none_valid(layer: Layer, rejected: list[tuple[str, tuple[Reason, ...]]], facts: Catalogue) -> StartupError:
    kind = f"{'sparse ' if layer.sparse else ''}{'MLA ' if layer.mla else ''}attention"
    major, minor = layer.capability
    (backend, against), way = nearest(layer, [(facts.backends[name], against) for name, against in rejected])
    more = f"; to have it, {way}" if way is not None else ""
    return StartupError(
        f"no attention backend fits {kind} with head size {layer.head_size}, dtype {shorten(layer.dtype, 40)} and "
        f"KV cache dtype {shorten(layer.kv_dtype, 40)} on compute capability {major}.{minor}",
        code="CG303",
        stage="attn_backend_selection",
        raised_as="ValueError",
        raised_in="attention selector",
        where="--attention-backend",
        fix=f"the nearest is {backend.enum}, which lacks: {'; '.join(reason.text for reason in against)}{more}",
    )
