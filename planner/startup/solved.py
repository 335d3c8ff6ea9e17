"""Requests and tokens of a request, solved back from the graphs that a log counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..releases import SUPPORTED
from ..resolve import Resolution, resolve
from ..sections import SpeculativeOptions
from ..trace import Finding
from ..vocabulary import CUDAGraphMode, UsageContext
from .known import argument, max_num_seqs, release_of
from .record import Start
from .rules import OTHER_REQUESTS

MOST_REQUESTS = 4096
MOST_TOKENS = 9
"""Of a request in a decode step: no draft to 8 of them."""
MOST_KEPT = 64
_KEPT: dict[tuple[str, tuple[tuple[str, Graphs], ...]], tuple[Fit, ...]] = {}
"""Fits of deployments: the starts of a crash loop are of the same one."""
METHODS = ("mtp", "ngram")
"""Methods of drafting that need no draft model: how many tokens a request has is what counts here."""
MOST_SAID = 3


class Graphs(NamedTuple):
    """What a log or a resolution counts of one kind: graphs, and the largest in tokens; None: not said."""

    number: int
    largest: int | None


Counted = Mapping[str, Graphs]


@dataclass(frozen=True)
class Fit:
    """Requests, from `low` to `high`, that the graphs of the log come of.

    Attributes:
        tokens: of each request in a decode step, 1 without drafts.
        high: None: or any more of them.
    """

    tokens: int
    low: int
    high: int | None

    def has(self, requests: int) -> bool:
        return self.low <= requests and (self.high is None or requests <= self.high)

    def as_text(self) -> str:
        """ "48 or 49 requests of 4 tokens (3 drafts)"."""
        of = f" of {self.tokens} tokens ({_drafts(self.tokens - 1)})" if self.tokens > 1 else ""
        return f"{self.numbers} requests{of}"

    @property
    def numbers(self) -> str:
        if self.high is None:
            return f"{self.low} or more"
        if self.high == self.low:
            return f"{self.low}"
        return f"{self.low} {'or' if self.high == self.low + 1 else 'to'} {self.high}"


class Settled(NamedTuple):
    """A deployment with what the graphs of its log say.

    Attributes:
        deployment: the same, or with the requests and drafts of the first fit.
        assumptions: what was taken, one line each.
        findings: where the command has other requests than the log's graphs come of, or drafts have to be assumed.
        is_solved: requests or drafts are those of the graphs, so the graphs hold nothing against the plan.
    """

    deployment: Deployment
    assumptions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_solved: bool = False


def settle(start: Start, deployment: Deployment, said: Mapping[str, Any]) -> Settled:
    """Hold the requests and drafts of a deployment against the graphs that the log counts.

    Args:
        said: fields of Deployment that the user names; they are never changed.
    """
    counted = counted_in(start)
    knows_seqs = deployment.max_num_seqs is not None or bool(start.arguments)
    if not counted or _unlike(start):
        return Settled(deployment)
    now = _resolved(deployment)
    if now is None or now.cudagraph_mode is CUDAGraphMode.NONE:
        return Settled(deployment)
    if _agree(counted, now):
        return Settled(deployment) if knows_seqs else _with_default(deployment, now)
    knows_drafts = _knows_drafts(start, deployment, said)
    if not knows_drafts and len(counted) < len(KINDS):
        return Settled(deployment)  # One number does not tell two.
    fits = _fits(deployment, counted, now)
    own = [fit for fit in fits if not knows_drafts or fit.tokens == now.uniform_decode_query_len]
    own = [fit for fit in own if not knows_seqs or fit.has(now.max_num_seqs)]
    if own and not (knows_seqs and knows_drafts):
        return _taken(start, deployment, own, now, knows_seqs)
    if not fits:
        return Settled(deployment)
    command = Fit(now.uniform_decode_query_len, now.max_num_seqs, now.max_num_seqs).as_text()
    text = f"{graphs_text(counted)} come of {_fits_text(fits)}; the deployment has {command}"
    text += _of_other_context(start, deployment, fits[0]) if "usage_context" not in said else ""
    return Settled(deployment, (), (Finding(OTHER_REQUESTS.code, "warning", text, _flags(fits[0]), "--max-num-seqs"),))


def without_plan(start: Start) -> Finding | None:
    """The requests and tokens that the graphs come of, where there is no plan; None: the defaults give them, the log
    does not count both kinds, or it has arguments that leave the requests to a GPU that is not known."""
    counted = counted_in(start)
    requests = max_num_seqs(start)
    if len(counted) < len(KINDS) or _unlike(start) or (start.arguments and requests is None):
        return None
    release = release_of(start) or SUPPORTED[-1]
    drafts = argument(start, "speculative_config")
    tokens = drafts.get("num_speculative_tokens") if isinstance(drafts, Mapping) else None
    options = None
    if drafts is not None:
        if not isinstance(tokens, int) or tokens < 1:
            return None
        options = SpeculativeOptions(method="ngram", num_speculative_tokens=tokens)
    asked = Deployment(
        vllm=release,
        max_num_seqs=requests,
        max_num_batched_tokens=max(start.max_num_batched_tokens or 8192, requests or 0),
        speculative_config=options,
        env={"VLLM_USE_V2_MODEL_RUNNER": "0"},
    )
    settled = settle(start, asked, {})
    if settled.findings:
        return settled.findings[0]
    if not settled.is_solved:
        return None
    return Finding(OTHER_REQUESTS.code, "info", "; ".join(settled.assumptions), None, "--max-num-seqs")


def counted_in(start: Start) -> Counted:
    """The graphs that a log counts, of the target model."""
    for rank in start.ranks:
        if rank.profiled:
            return {one.kind: Graphs(one.graphs, one.largest) for one in rank.profiled if one.kind in KINDS}
    return {kind: Graphs(count, None) for kind, count in start.graphs.items() if kind in KINDS}


KINDS = ("FULL", "PIECEWISE")


def _unlike(start: Start) -> bool:
    """Whether graphs may be counted once for each number of adapters, or sizes are of the user's choice."""
    config = start.arguments.get("compilation_config")
    named = isinstance(config, Mapping) and any(config.get(name) for name in SIZES)
    return named or any(start.arguments.get(name) for name in (*SIZES, "enable_lora", "performance_mode"))


SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")


def _knows_drafts(start: Start, deployment: Deployment, said: Mapping[str, Any]) -> bool:
    named = "speculative_config" in said or deployment.speculative_config is not None
    return named or bool(start.arguments) or "speculative_config" in start.engine


def _with_default(deployment: Deployment, now: Resolution) -> Settled:
    """vLLM's own number of requests gives the graphs of the log."""
    line = f"max_num_seqs {now.max_num_seqs}, vLLM's default, from which the graphs of the log come"
    return Settled(deployment, (line,))


OTHER_CONTEXT = UsageContext.ENGINE_CONTEXT


def _of_other_context(start: Start, deployment: Deployment, fit: Fit) -> str:
    """That the requests are vLLM's default of another way to start it, in words; "": they are not."""
    if deployment.max_num_seqs is not None or deployment.usage_context is OTHER_CONTEXT or fit.tokens != 1:
        return ""
    other = deployment.model_copy(update={"usage_context": OTHER_CONTEXT, "max_num_batched_tokens": None})
    made = _resolved(other)
    if made is None or not fit.has(made.max_num_seqs):
        return ""
    if start.max_num_batched_tokens not in (None, made.max_num_batched_tokens):
        return ""  # Of its two defaults the log has another.
    return (
        f"; {made.max_num_seqs} is the default of an engine that neither `vllm serve` nor LLM starts, such as"
        f" AsyncLLMEngine (--usage-context {OTHER_CONTEXT})"
    )


def _taken(start: Start, deployment: Deployment, fits: list[Fit], now: Resolution, knows_seqs: bool) -> Settled:
    """The deployment of the first fit. Drafts that nobody named are worth a finding."""
    first = fits[0]
    chosen = now.max_num_seqs if knows_seqs else _round(first)
    changed = _with(deployment, chosen, first.tokens)
    if changed is None:
        return Settled(deployment)
    line = f"max_num_seqs {chosen}: the graphs of the log come of {_fits_text(fits)}"
    line += _of_other_context(start, deployment, first) if not knows_seqs else ""
    if first.tokens == 1 or first.tokens == now.uniform_decode_query_len:
        return Settled(changed, (line,), is_solved=True)
    text = f"drafts were on: {graphs_text(counted_in(start))} come of {_fits_text(fits)}"
    return Settled(changed, (line,), (Finding(OTHER_REQUESTS.code, "info", text, _flags(first)),), True)


def _round(fit: Fit) -> int:
    """The roundest number of requests of a fit: operators give such ones."""
    high = fit.high if fit.high is not None else fit.low
    return max(range(fit.low, min(high, fit.low + 512) + 1), key=lambda number: (number & -number, -number))


def _fits(deployment: Deployment, counted: Counted, now: Resolution) -> tuple[Fit, ...]:
    key = deployment.model_dump_json(), tuple(sorted(counted.items()))
    if key not in _KEPT:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = tuple(_found(deployment, counted, now))
    return _KEPT[key]


def _found(deployment: Deployment, counted: Counted, now: Resolution) -> Iterator[Fit]:
    order = sorted(range(1, MOST_TOKENS + 1), key=lambda tokens: (tokens != now.uniform_decode_query_len, tokens))
    for tokens in order:
        fit = _fit(deployment, counted, tokens, now.max_num_batched_tokens)
        if fit is not None:
            yield fit


def _fit(deployment: Deployment, counted: Counted, tokens: int, batched: int) -> Fit | None:
    """The requests of `tokens` tokens that give the graphs of the log; both counts only grow with the requests.

    Args:
        batched: max_num_batched_tokens; more requests than that do not start.
    """
    made: dict[int, Resolution | None] = {}

    def at(requests: int) -> Resolution | None:
        if requests not in made:
            changed = _with(deployment, requests, tokens)
            made[requests] = None if changed is None else _resolved(changed)
        return made[requests]

    most = min(MOST_REQUESTS, batched)
    low = _first(partial(_reaches, at, counted, 0), 1, most)
    if low is None or (found := at(low)) is None or not _agree(counted, found):
        return None
    above = _first(partial(_reaches, at, counted, 1), low, most)
    if above is None:
        return Fit(tokens, low, None)
    return Fit(tokens, low, above - 1) if above > low else None


def _reaches(at: Any, counted: Counted, more: int, requests: int) -> bool:
    """Whether so many requests give as many graphs as the log has (`more` 0: of each kind; 1: more of any)."""
    found = at(requests)
    if found is None:
        return False
    pairs = [(_of(found, kind), graphs) for kind, graphs in counted.items()]
    if more:
        return any(_size(own) > _size(graphs) for own, graphs in pairs)
    return all(own.number >= graphs.number and (own.largest or 0) >= (graphs.largest or 0) for own, graphs in pairs)


def _size(graphs: Graphs) -> tuple[int, int]:
    return graphs.number, graphs.largest or 0


def _first(holds: Any, low: int, high: int) -> int | None:
    """The least number of requests from `low` to `high` for which it holds, of what holds from some number on; None:
    for none."""
    if not holds(high):
        return None
    near = low + 32
    if near < high and holds(near):
        high = near
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _of(found: Resolution, kind: str) -> Graphs:
    mode = CUDAGraphMode(kind)
    return Graphs(found.graph_count(mode), max((one.num_tokens for one in found.captures.get(mode, ())), default=0))


def _agree(counted: Counted, found: Resolution) -> bool:
    for kind, graphs in counted.items():
        own = _of(found, kind)
        if own.number != graphs.number or graphs.largest not in (None, own.largest):
            return False
    return True


def _with(deployment: Deployment, requests: int, tokens: int) -> Deployment | None:
    """The deployment with so many requests, each with so many tokens in a decode step; None: it cannot have them."""
    changes: dict[str, Any] = {"max_num_seqs": requests}
    if tokens == 1:
        return deployment.model_copy(update={**changes, "speculative_config": None})
    own = deployment.speculative_config
    if own is not None:
        return deployment.model_copy(
            update={**changes, "speculative_config": own.model_copy(update={"num_speculative_tokens": tokens - 1})}
        )
    for method in METHODS:
        options = SpeculativeOptions(method=method, num_speculative_tokens=tokens - 1)
        changed = deployment.model_copy(update={**changes, "speculative_config": options})
        if _resolved(changed) is not None:
            return changed
    return None


def _resolved(deployment: Deployment) -> Resolution | None:
    try:
        return resolve(deployment)
    except CgplanError:
        return None


def graphs_text(counted: Counted) -> str:
    return " and ".join(
        f"{one.number} {kind} graphs{f' up to {one.largest}' if one.largest is not None else ''}"
        for kind, one in sorted(counted.items(), reverse=True)
    )


def _fits_text(fits: list[Fit] | tuple[Fit, ...]) -> str:
    said = ", or ".join(fit.as_text() for fit in fits[:MOST_SAID])
    return f"{said}, or others" if len(fits) > MOST_SAID else said


def _flags(fit: Fit) -> str:
    drafts = f" --spec-tokens {fit.tokens - 1}" if fit.tokens > 1 else ""
    return f"--max-num-seqs {_round(fit)}{drafts}, if the server was started so"


def _drafts(count: int) -> str:
    return f"{count} draft{'s' if count != 1 else ''}"
