"""A start of vLLM as its log tells it: values by start and by rank, nothing joined, null where nothing was printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where a value was printed.

    Attributes:
        line: of the log, from 1.
        text: the message without its prefixes, cut to 300 characters.
    """

    line: int
    text: str = ""


@dataclass(frozen=True)
class Captured:
    """Graphs of one kind, counted by a progress bar or by the estimate's line.

    Attributes:
        kind: "FULL", "PIECEWISE" or "ENCODER"; "DRAFTER_..." for those of a drafter.
        graphs: how many.
        largest: the largest size in tokens, where printed.
        total: of a progress bar, how many there were to be; None: not of a bar.
        name: of a progress bar, its description ("decode, FULL"); bars of one kind and other names stand side by side.
    """

    kind: str
    graphs: int
    largest: int | None = None
    total: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Sample:
    """What vLLM measured for its estimate of one mode, bytes (debug level)."""

    mode: str
    first_bytes: int
    graphs: int
    per_graph_bytes: int


@dataclass(frozen=True)
class Rank:
    """What one worker printed. Bytes are as printed: GiB with two decimals are within 0.005 GiB of the truth.

    Attributes:
        name: as the log calls it ("TP0", "PP1_TP0", "EngineCore", "DP0"), "main" where it calls it nothing.
        rank: the number over all processes of the server, where names and sizes say it.
        activation_bytes: the peak as printed. Where `activation_includes_estimate`, the estimate of graphs is in it.
        activation_includes_estimate: since 0.27.1 the figure of L12 holds the estimate, unless
            VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0; False: it does not; None: no such figure was printed.
        torch_peak_bytes: "torch peak memory increase" of L4 (debug level).
        kv_bytes: what was available, before any reserve of the frontend; may be negative.
        kv_after_reserve_bytes: of L19, what the reserve for multimodal decoding left.
        kv_is_given: kv_bytes was set by kv_cache_memory_bytes, and nothing was profiled.
        raised_utilization: of L8 and L9, the utilization with the estimate's share of the GPU on top.
        equivalent_utilization: of L8, the same with that share taken off.
        places: by the name of the field, where it was printed.
    """

    name: str
    rank: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    requested_bytes: int | None = None
    utilization: float | None = None
    weights_bytes: int | None = None
    consumed_bytes: int | None = None
    activation_bytes: int | None = None
    activation_includes_estimate: bool | None = None
    non_torch_bytes: int | None = None
    graph_estimate_bytes: int | None = None
    graph_actual_bytes: int | None = None
    capture_seconds: float | None = None
    kv_bytes: int | None = None
    suggested_kv_bytes: int | None = None
    suggested_kv_bytes_full: int | None = None
    torch_peak_bytes: int | None = None
    kv_after_reserve_bytes: int | None = None
    kv_is_given: bool = False
    raised_utilization: float | None = None
    equivalent_utilization: float | None = None
    samples: tuple[Sample, ...] = ()
    profiled: tuple[Captured, ...] = ()
    captured: tuple[Captured, ...] = ()
    attention_backends: tuple[str, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """Seconds of one part of the start: "load", "dynamo", "compile" with it, "profile", "graph estimate" (between two
    lines, whole seconds), "kernel warm-up" (between the KV cache and capture), "capture", "warm-up", "init engine"."""

    name: str
    seconds: float
    rank: str = ""


@dataclass(frozen=True)
class Message:
    """A warning or an error that vLLM printed.

    Attributes:
        level: "WARNING" or "ERROR".
        text: without prefixes; of a traceback its last line.
        count: how often the same was printed, by any rank.
    """

    level: str
    text: str
    place: Place
    rank: str = ""
    count: int = 1


@dataclass(frozen=True)
class Crash:
    """How a start ended: it did not come up, or it died while serving.

    Attributes:
        kind: see `startup.crashes`; "unknown" where no kind is recognised.
        message: the exception's own line.
        values: numbers of the message (bytes, tokens, blocks), by name.
        chain: the exceptions' own lines in the order printed, the deepest first, each once.
        step: of the start, by the frames of the traceback: "loading", "profiling", "cache", "capture" or "warm-up";
            "start-up": one of the last two; "serving": it had come up; "": the log does not say.
        function: of vLLM, the innermost one of the traceback; "": the log does not say.
    """

    kind: str
    message: str
    place: Place
    rank: str = ""
    values: dict[str, int | float | str] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    step: str = ""
    function: str = ""


@dataclass(frozen=True)
class Start:
    """One start of one server.

    Attributes:
        vllm_version: as printed, e.g. "0.19.2rc1.dev8+g4b7f5ea1a".
        arguments: the non-default arguments, by vLLM's names.
        engine: the settings of the engine's own line ("Initializing a V1 LLM engine ... with config").
        environment: VLLM_ variables the log names.
        source: the container or unit that printed it, where the log names one.
        file: whose log it is, where several were read.
        cudagraph_mode: as resolved: the engine's line, then the worker's downgrade, if any.
        kv_tokens, max_concurrency, concurrency_length: of L13, as the first engine printed them.
        kv_printed: (engine, tokens, concurrency) of every engine.
        captured: graphs counted by progress bars that no process of several put its name to.
        derived_max_model_len: what max_model_len=-1 was reduced from, where it was.
        seconds: from the first line with a time until the server listened, by the times of the lines; None: not known.
        platform_plugin: the plugin whose platform was activated; None: vLLM's own, as far as the log says.
        flash_version: of FlashAttention, as vLLM chose it.
        decode_kernels: of FlashInfer, as the log has them: "xqa", "trtllm-gen" or "flashinfer-native".
        is_part: a few lines that were quoted, without the beginning of a start.
        said: what the user names beside the log, by vLLM's names: in the place of arguments that it has or lacks.
    """

    first_line: int
    last_line: int
    vllm_version: str | None = None
    model: str | None = None
    runner: str | None = None
    architecture: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    cudagraph_mode: str | None = None
    capture_sizes: tuple[int, ...] | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    num_gpu_blocks: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    concurrency_length: int | None = None
    kv_printed: tuple[tuple[str, int, float | None], ...] = ()
    ranks: tuple[Rank, ...] = ()
    phases: tuple[Phase, ...] = ()
    messages: tuple[Message, ...] = ()
    crash: Crash | None = None
    ready: bool = False
    source: str = ""
    captured: tuple[Captured, ...] = ()
    derived_max_model_len: int | None = None
    platform_plugin: str | None = None
    seconds: float | None = None
    flash_version: int | None = None
    decode_kernels: str | None = None
    is_part: bool = False
    said: dict[str, Any] = field(default_factory=dict)
    file: str = ""

    @property
    def where(self) -> str:
        """The file and the container that it is from; "": one log without containers."""
        return ": ".join(one for one in (self.file, self.source) if one)

    @property
    def graphs(self) -> dict[str, int]:
        """Graphs by kind: as a rank announced them, else as progress bars counted to their end.

        Ranks that say different things are told by `ranks`; here the first one speaks.
        """
        for rank in self.ranks:
            if rank.profiled:
                return {item.kind: item.graphs for item in rank.profiled}
        for bars in (*(rank.captured for rank in self.ranks), self.captured):
            if bars:
                counted: dict[str, int] = {}
                for bar in bars:
                    counted[bar.kind] = counted.get(bar.kind, 0) + (bar.total or bar.graphs)
                return counted
        return {}


@dataclass(frozen=True)
class StartupLog:
    """A log read to its end.

    Attributes:
        starts: in order of their first line.
        lines: read; not_recognised: of these, lines that look like vLLM's but whose values were not understood.
        examples: of these, at most 20.
        remarks: what was cut, skipped or could not be decoded, in words.
    """

    starts: tuple[Start, ...]
    lines: int = 0
    not_recognised: int = 0
    examples: tuple[Place, ...] = ()
    remarks: tuple[str, ...] = ()
