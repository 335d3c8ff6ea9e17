"""What one launch asks for: its line parsed as vLLM of its release parses it, and the deployment of it.

Where vLLM refuses an option, the line is read again without it, so that one fault does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...deployment import LATEST
from ...errors import CgplanError, InputError, StartupError, shorten
from ...model_shape import ModelShape
from ...releases import canonical, nearest
from ...sections import Gpu, Software
from ..serve_args import ServeArgs, parse_serve
from ..serve_args_deployment import ServedDeployment, to_deployment
from ..serve_args_errors import ArgumentRefused
from ..serve_args_tokens import Place
from .launch import Launch, Source, Span

MAX_REFUSALS = 20
"""Options that a line is read again without."""

DROPPABLE = ("unrecognized", "ambiguous", "missing_value", "flag_takes_no_value", "invalid_choice", "invalid_value",
             "config_invalid")  # fmt: skip
"""Refusals that one option is to blame for."""


STARTED_HERE = ("line", "shell", "systemd", "config")
"""Kinds of launches that may well start where cgplan runs; containers start elsewhere."""


class Context(NamedTuple):
    """What the user says beside the file. None: as the file says, else assumed.

    Attributes:
        release: of vLLM, canonical.
        gpu, gpus_per_node, software, model: where and what runs.
        env: variables beside those of the file.
        settings: fields of Deployment that take the place of the line's.
        gpu_memory: memory of the GPU, bytes, where it differs from that of its kind.
        here: gives the GPU of this machine and their number, or None. It is asked where neither the user nor the file
            names a GPU, for a server that starts on this kind of machine (STARTED_HERE).
        assumptions, ignored: what the user's own options assume, and which of them are not modelled; one line each.
    """

    release: str | None = None
    gpu: Gpu | None = None
    gpus_per_node: int | None = None
    software: Software | None = None
    model: ModelShape | None = None
    env: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    gpu_memory: int | None = None
    here: Callable[[], tuple[Gpu, int] | None] | None = None
    assumptions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


NOTHING_SAID = Context()


class Located(NamedTuple):
    """A span and the text it is in."""

    source: Source
    span: Span


@dataclass(frozen=True)
class Asked:
    """What a launch asks for.

    Attributes:
        launch: the launch.
        release: of vLLM, by whose rules it was read.
        args: the line without the options that vLLM refuses; None: nothing of it can be read.
        refused: why vLLM would not take the line, in the order found; () where it does.
        served: the deployment; None where there is none.
        problem: why there is no deployment although the line was read, or None.
        assumptions: what was assumed, one line each.
        kept: index in `launch.tokens` of each token that `args` speaks of.
    """

    launch: Launch
    release: str
    args: ServeArgs | None = None
    refused: tuple[CgplanError, ...] = ()
    refused_at: tuple[Located | None, ...] = ()
    served: ServedDeployment | None = None
    problem: CgplanError | None = None
    assumptions: tuple[str, ...] = ()
    kept: tuple[int, ...] = field(default=(), repr=False)

    def token_index(self, place: Place | None) -> int | None:
        """Index in `launch.tokens` of what `place` points at; None for a place in a file of --config."""
        if place is None or place.line or not 0 <= place.token < len(self.kept):
            return None
        return self.kept[place.token]

    def located(self, place: Place | None) -> Located | None:
        """Where `place` is in a text; None where it is in none that was read."""
        return _located(self.launch, place, self.kept)

    def where_is(self, dest: str) -> Located | None:
        """Where the setting of that name stands that counts, or None: it is not given."""
        return self.located(self.args.place_of(dest)) if self.args is not None else None


def ask(launch: Launch, context: Context = NOTHING_SAID) -> Asked:
    """What `launch` asks for. Raises nothing over the content of the launch: what is wrong is in the result."""
    release, assumptions = _release(launch, context)
    assumptions = [*context.assumptions, *assumptions]
    reader = _Reader(launch, release, context)
    args = reader.parse()
    asked = Asked(
        launch, release, args, tuple(reader.refused), tuple(reader.refused_at), None, None, tuple(assumptions),
        tuple(reader.kept),
    )  # fmt: skip
    if args is None:
        return asked
    gpu, gpus = _gpu(launch, context, assumptions)
    try:
        served = to_deployment(
            args,
            gpu=gpu,
            gpus_per_node=context.gpus_per_node or launch.hints.gpus or gpus,
            software=context.software,
            model=context.model,
            env={**launch.environment, **context.env},
            settings=context.settings,
        )
    except (InputError, StartupError) as error:
        return _replace(asked, problem=error)
    served = served._replace(ignored=(*context.ignored, *served.ignored))
    return _replace(asked, served=served, assumptions=(*assumptions, *served.assumptions))


def _replace(asked: Asked, **changes: Any) -> Asked:
    from dataclasses import replace

    return replace(asked, **changes)


def _release(launch: Launch, context: Context) -> tuple[str, list[str]]:
    if context.release is not None:
        return context.release, []
    said = launch.hints.release
    if said is None:
        return LATEST, [f"vLLM {LATEST}, the newest known; --vllm names yours."]
    try:
        return canonical(said), []
    except InputError:
        near = nearest(said)
        return near, [f"vLLM {shorten(said, 20)} is read by the rules of {near}, the nearest release known."]


def _gpu(launch: Launch, context: Context, assumptions: list[str]) -> tuple[Gpu | None, int | None]:
    """The GPU and how many there are: the user's, the file's, this machine's. None: neither is known."""
    found, count = context.gpu, None
    if found is None:
        found = _hinted(launch, assumptions)
    if found is None and launch.hints.gpu is None and context.here is not None and launch.kind in STARTED_HERE:
        here = context.here()
        if here is not None:
            found, count = here
            assumptions.append(f"GPU: {count} x {found.name}, found in this machine; --gpu names another.")
    if context.gpu_memory is not None:
        if found is None:
            found = Gpu()
            assumptions.append(f"GPU: {found.name}; the line does not name one.")
        found = found.model_copy(update={"memory_bytes": context.gpu_memory})
    return found, count


def _hinted(launch: Launch, assumptions: list[str]) -> Gpu | None:
    from ...releases.gpus import gpu

    if launch.hints.gpu is None:
        return None
    try:
        return gpu(launch.hints.gpu)
    except InputError:
        assumptions.append(f"GPU: {shorten(launch.hints.gpu, 40)} is not in the catalogue.")
        return None


def _located(launch: Launch, place: Place | None, kept: tuple[int, ...]) -> Located | None:
    if place is None:
        return None
    if place.line:
        return _in_config(launch, place)
    if 0 <= place.token < len(kept):
        return Located(launch.source, launch.tokens[kept[place.token]].span)
    return None


def _in_config(launch: Launch, place: Place) -> Located | None:
    if len(launch.files) != 1:
        return None
    config = next(iter(launch.files.values()))
    if not place.line <= len(config.lines):
        return None
    source = config.source or launch.source
    line = config.lines[place.line - 1]
    lines = source.text.splitlines(keepends=True)
    start = sum(map(len, lines[: line - 1]))
    text = lines[line - 1] if line <= len(lines) else ""
    indent = len(text) - len(text.lstrip())
    return Located(source, Span(start + indent, start + len(text.rstrip()), line, indent + 1))


class _Reader:
    """Parses a line again and again, each time without the option that was refused."""

    def __init__(self, launch: Launch, release: str, context: Context) -> None:
        self.launch = launch
        self.release = release
        self.env = {**launch.environment, **context.env}
        self.kept = list(range(len(launch.tokens)))
        self.refused: list[CgplanError] = []
        self.refused_at: list[Located | None] = []

    def parse(self) -> ServeArgs | None:
        for _ in range(MAX_REFUSALS):
            try:
                return self._parse()
            except ArgumentRefused as error:  # noqa: PERF203
                self.refused.append(error)
                self.refused_at.append(_located(self.launch, error.place, tuple(self.kept)))
                if not self._drop(error):
                    return None
            except InputError as error:
                self.refused.append(error)
                self.refused_at.append(None)
                return None
        return None

    def _parse(self) -> ServeArgs:
        texts = [self.launch.tokens[index].text for index in self.kept]
        configs = {name: config.text for name, config in self.launch.files.items()}
        return parse_serve(texts, self.release, configs=configs or None, env=self.env)

    def _drop(self, error: ArgumentRefused) -> bool:
        """Leave out the option that is to blame. False: no single one is."""
        if error.kind not in DROPPABLE or error.place is None or error.place.line:
            return False
        texts = [self.launch.tokens[index].text for index in self.kept]
        first = error.place.token
        if not 2 <= first < len(texts):
            return False
        while first > 2 and not texts[first].startswith("-"):
            first -= 1
        if not texts[first].startswith("-"):
            first = error.place.token
        last = first + 1
        while last < len(texts) and not texts[last].startswith("-"):
            last += 1
        del self.kept[first:last]
        return True
