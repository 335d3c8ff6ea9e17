"""/metrics of vLLM as a workload: a histogram of tokens by step, whose buckets stay ranges.

The histogram vllm:iteration_tokens_total has the same name and buckets in all releases (since 0.30 the buckets can be
set). A step is counted when requests give tokens out (vllm/v1/metrics/stats.py, IterationStats): the tokens given out,
plus the prompts that came to their end. So for a decode step without drafts the count is the batch size; with drafts
it is what was accepted, and the batch has between as many requests as tokens and that many by 1 + draft tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, floor, inf, isfinite, isinf

from ...errors import InputError, shorten
from ...inputs.secret_shapes import hidden
from ..gathered import Gathered, Part
from ..histogram import MAX_SIZE, Batches, Range, workload_of
from .prometheus import Sample, broken, samples

BUCKET = "iteration_tokens_total_bucket"
FACTS = {
    "iteration_tokens_total_count": "steps",
    "iteration_tokens_total_sum": "tokens",
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "time_to_first_token_seconds_count": "prefills",
    "spec_decode_num_drafts_total": "drafts",
    "spec_decode_num_draft_tokens_total": "draft_tokens",
    "spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "spec_decode_num_drafts": "drafts",
    "spec_decode_num_draft_tokens": "draft_tokens",
    "spec_decode_num_accepted_tokens": "accepted_tokens",
}
"""By metric, the name of the fact; counters of drafts were written without _total by old exporters."""

GAUGES = frozenset(("running", "waiting"))
WANTED = frozenset((BUCKET, *FACTS))

_Counts = dict[float, float]
"""Cumulative counts by upper bound of the bucket."""


class Snapshot:
    """What /metrics said at one moment, by engine."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.buckets: dict[str, _Counts] = {}
        self.facts: dict[str, dict[str, float]] = {}


def snapshot(lines: Iterable[str], where: str) -> Snapshot:
    """The snapshot in a text of /metrics. Series of one engine that only differ in other labels are added.

    Raises:
        InputError: CG718, a line cannot be read, the histogram contradicts itself, or there is none.
    """
    made = Snapshot(where)
    found = samples(lines, WANTED, where)
    of_several = len({sample.labels.get("model_name") for sample in found if sample.name == BUCKET}) > 1
    for sample in found:
        engine = _engine(sample.labels, of_several)
        if sample.name == BUCKET:
            _add_bucket(made.buckets.setdefault(engine, {}), sample, where)
            continue
        facts, name = made.facts.setdefault(engine, {}), FACTS[sample.name]
        facts[name] = facts.get(name, 0) + sample.value
    if not made.buckets:
        raise InputError(
            f"{where} has no vllm:iteration_tokens_total",
            code="CG718",
            where=where,
            fix="give /metrics of a vLLM server that was not started with --disable-log-stats",
        )
    for engine, counts in made.buckets.items():
        _check(counts, engine, where)
    return made


def gathered(later: Snapshot, earlier: Snapshot | None = None) -> Gathered:
    """The steps of each engine: since the server's start, or since the earlier snapshot.

    Raises:
        InputError: CG718, a counter fell: the server was started anew in between, or the order is wrong.
    """
    parts = []
    for engine, counts in later.buckets.items():
        before = earlier.buckets.get(engine, {}) if earlier is not None else {}
        if before and set(before) != set(counts):
            raise broken(f"{engine}: other buckets than in {earlier.where if earlier else ''}", later.where)
        steps = _steps(counts, before, engine, later.where)
        if not steps:
            continue
        facts = _facts(later.facts.get(engine, {}), earlier.facts.get(engine, {}) if earlier is not None else {})
        drafts = _draft_tokens(facts)
        batches = [_batches(given, count, drafts) for given, count in steps]
        since = f"after {earlier.where}" if earlier is not None else "since its start"
        parts.append(Part(engine, workload_of(batches, f"{later.where}, {since}"), "metrics", facts=facts))
    if not parts:
        message = "no step was counted in between" if earlier is not None else "no step was counted yet"
        raise InputError(
            f"{later.where}: {message}", code="CG718", where=later.where, fix="take the text while the server works"
        )
    return Gathered(tuple(parts), _remarks(parts))


def _engine(labels: Mapping[str, str], of_several: bool) -> str:
    name = labels.get("engine") or labels.get("engine_index") or "0"
    model = labels.get("model_name", "") if of_several else ""
    return hidden(" of ".join(part for part in (f"engine {name}", labels.get("ReplicaId"), model) if part))


def _add_bucket(counts: _Counts, sample: Sample, where: str) -> None:
    text = sample.labels.get("le", "")
    try:
        bound = float(text)
    except ValueError:
        raise broken(f"a bucket without a bound: le={text[:40]!r}", where, sample.line) from None
    if not bound >= 0 or (bound > MAX_SIZE and not isinf(bound)):
        raise broken(f"no bound of tokens: le={text[:40]!r}", where, sample.line)
    if sample.value < 0 or sample.value > 1e18 or sample.value != floor(sample.value):
        raise broken(f"no count: {sample.value:g}", where, sample.line)
    counts[bound] = counts.get(bound, 0) + sample.value


def _check(counts: _Counts, engine: str, where: str) -> None:
    ordered = [counts[bound] for bound in sorted(counts)]
    if inf not in counts:
        raise broken(f"{engine}: the bucket +Inf is missing; the text may be cut", where)
    if ordered != sorted(ordered):
        raise broken(f"{engine}: counts of buckets fall; they are cumulative", where)


def _steps(counts: _Counts, before: _Counts, engine: str, where: str) -> list[tuple[Range, float]]:
    """Ranges of tokens with the steps in them. Steps without any token are left out."""
    found = []
    least, past = 0, 0.0
    for bound in sorted(counts):
        total = counts[bound] - before.get(bound, 0)
        steps = total - past
        if total < 0 or steps < 0:
            raise InputError(
                f"{where}: {shorten(engine, 200)}: a count fell between the two texts",
                code="CG718",
                where=where,
                fix="give the earlier text first, both of one run; or the later one alone",
            )
        high = None if isinf(bound) else floor(bound)
        if steps and (high is None or high >= max(1, least)):
            found.append((Range(max(1, least), high), steps))
        past = total
        least = floor(bound) + 1 if not isinf(bound) else least
    return found


def _facts(later: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value - (0 if name in GAUGES else earlier.get(name, 0))
        for name, value in later.items()
        if isfinite(value)
    }


def _draft_tokens(facts: Mapping[str, float]) -> int:
    """Draft tokens of a request and step, the most there can be on average; 0 where nothing is drafted."""
    drafts = facts.get("drafts", 0)
    each = facts.get("draft_tokens", 0) / drafts if drafts > 0 else 0
    return ceil(each) if 0 <= each <= MAX_SIZE else 0


def _batches(given: Range, count: float, drafts: int) -> Batches:
    """Steps that gave out so many tokens: with drafts, fewer requests may be in them, and more tokens."""
    if not drafts:
        return Batches("any", given, count)
    most = None if given.high is None else min(given.high * (1 + drafts), MAX_SIZE)
    requests = Range(ceil(given.low / (1 + drafts)), given.high)
    return Batches("any", Range(given.low, most), count, requests)


def _remarks(parts: Iterable[Part]) -> tuple[str, ...]:
    found = []
    for part in parts:
        prefills, steps = part.facts.get("prefills"), part.workload.steps
        if prefills is not None and 0 <= prefills < steps:
            found.append(f"{part.name}: at most {prefills:.0f} of {steps:.0f} steps ended a prefill")
    return tuple(found)
