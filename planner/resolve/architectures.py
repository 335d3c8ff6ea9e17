"""Whether the release knows the model's architecture.

Source: vllm/model_executor/models/registry.py of each release.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..errors import StartupError
from ..releases import SUPPORTED, holds, table
from ..trace import Rule

if TYPE_CHECKING:
    from ..deployment import Deployment
    from .engine import Engine

LATER = Rule(
    "CG137",
    title="A release serves the architectures of its registry.",
    why="The model's code came with a later release.",
    example="KimiK3ForConditionalGeneration on 0.26.0 does not start; 0.27.1 has it.",
    instead="Use the release named, or a later one.",
    source="vllm/model_executor/models/registry.py:73-837",
)
LEFT = Rule(
    "CG140",
    title="A model whose class has left vLLM does not start, until 0.29 even where Transformers could serve it.",
    why="The registry remembered what it once had before it looked for a stand-in.",
    example="BambaForCausalLM on 0.24.0 to 0.29.0 does not start.",
    instead="Use the last release that had it, or 0.30.0 and later.",
    source="vllm/model_executor/models/registry.py, _PREVIOUSLY_SUPPORTED_MODELS",
    release="0.29.0",
    until="0.29.0",
)
NO_PIPELINE = Rule(
    "CG616",
    title="Pipeline parallelism needs a model, and until 0.29 a draft, whose class can be cut into stages.",
    why="Only classes that implement SupportsPP hand hidden states on; EAGLE drafts do not.",
    example="Whisper with --pipeline-parallel-size 2; EAGLE drafts with it, until 0.29: neither starts.",
    instead="Use tensor parallelism, or drop the drafts.",
    source="vllm/config/model.py:1566-1577",
)
NO_LORA = Rule(
    "CG430",
    title="LoRA needs a model whose class supports it.",
    why="The class says which of its layers take adapters.",
    example="--enable-lora with Mamba2ForCausalLM does not start.",
    instead="Drop --enable-lora.",
    source="vllm/config/lora.py:147-155",
    since="0.33.0",
)

DRAFTS_WITHOUT_STAGES = ("eagle", "eagle3", "mtp")
"""An MTP draft is asked for here only where its class has no stages."""


STAGES_CAME = {"DeepseekV4ForCausalLM": "0.21.0"}
"""Classes that could not be cut into stages when they came, and the first release in which they can."""


def check_pipeline(architecture: str, stages: int, method: str | None = None, release: str | None = None) -> None:
    """ModelConfig.verify_with_parallel_config: of the target, or of the draft that `method` makes of it."""
    if stages <= 1:
        return
    since = STAGES_CAME.get(architecture)
    too_early = since is not None and release is not None and not holds(release, since)
    if method not in DRAFTS_WITHOUT_STAGES and architecture not in _unsupported("pipeline_parallel") and not too_early:
        return
    what = architecture if method is None else f"the {method} draft"
    raise StartupError(
        f"pipeline parallelism does not work with {what}",
        code=NO_PIPELINE.code,
        raised_as="NotImplementedError",
        raised_in="ModelConfig",
        where="--pipeline-parallel-size",
        fix=NO_PIPELINE.instead,
    )


def check_lora(engine: Engine) -> None:
    """LoRAConfig.verify_with_model_config."""
    architecture = engine.deployment.model.architecture
    if engine.has(NO_LORA) and engine.max_loras is not None and architecture in _unsupported("lora"):
        raise StartupError(
            f"LoRA does not work with {architecture}",
            code=NO_LORA.code,
            where="--enable-lora",
            fix=NO_LORA.instead,
        )


@cache
def _unsupported(what: str) -> frozenset[str]:
    return frozenset(table("architectures")["unsupported"][what].split())


def as_of(deployment: Deployment, release: str) -> Deployment:
    """`deployment` with its model as `release` sees it.

    A model shape is read with the newest registry. A hybrid model that has left it is served by Transformers there,
    which does not say that it is hybrid; the release that still had its class does.
    """
    model = deployment.model
    last = _native_hybrids().get(model.architecture)
    if last is None or model.is_hybrid or not holds(release, None, last):
        return deployment
    return deployment.model_copy(update={"model": model.model_copy(update={"is_hybrid": True})})


def check(engine: Engine) -> None:
    """Refuse a model that has left."""
    if engine.release != SUPPORTED[-1]:
        _check_left(engine)


def check_later(engine: Engine) -> None:
    """Refuse a model all of whose architectures came later.

    An architecture that no release names is let through: it may be served by Transformers, or be a plugin's. That is
    why vLLM looks at the parallel sizes first: with a Transformers that knows the model it gets that far.
    """
    if engine.release == SUPPORTED[-1]:
        return
    came = [first_release(name) for name in engine.deployment.model.architectures]
    later = [release for release in came if release is not None and not holds(engine.release, release)]
    if came and len(later) == len(came):
        name = engine.deployment.model.architecture
        raise StartupError(
            f"architecture {name} came with vLLM {later[0]}; this is {engine.release}",
            code=LATER.code,
            raised_in="ModelConfig",
            where="--model",
            fix=f"use --vllm {later[0]} or later",
        )


def _check_left(engine: Engine) -> None:
    """Until 0.29 a model that had left was refused, even where Transformers could have served it."""
    if not engine.has(LEFT):
        return
    for name in engine.deployment.model.architectures:
        last = _last().get(name)
        if last is not None and not holds(engine.release, None, last):
            raise StartupError(
                f"architecture {name} left vLLM after {last}; this is {engine.release}",
                code=LEFT.code,
                raised_in="ModelConfig",
                where="--model",
                fix=f"use --vllm {last}, or 0.30.0 and later with the Transformers backend",
            )


def first_release(architecture: str) -> str | None:
    """The release that brought `architecture`; None: the first one known, or none at all."""
    return _first().get(architecture)


@cache
def _last() -> dict[str, str]:
    """The last release that had an architecture's own class, by architecture."""
    removed = table("architectures")["removed"]
    return {name: release for release, names in removed.items() for name in names.split()}


@cache
def _native_hybrids() -> dict[str, str]:
    return {name: _last()[name] for name in table("architectures")["left_hybrids"]["names"].split()}


@cache
def _first() -> dict[str, str]:
    releases = table("architecture_releases")["first"]
    return {name: release for release, names in releases.items() for name in names.split()}
