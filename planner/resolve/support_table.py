"""The support table: every attention backend of a release, as it stands for one deployment.

The selection stops at the first backend that fits; the table asks all of them, and says of each what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..deployment import Deployment
from ..errors import StartupError
from ..light_dataclass import dataclass
from ..releases import at
from ..releases import table as parsed
from ..trace import Trace
from ..vocabulary import AttentionCGSupport
from .backends import BackendChoice, choose_backends
from .backends.checks import reasons
from .backends.documented import Claim, Difference, differences
from .backends.facts import Backend, Catalogue, catalogue
from .backends.groups import ATTENTION_OF_MODEL, GroupChooser
from .backends.layer import Layer
from .backends.own_kernels import check_own_attention
from .backends.request import request_of
from .backends.selection import candidates
from .backends.support import Level, level, named_level
from .pipeline import configure

FOLDER = "vllm/v1/attention/backends/"

KINDS = ("attention", "mla", "sparse", "mamba")


@dataclass(frozen=True)
class Row:
    """One backend.

    Attributes:
        name: as --attention-backend takes it; of state space and linear layers, vLLM's name of their kind.
        class_name: what vLLM's log shows.
        kind: attention, mla, sparse, or mamba for state space and linear attention.
        platform: the platform whose kernels it runs.
        support: the CUDA graph support level; None: nobody can select it.
        condition: what decided the level.
        code: the rule behind it.
        source: where its metadata builder sets the level: file:line of vLLM, at `release`.
        release: the release of `source`.
        reasons: why it cannot serve this model on this GPU; empty: it can.
        priority: its place in the automatic selection, from 1; None: it is never tried.
        chosen: it serves the main attention layers; of kind mamba, layers of the model.
    """

    name: str
    class_name: str
    kind: str
    platform: str
    support: AttentionCGSupport | None
    condition: str
    code: str | None
    source: str
    release: str
    reasons: tuple[str, ...]
    priority: int | None = None
    chosen: bool = False

    @property
    def fits(self) -> bool:
        return not self.reasons


@dataclass(frozen=True)
class SupportTable:
    """All backends of a release for one deployment.

    Attributes:
        vllm_version: the release.
        rows: all backends, in vLLM's order of names.
        choice: what vLLM would choose; None: it refuses.
        refused: the refusal.
        asked: the backend that was asked for, or that vLLM sets for the model; None: the selection is automatic.
        why: why the choice was made, one line.
        differences: where the release's documentation says otherwise.
        assumptions: what had to be assumed.
        not_modelled: settings that vLLM takes and the table does not look at.
    """

    vllm_version: str
    rows: tuple[Row, ...]
    choice: BackendChoice | None
    refused: StartupError | None
    asked: str | None
    why: str
    differences: tuple[Difference, ...]
    assumptions: tuple[str, ...]
    not_modelled: tuple[str, ...] = ()

    @property
    def sorted_rows(self) -> tuple[Row, ...]:
        """The candidates first, then what fits when asked for, then the rest."""
        last = len(self.rows) + 1
        return tuple(sorted(self.rows, key=lambda r: (not r.chosen, r.priority or last, not r.fits)))

    @property
    def order(self) -> tuple[Row, ...]:
        """The candidates of the automatic selection, first to last."""
        return tuple(sorted((r for r in self.rows if r.priority is not None), key=lambda r: r.priority or 0))


def support_table(deployment: Deployment) -> SupportTable:
    """The table of `deployment`.

    Raises:
        InputError: the release or a backend is unknown.
        StartupError: vLLM would refuse the deployment for another reason than its attention backend.
    """
    trace = Trace()
    engine = configure(deployment, trace)
    deployment, release = engine.deployment, engine.release
    facts = catalogue(release)
    choice, refused = _choice(deployment, engine.dtype, trace)
    unfit = _without_kernels(deployment, choice)
    quiet = Trace()
    request = request_of(deployment, facts, quiet)
    chooser = GroupChooser(deployment, request, facts, engine.dtype, quiet, frozenset())
    layer, _, spec_kind = chooser.main_layer()
    asked = request.for_kind(spec_kind)
    rows = tuple(_Table(deployment, facts, layer, choice).rows())
    claims = [Claim(r.name, r.support, r.condition, r.source) for r in rows if r.support is not None]
    return SupportTable(
        vllm_version=release,
        rows=rows,
        choice=choice,
        refused=refused,
        asked=asked,
        why=_why(choice, asked, trace) if unfit is None else f"vLLM does not start with it: {unfit.message}",
        differences=differences(release, layer, claims),
        assumptions=tuple(trace.assumptions),
    )


def _choice(deployment: Deployment, dtype: str, trace: Trace) -> tuple[BackendChoice | None, StartupError | None]:
    try:
        return choose_backends(deployment, dtype=dtype, trace=trace), None
    except StartupError as error:
        return None, error


def _without_kernels(deployment: Deployment, choice: BackendChoice | None) -> StartupError | None:
    """Why the class that the model picked itself does not run; the choice is vLLM's all the same."""
    try:
        if choice is not None:
            check_own_attention(deployment, choice)
    except StartupError as error:
        return error
    return None


def _why(choice: BackendChoice | None, asked: str | None, trace: Trace) -> str:
    if choice is None:
        return "vLLM refuses to start"
    if choice.name == "none":
        return "the model has no attention layers"
    told = [d for d in trace.decisions if d.field == "attention_backend" and d.code != "CG301"]
    if told and told[-1].code == ATTENTION_OF_MODEL.code:
        return "the model picks its attention class itself"
    if told:
        return told[-1].why
    if asked is not None:
        return "it was asked for and fits"
    return "the first candidate that fits" if choice.rejected else "the first candidate, and it fits"


class _Table:
    """Makes the rows for one layer."""

    def __init__(self, deployment: Deployment, facts: Catalogue, layer: Layer, choice: BackendChoice | None) -> None:
        self._model = deployment.model
        self._platform = deployment.gpu.platform
        self._facts = facts
        self._layer = layer
        self._sources: Mapping[str, Any] = parsed("level_sources")
        self._chosen = choice.name if choice is not None else None
        own = facts.models.get(deployment.model.architecture)
        self._own = own if own is not None and own.attention and self._platform == "cuda" else None
        tried = candidates(layer, facts) if self._own is None and self._platform == "cuda" else ()
        attends = not deployment.model.is_attention_free
        self._places = {backend.enum: place for place, backend in enumerate(tried, 1)} if attends else {}

    def rows(self) -> Iterator[Row]:
        for backend in self._facts.backends.values():
            yield self._attention(backend, "backend")
        for backend in self._facts.own.values():
            yield self._attention(backend, "own")
        kinds = [self._facts.mamba_of_model.get((self._model.architecture, k), k) for k in self._model.mamba_backends]
        for name, backend in self._facts.mamba.items():
            decided = named_level(backend.level, None, backend.source)
            against = () if name in kinds else ("the model has no such layers",)
            row = self._row(backend, "mamba", "mamba", decided, against)
            yield replace(row, chosen=name in kinds)

    def _attention(self, backend: Backend, section: str) -> Row:
        decided = level(backend, self._layer) if backend.unavailable is None else None
        row = self._row(backend, _kind(backend), section, decided, self._against(backend))
        return replace(row, priority=self._places.get(backend.enum), chosen=backend.enum == self._chosen)

    def _row(self, backend: Backend, kind: str, section: str, decided: Level | None, against: tuple[str, ...]) -> Row:
        source, release = self._source(backend, section)
        return Row(
            name=backend.enum,
            class_name=backend.class_name,
            kind=kind,
            platform=backend.platform,
            support=decided.support if decided is not None else None,
            condition=decided.condition.partition(" (vllm/")[0] if decided is not None else "",
            code=decided.rule.code if decided is not None else None,
            source=source,
            release=release,
            reasons=against,
        )

    def _source(self, backend: Backend, section: str) -> tuple[str, str]:
        """Where the level is set; of the release itself where that is known."""
        history = self._sources[section].get(backend.enum)
        if history is not None:
            source: str = at(history, self._facts.release)
            return source if source.startswith("vllm/") else FOLDER + source, self._facts.release
        cited, _, release = backend.source.partition(" @ ")
        return cited, release or self._facts.release

    def _against(self, backend: Backend) -> tuple[str, ...]:
        if backend.unavailable is not None:
            return (backend.unavailable,)
        if self._model.is_attention_free:
            return ("the model has no attention layers",)
        found = list(dict.fromkeys(reason.text for reason in reasons(backend, self._layer)))
        if self._own is not None and backend.enum not in self._own.attention.values():
            stands_for = self._own.aliases.get(backend.enum)
            return (f"it means {stands_for} here" if stands_for else "the model picks its attention class itself",)
        if backend.platform not in ("cuda", self._platform):
            found.insert(0, f"a backend of platform {backend.platform}")
        return tuple(found)


def _kind(backend: Backend) -> str:
    if "sparse" in backend.traits:
        return "sparse"
    return "mla" if "mla" in backend.traits else "attention"
