"""The form of the document of `cgplan tune --json`, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...resolve.document_schema import FindingPart


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class IntervalPart(_Part):
    low: float
    high: float


class CapturePart(_Part):
    """How long capture takes, seconds, as it took elsewhere."""

    low: float
    best: float
    high: float


class PointPart(_Part):
    """A list of sizes, and what it does; cost and tokens are of a step on average."""

    capture_sizes: list[int]
    graphs: int
    cost: float
    tokens: float = Field(description="computed, padding included")
    waste: float = Field(description="padding as a share of the computed tokens")
    eager: float = Field(description="share of the steps that run without a graph")
    graph_bytes: int | None = Field(description="what capture takes of a GPU; null: not known")
    kv_tokens: int | None = Field(description="of the KV cache; null: not known, or it does not start")
    capture_seconds: CapturePart


class DensityPart(PointPart):
    """A list by a rule: powers of two, every 8th size."""

    name: str
    is_beaten: bool = Field(description="another of these lists has no more graphs and costs no more")


class LimitsPart(_Part):
    """As they were taken; without --max-graphs as many graphs as today."""

    graphs: int | None
    graph_bytes: int | None
    capture_seconds: float | None


class TrafficPart(_Part):
    """One part of the mixture. `steps` is null of a named shape, which is no measurement."""

    name: str
    steps: float | None
    weight: float | None
    exact: bool


class PartGainPart(_Part):
    """One part by itself: the gain of the chosen list, of as many sizes chosen for this part alone, and of a list that
    was chosen for the other parts alone."""

    name: str
    share: float
    waste_today: float
    waste_chosen: float
    gain: float
    own_gain: float
    gain_without: float | None


class ShiftPart(_Part):
    """The traffic with `factor` times as many requests."""

    factor: float
    waste_today: float
    waste_chosen: float
    gain: float


class CandidatePart(_Part):
    """A value of a flag with the best list that it has under the same limits. Shares and cost are of the steps that
    have a graph with one of the values at least."""

    capture_sizes: list[int]
    graphs: int
    graph_bytes: int | None = Field(description="what capture takes of a GPU; null: not known")
    kv_tokens: int | None = Field(description="of the KV cache; null: not known, or it does not start")
    capture_seconds: CapturePart
    full: float = Field(description="share of the steps that run FULL")
    piecewise: float
    eager: float
    cost: float | None = Field(description="of a step; null: not known, `unpriced` says why")
    gain: float | None = Field(description="share of the cost of `first` that it saves")
    unpriced: str | None


class ModeValuePart(_Part):
    """A mode that can be asked for, and what vLLM makes of it; null: it does not start."""

    asked: str
    runs: str | None
    found: CandidatePart | None = Field(description="null: it is today's mode, or why_not says why there is none")
    why_not: str | None


class RunningPart(_Part):
    """Requests that ran at once: the most that a step is sure to have had, and may have had; shares of the steps that
    had as many as are let in or more, that had more, and whose requests the source leaves open."""

    low: int
    high: int
    at_limit: float
    above: float
    unknown: float


class SeqsValuePart(_Part):
    max_num_seqs: int
    found: CandidatePart | None
    why_not: str | None


class LargestValuePart(_Part):
    max_cudagraph_capture_size: int
    above: float | None = Field(description="share of all steps above it")
    found: CandidatePart | None
    why_not: str | None


class _AnswerPart(_Part):
    first: CandidatePart = Field(description="the first answer: today's value with the chosen list")
    reason: str
    flags: str | None = Field(description="of the recommended value, sizes included; null: today's value stays")
    replaces: list[str] = Field(description="what of the launch the flags replace")


class ModesPart(_AnswerPart):
    today: str
    values: list[ModeValuePart]
    recommended: str | None
    gain_interval: IntervalPart | None = Field(description="of the recommended mode, or of the best one")


class SeqsPart(_AnswerPart):
    today: int
    running: RunningPart
    needed: int = Field(description="the most that may have run at once, and a quarter, rounded up to 8")
    values: list[SeqsValuePart]
    recommended: int | None


class LargestPart(_AnswerPart):
    today: int
    decode_above: float = Field(description="share of all steps: decode steps above it")
    mixed_above: float
    widest: int = Field(description="tokens of the widest step that has a graph")
    values: list[LargestValuePart]
    recommended: int | None
    gain_interval: IntervalPart | None


class OtherChoicesPart(_Part):
    """What else could be changed, each beside the chosen list."""

    cudagraph_mode: ModesPart
    max_num_seqs: SeqsPart
    max_cudagraph_capture_size: LargestPart


class TuneDocument(_Part):
    """The choice of capture sizes. Gains are shares of the cost of today's list; above 0: saved."""

    schema_version: Literal[1]
    vllm_version: str
    model: str | None
    gpu: str
    cudagraph_mode: str
    verdict: Literal["better", "fewer graphs", "best already", "within limits"]
    flags: str
    cost_unit: Literal["tokens", "seconds"]
    cost_source: str | None
    gain: float
    gain_held_out: float | None = Field(
        description="on one half of the steps, of a list chosen for the other half; null: no measurement"
    )
    gain_by_chance: IntervalPart | None = Field(description="95% by chance in the counts; null: no measurement")
    gain_by_buckets: IntervalPart | None = Field(description="bounds where sizes are known by bucket only")
    beats_from: int | None = Field(description="fewest sizes that cost no more than today's list")
    today: PointPart
    chosen: PointPart
    knee: int | None = Field(description="number of sizes where the curve bends most")
    curve: list[PointPart]
    fixed: list[int]
    multiple: int
    near: list[int] = Field(
        description="sizes that lists have as well, as the traffic does not say how far it spreads; [] for none"
    )
    near_reason: str | None = Field(description="what the traffic lacks; null: nothing")
    spread: float = Field(description="share of steps of any size that lists are chosen for; no figure has them")
    densities: list[DensityPart] = Field(description="by number of graphs, today's list and the chosen one among them")
    limits: LimitsPart
    traffic: list[TrafficPart]
    eager_anyway: float = Field(description="share of the steps without a graph whatever the sizes; in no figure")
    parts: list[PartGainPart]
    shifts: list[ShiftPart]
    replaces: list[str] = Field(description="what of the launch `flags` replace")
    other_choices: OtherChoicesPart
    findings: list[FindingPart]
    notes: list[str]
    assumptions: list[str] = Field(default=[], description="of the command: what was not said and is assumed")


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return TuneDocument.model_json_schema()
