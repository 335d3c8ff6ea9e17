"""A whole kind of CUDA graphs that the plan has and the log lacks, and which of vLLM's rules may be why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve import Resolution, resolve
from ..sections import Gpu, SpeculativeOptions
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .deployment import RUNNER_VARIABLE, runner_of
from .known import argument, release_of
from .record import Start
from .rules import MISSING_KIND

KINDS = ("FULL", "PIECEWISE")
DRAFTS = 3
_LOSS = {
    ("FULL",): "every batch launches attention from the CPU",
    ("PIECEWISE",): "batches with a prefill run without graphs",
    KINDS: "every batch launches all its kernels from the CPU",
}


class Cause(NamedTuple):
    """What would explain it.

    Attributes:
        what: in words; code: of the rule of `resolve` behind it.
        fix: what undoes it.
        argument: of vLLM, that asks for it; "": none does.
        is_shown: the log has it; False: it does not, or leaves it open.
    """

    what: str
    code: str
    fix: str
    argument: str
    is_shown: bool = False


def counted(start: Start) -> dict[str, int] | None:
    """Graphs by kind where the log has all that were captured; None: it may have more than it shows."""
    bars = [bar for rank in start.ranks for bar in rank.captured] + list(start.captured)
    if any(rank.profiled for rank in start.ranks):
        return start.graphs  # One line names every kind.
    done = any(rank.graph_actual_bytes is not None for rank in start.ranks)
    if bars:
        return start.graphs if done or start.ready else None
    is_up = any(phase.name == "init engine" for phase in start.phases)
    has_memory = any(rank.kv_bytes is not None for rank in start.ranks)
    # Of a start that came up, and whose log has what is printed just before capture.
    return {} if is_up and has_memory and not done else None


def missing(start: Start, resolution: Resolution) -> dict[str, int]:
    """Kinds that the plan has graphs of and the log has none of, with how many are planned."""
    found = counted(start)
    if found is None:
        return {}
    planned = {kind: resolution.graph_count(CUDAGraphMode(kind)) for kind in KINDS}
    return {kind: count for kind, count in planned.items() if count and not found.get(kind)}


def finding_of(start: Start, deployment: Deployment, resolution: Resolution) -> Finding | None:
    """What to say of it; None: every planned kind is in the log, or the log does not say."""
    lacks = missing(start, resolution)
    if not lacks:
        return None
    planned = " and ".join(f"{count} {kind}" for kind, count in lacks.items())
    there = ", ".join(f"{count} {kind}" for kind, count in (counted(start) or {}).items() if kind in KINDS)
    text = f"{planned} graphs are planned, and the log has {f'{there} alone' if there else 'none at all'}"
    return _with_causes(start, deployment, tuple(lacks), "warning", text)


def without_plan(start: Start, gpu: Gpu | None) -> Finding | None:
    """The same by the defaults of the release, where no plan could be made; None: the log says why, or lacks none."""
    release = release_of(start)
    if release is None or start.platform_plugin is not None or not counted(start) or _names_a_mode(start):
        return None
    shown = {"V1": "0", "V2": "1"}.get(runner_of(start) or "")
    asked = Deployment(vllm=release, env={RUNNER_VARIABLE: shown} if shown is not None else {})
    if gpu is not None:
        asked = _with(asked, gpu=gpu)
    try:
        lacks = missing(start, resolve(asked))
    except CgplanError:
        return None
    if not lacks:
        return None
    # How many there would be is of a model and of arguments that are not known.
    there = ", ".join(f"{count} {kind}" for kind, count in (counted(start) or {}).items() if kind in KINDS)
    text = (
        f"the log has {there} graphs alone; by the defaults of {release} there are {' and '.join(lacks)} ones as well"
    )
    return _with_causes(start, asked, tuple(lacks), "info", text)


def _names_a_mode(start: Start) -> bool:
    config = argument(start, "compilation_config")
    asked = isinstance(config, Mapping) and config.get("cudagraph_mode") is not None
    return asked or start.cudagraph_mode is not None or bool(argument(start, "enforce_eager"))


def _with_causes(start: Start, deployment: Deployment, lacks: tuple[str, ...], severity: str, text: str) -> Finding:
    text += f", so {_LOSS[lacks]}"
    likely = list(causes(start, deployment, lacks))
    likely = [one for one in likely if one.is_shown] or likely
    if not likely:
        return Finding(MISSING_KIND.code, severity, text, MISSING_KIND.instead)
    said = "; ".join(f"{one.what}{'' if one.is_shown else _unsaid(start, one)} ({one.code})" for one in likely)
    fix = "; or ".join(dict.fromkeys(one.fix for one in likely))
    return Finding(MISSING_KIND.code, severity, f"{text}. Likely causes: {said}", fix)


def _unsaid(start: Start, cause: Cause) -> str:
    """That the log speaks against it, which does not rule it out where it has not all arguments."""
    return ", not among its arguments" if start.arguments and argument(start, cause.argument) is None else ""


def causes(start: Start, deployment: Deployment, lacks: tuple[str, ...]) -> Iterator[Cause]:
    """Each change of the deployment by which vLLM's rules leave out those kinds and no other; those that the log shows
    first."""
    found = [
        cause._replace(code=code)
        for cause, changed in _candidates(start, deployment)
        if (code := _code(start, changed, lacks)) is not None
    ]
    yield from sorted(found, key=lambda cause: not cause.is_shown)


def _code(start: Start, changed: Deployment, lacks: tuple[str, ...]) -> str | None:
    """The rule that leaves these kinds out of a deployment; None: none does, or the log has another runner."""
    try:
        made = resolve(changed)
    except CgplanError:
        return None
    graphs = {kind: made.graph_count(CUDAGraphMode(kind)) for kind in KINDS}
    if any(graphs[kind] for kind in lacks) or any(not graphs[kind] for kind in KINDS if kind not in lacks):
        return None
    if runner_of(start) not in (None, made.runner.value):
        return None
    return next((one.code for one in reversed(made.decisions) if one.field == "cudagraph_mode"), "CG202")


def _candidates(start: Start, deployment: Deployment) -> Iterator[tuple[Cause, Deployment]]:
    backends = {name.upper() for rank in start.ranks for name in rank.attention_backends}
    for mode in ("PIECEWISE", "FULL_DECODE_ONLY", "NONE"):
        config = deployment.compilation_config.model_copy(update={"cudagraph_mode": CUDAGraphMode(mode)})
        shown = start.cudagraph_mode == mode
        yield (
            Cause(
                f"a mode that was asked for, {mode}", "", f"drop -cc.cudagraph_mode={mode}", "compilation_config", shown
            ),
            _with(deployment, compilation_config=config),
        )
    yield (
        Cause("eager mode", "", "drop --enforce-eager", "enforce_eager", argument(start, "enforce_eager") is True),
        _with(deployment, enforce_eager=True),
    )
    drafts = deployment.speculative_config or SpeculativeOptions(method="ngram", num_speculative_tokens=DRAFTS)
    if not backends or "FLASHINFER" in backends:
        shown = "FLASHINFER" in backends and argument(start, "speculative_config") is not None
        fix = "with drafts, another --attention-backend than FLASHINFER"
        yield (
            Cause("speculative decoding on FlashInfer", "", fix, "speculative_config", shown),
            _with(deployment, attention_backend="FLASHINFER", speculative_config=drafts),
        )
    for name in sorted(backends):
        fix = f"another --attention-backend than {name}"
        cause = Cause(f"the attention backend of the log, {name}", "", fix, "attention_backend", True)
        yield cause, _with(deployment, attention_backend=name)
    if not deployment.enable_lora:
        yield Cause("LoRA", "", "drop --enable-lora", "enable_lora"), _with(deployment, enable_lora=True)
    if deployment.runner != "pooling":
        yield (
            Cause(
                "a pooling model",
                "",
                "nothing where it pools: such models have no FULL graphs",
                "runner",
                argument(start, "runner") == "pooling",
            ),
            _with(deployment, runner="pooling"),
        )
    if runner_of(start) is None:
        for name, value in (("V1", "0"), ("V2", "1")):
            fix = f"{RUNNER_VARIABLE}={1 - int(value)}"
            yield (
                Cause(f"runner {name}", "", fix, ""),
                _with(deployment, env={**deployment.env, RUNNER_VARIABLE: value}),
            )


def _with(deployment: Deployment, **changed: Any) -> Deployment:
    return deployment.model_copy(update=changed)
