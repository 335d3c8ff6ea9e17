"""What one launch asks for: its line parsed as vLLM of its release parses it, and the deployment of it.

Where vLLM refuses an option, the line is read again without it, so that one fault does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from ...deployment import LATEST
from ...errors import CgplanError, InputError, StartupError, shorten
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, is_known, nearest
from ...sections import Gpu, Software
from ..serve_args import ServeArgs
from ..serve_args_deployment import ServedDeployment, to_deployment
from ..serve_args_tokens import Place
from .launch import Launch
from .line_reader import LineReader
from .located import Located, located

__all__ = ["NOTHING_SAID", "Asked", "Context", "Located", "ask"]

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
        said_release: the build of vLLM that the user named, where `release` stands in for it.
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
    said_release: str | None = None


NOTHING_SAID = Context()


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
        gpu_from: who names the GPU: "given" by the user, "file", "here" (found in this machine), or "assumed".
        context: what the user says beside the file.
        joined: indices in `launch.tokens` of those that hold an option and its value, and were read as several.
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
    gpu_from: str = "assumed"
    context: Context = field(default=NOTHING_SAID, repr=False)
    joined: frozenset[int] = frozenset()

    @property
    def gpu_assumed(self) -> bool:
        """Whether nobody named the GPU, and the one of the deployment stands in for it."""
        return self.gpu_from == "assumed"

    @property
    def release_assumed(self) -> bool:
        """Whether the file, or the user, names a release that is not known, and the nearest one stands in for it."""
        if self.context.said_release is not None:
            return True
        said = self.launch.hints.release
        return self.context.release is None and said is not None and not is_known(said)

    @property
    def model_assumed(self) -> bool:
        """Whether another shape stands in for that of the model."""
        return self.served is not None and self.served.model_assumed

    def token_index(self, place: Place | None) -> int | None:
        """Index in `launch.tokens` of what `place` points at; None for a place in a file of --config."""
        if place is None or place.line or not 0 <= place.token < len(self.kept):
            return None
        return self.kept[place.token]

    def located(self, place: Place | None) -> Located | None:
        """Where `place` is in a text; None where it is in none that was read."""
        return located(self.launch, place, self.kept)

    def where_is(self, dest: str) -> Located | None:
        """Where the setting of that name stands that counts, or None: it is not given."""
        return self.located(self.args.place_of(dest)) if self.args is not None else None


def ask(launch: Launch, context: Context = NOTHING_SAID) -> Asked:
    """What `launch` asks for. Raises nothing over the content of the launch: what is wrong is in the result."""
    release, assumptions = _release(launch, context)
    assumptions = [*context.assumptions, *assumptions]
    reader = LineReader(launch, release, {**launch.environment, **context.env})
    args = reader.parse()
    found = _gpu(launch, context, assumptions if args is not None else [])
    asked = Asked(
        launch, release, args, tuple(reader.refused), tuple(reader.refused_at), None, None, tuple(assumptions),
        tuple(reader.kept), found.said_by, context, frozenset(reader.joined),
    )  # fmt: skip
    if args is None:
        return asked
    try:
        served = to_deployment(
            args,
            gpu=found.gpu,
            gpus_per_node=context.gpus_per_node or launch.hints.gpus or found.gpus,
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
    if is_known(said):
        return canonical(said), []
    near = nearest(said)
    return near, [f"vLLM {shorten(said, 20)} is read by the rules of {near}, the nearest release known."]


class _Found(NamedTuple):
    """A GPU, how many there are, and who says so. None: not known."""

    gpu: Gpu | None
    gpus: int | None
    said_by: str


def _gpu(launch: Launch, context: Context, assumptions: list[str]) -> _Found:
    """The GPU: the user's, the file's, this machine's."""
    found, count, said_by = context.gpu, None, "given"
    if found is None:
        found, said_by = _hinted(launch, assumptions), "file"
    if found is None and launch.hints.gpu is None and context.here is not None and launch.kind in STARTED_HERE:
        here = context.here()
        if here is not None:
            (found, count), said_by = here, "here"
            assumptions.append(f"GPU: {count} x {found.name}, found in this machine; --gpu names another.")
    said_by = said_by if found is not None else "assumed"
    if context.gpu_memory is not None:
        if found is None:
            found = Gpu()
            assumptions.append(f"GPU: {found.name}; the line does not name one.")
        found = found.model_copy(update={"memory_bytes": context.gpu_memory})
    if found is not None and said_by == "given":
        from ...releases.gpus import as_assumed

        assumptions += [text for text in [as_assumed(found)] if text]
    return _Found(found, count, said_by)


def _hinted(launch: Launch, assumptions: list[str]) -> Gpu | None:
    from ...releases.gpus import gpu

    if launch.hints.gpu is None:
        return None
    try:
        return gpu(launch.hints.gpu)
    except InputError:
        assumptions.append(f"GPU: {shorten(launch.hints.gpu, 40)} is not in the catalogue.")
        return None
