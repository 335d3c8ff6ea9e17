"""What one start of a server has printed so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...startup.crashes import classify
from ...startup.record import Captured, Crash, Message, Phase, Place, Rank, Start
from . import names
from .bars import Bar
from .prefixes import Process
from .rank_notes import MAX_ITEMS, RankNotes
from .serving import Serving
from .shapes_start import MODES
from .tracebacks import SERVING, Failure, Failures

MAX_RANKS = 4096
MAX_MESSAGES = 400
MAX_PHASES = 4096
ONCE = ("capture", "init engine")

Key = tuple[int, str] | None
"""A process: its number and its machine; None where no line names it."""


@dataclass
class StartNotes:
    """Grows with each line that belongs to the start.

    Attributes:
        is_opened: a banner, arguments or an engine's line began it, not merely its first line.
        engines: of each engine by label, its process and the line it announced itself with.
        is_up: an engine was initialised; is_ready: the server listens.
        dropped: messages, ranks and phases beyond the limits.
        openings: of each kind of line that a start has once, the process and the text of the latest.
        began: the time of its first line, as printed; seconds: from there until the server listened.
        profiled_at: of each process, when it began to capture graphs for the estimate; sized_at: when it had said what
            is left for the KV cache.
        loose: the first places of values that no process put its name to; loose_lines: how many there were.
    """

    first_line: int
    source: str = ""
    last_line: int = 0
    version: str | None = None
    model: str | None = None
    has_banner: bool = False
    has_arguments: bool = False
    engines: dict[str, tuple[Key, str]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    mode: str | None = None
    sizes: tuple[int, ...] | None = None
    ranks: dict[Key, RankNotes] = field(default_factory=dict)
    bars: dict[str, Captured] = field(default_factory=dict)
    kv: dict[str, list[Any]] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    messages: dict[tuple[str, str], Message] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    serving: Serving = field(default_factory=Serving)
    is_up: bool = False
    is_ready: bool = False
    dropped: int = 0
    openings: dict[str, tuple[Key, str]] = field(default_factory=dict)
    began: str = ""
    seconds: float | None = None
    profiled_at: dict[Key, str] = field(default_factory=dict)
    sized_at: dict[Key, str] = field(default_factory=dict)
    loose: list[Place] = field(default_factory=list)
    loose_lines: int = 0

    @property
    def is_opened(self) -> bool:
        return self.has_banner or self.has_arguments or bool(self.engines)

    @property
    def has_values(self) -> bool:
        return self.is_opened or bool(self.values or self.ranks or self.bars or self.kv or self.phases)

    def rank(self, process: Process | None) -> RankNotes:
        """The notes of a process, by its number: its name may become more exact while it starts."""
        key = key_of(process)
        notes = self.ranks.get(key)
        name = names.label(process)
        if notes is None:
            notes = RankNotes(name)
            if len(self.ranks) < MAX_RANKS:
                self.ranks[key] = notes
            else:
                self.dropped += 1
        elif notes.name in ("Worker", "VllmWorker", names.MAIN) or notes.name.startswith("Ray"):
            notes.name = name if name not in ("Worker", names.MAIN) else notes.name
        return notes

    def unnamed(self, place: Place) -> None:
        self.loose_lines += 1
        if len(self.loose) < MAX_ITEMS:
            self.loose.append(place)

    def drop_unnamed(self) -> int:
        """Leaves values without a name out where they are of several ranks, or of one of several; how many lines."""
        notes = self.ranks.get(None)
        if notes is None or not self.loose_lines:
            return 0
        named = sum(not other.is_empty for key, other in self.ranks.items() if key is not None)
        if named < 2 and not (notes.is_contradicted and self._ranks_expected() > 1):
            return 0
        del self.ranks[None]
        return self.loose_lines

    def _ranks_expected(self) -> int:
        count = 1
        for name in ("tensor", "pipeline", "data", "prefill_context"):
            key = f"{name}_parallel_size"
            size = self.engine.get(key, self.arguments.get(key))
            count *= size if type(size) is int and 0 < size < 1_000_000 else 1
        return count

    def first(self, name: str, value: Any) -> None:
        self.values.setdefault(name, value)

    def phase(self, name: str, seconds: float, process: Process | None) -> None:
        phase = Phase(name, seconds, names.label(process))
        if name in ONCE:
            # Said again where what was done for an estimate is done in earnest: the last counts.
            self.phases = [known for known in self.phases if (known.name, known.rank) != (name, phase.rank)]
        if len(self.phases) < MAX_PHASES:
            self.phases.append(phase)
        else:
            self.dropped += 1

    def message(self, level: str, text: str, place: Place, process: Process | None) -> None:
        key = (level, text)
        known = self.messages.get(key)
        if known is not None:
            self.messages[key] = Message(level, text, known.place, known.rank, known.count + 1)
        elif len(self.messages) < MAX_MESSAGES:
            self.messages[key] = Message(level, text, place, names.label(process))
        else:
            self.dropped += 1

    def bar(self, bar: Bar, process: Process | None, place: Place) -> None:
        """The latest state of a bar. Without a process it is kept apart from all of them."""
        bars = self.bars if process is None else self.rank(process).bars
        if bar.name in bars or len(bars) < MAX_ITEMS:
            bars[bar.name] = Captured(bar.kind, bar.done, None, bar.total, bar.name)
        if process is not None:
            self.rank(process).places["captured"] = place

    def tokens(self, process: Process | None, **values: Any) -> None:
        """Of one engine, what L13 says, on one line or on two."""
        label = names.label(process)
        if label in self.kv or len(self.kv) < MAX_RANKS:
            row = self.kv.setdefault(label, [None, None, None])
            for index, name in enumerate(("tokens", "concurrency", "length")):
                if name in values and row[index] is None:
                    row[index] = values[name]

    @property
    def has_served(self) -> bool:
        """Whether the server was ready, or at work."""
        return self.is_ready or self.serving.is_serving

    def crash(self) -> Crash | None:
        failures = self.failures
        ended = failures.fatal is not None or (failures.found and not (self.is_up or self.has_served))
        root = failures.root() if ended else None
        if root is None:
            return None
        kind, values = classify(root.line)
        chain = tuple(failure.line for failure in failures.found)
        place = Place(root.number, root.line[:300])
        step = self._step(root)
        return Crash(kind, root.line, place, root.process, values, chain, step, failures.function)

    def _step(self, root: Failure) -> str:
        """By the frames; a server that was at work died at work, whatever they say."""
        said = self.failures.step
        if self.has_served or said == SERVING:
            return SERVING
        up = {phase.rank for phase in self.phases if phase.name == "init engine"}
        return SERVING if up and not said and (len(self.engines) < 2 or root.process in up) else said

    def built(self, last_line: int) -> Start:
        kept = {key: notes for key, notes in self.ranks.items() if not notes.is_empty}
        bars = self.bars
        if bars and (drawer := _drawer(kept)) is not None:
            drawer.bars, bars = {**bars, **drawer.bars}, {}
        ranks = _ordered(
            [notes.built(names.number(notes.name, self.engine, len(kept)), self.environment) for notes in kept.values()]
        )
        kv = [(label, row) for label, row in self.kv.items() if row[0] is not None]
        told: list[Any] = kv[0][1] if kv else next(iter(self.kv.values()), [None, None, None])
        return Start(
            first_line=self.first_line,
            last_line=max(last_line, self.first_line),
            vllm_version=self.version,
            model=self.model or _text(self.engine.get("model")) or _text(self.arguments.get("model")),
            runner=self.values.get("runner"),
            architecture=self.values.get("architecture"),
            arguments=self.arguments,
            engine=self.engine,
            environment=self.environment,
            cudagraph_mode=self.mode,
            capture_sizes=self.sizes,
            max_model_len=self._number("max_model_len", self.engine.get("max_seq_len")),
            max_num_batched_tokens=self._number("max_num_batched_tokens"),
            max_num_seqs=self._number("max_num_seqs"),
            block_size=self._number("block_size"),
            num_gpu_blocks=self.values.get("num_gpu_blocks"),
            kv_tokens=told[0],
            max_concurrency=told[1],
            concurrency_length=told[2],
            kv_printed=tuple((label, row[0], row[1]) for label, row in kv),
            ranks=ranks,
            phases=self._phases(),
            messages=tuple(self.messages.values()),
            crash=self.crash(),
            ready=self.has_served,
            source=self.source,
            captured=tuple(bars.values()),
            derived_max_model_len=self.values.get("derived_max_model_len"),
            platform_plugin=self.values.get("platform_plugin"),
            seconds=self.seconds,
            flash_version=self.values.get("flash_version"),
            decode_kernels=self.values.get("decode_kernels"),
        )

    def _number(self, name: str, other: Any = None) -> int | None:
        """As printed, else as another line says it, else as it was asked for."""
        candidates = (self.values.get(name), other, self.arguments.get(name))
        return next((value for value in candidates if type(value) is int and value > 0), None)

    def _phases(self) -> tuple[Phase, ...]:
        loaded = any(phase.name == "load" for phase in self.phases)
        named = (
            Phase("load", phase.seconds, phase.rank) if phase.name == "weights" else phase
            for phase in self.phases
            if not (loaded and phase.name == "weights") and phase.name != "compile range"
        )
        return (*named, *self._compiled())

    def _compiled(self) -> list[Phase]:
        """Compilation by the lines of its ranges, where none has the total; it holds Dynamo's time."""
        total = {phase.rank for phase in self.phases if phase.name == "compile"}
        summed: dict[str, float] = {}
        for phase in self.phases:
            if phase.name in ("compile range", "dynamo") and phase.rank not in total:
                summed[phase.rank] = summed.get(phase.rank, 0.0) + phase.seconds
        ranges = {phase.rank for phase in self.phases if phase.name == "compile range"}
        return [Phase("compile", seconds, rank) for rank, seconds in summed.items() if rank in ranges]

    def settle_engine(self) -> None:
        """Mode and sizes as the engine's line has them."""
        config = self.engine.get("compilation_config")
        if not isinstance(config, dict):
            return
        mode, sizes = config.get("cudagraph_mode"), config.get("cudagraph_capture_sizes")
        if mode in MODES:
            self.mode = mode
        if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes):
            self.sizes = tuple(sizes)


def key_of(process: Process | None) -> Key:
    return None if process is None else (process.pid, process.node)


def _drawer(ranks: dict[Key, RankNotes]) -> RankNotes | None:
    """The process that drew a bar without a name: the only one there is."""
    return next(iter(ranks.values())) if len(ranks) == 1 else None


def _ordered(ranks: list[Rank]) -> tuple[Rank, ...]:
    """By number; those without one behind, as they came."""
    return tuple(sorted(ranks, key=lambda rank: (rank.rank is None, rank.rank or 0)))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
