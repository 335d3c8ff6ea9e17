"""A workload: batches with their counts. What a source only knows within bounds stays a range.

Counts are steps of one engine. Tokens are the scheduled tokens of a batch before padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import fsum, isfinite
from typing import Literal, NamedTuple, get_args

from ..errors import InputError
from ..vocabulary import CUDAGraphMode

Kind = Literal["decode", "mixed", "any"]
"""decode: every request has the same number of tokens and none is in prefill; mixed: all others; any: not known."""

KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_COUNT = 1e18
MAX_SIZE = 1 << 31
RUN_MODES = (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE)


class Range(NamedTuple):
    """Whole numbers `low` to `high`, inclusive; high None: no bound is known."""

    low: int
    high: int | None

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        if self.is_point:
            return str(self.low)
        return f"{self.low} or more" if self.high is None else f"{self.low}–{self.high}"


class Seen(NamedTuple):
    """What vLLM said that the batch ran in: mode, and tokens after padding."""

    mode: CUDAGraphMode
    padded: int


@dataclass(frozen=True)
class Batches:
    """Steps whose batches looked alike.

    Attributes:
        kind: see Kind.
        tokens: of the batch before padding; a range where the source has buckets.
        count: steps.
        requests: None: not known.
        query_len: tokens of each request of a decode batch; None: as the deployment has it.
        loras: distinct adapters in the batch.
        seen: what the source says that they ran in, or None.
    """

    kind: Kind
    tokens: Range
    count: float
    requests: Range | None = None
    query_len: int | None = None
    loras: int = 0
    seen: Seen | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise _wrong("kind", f"{self.kind!r} is none of {', '.join(KINDS)}", "name one of these")
        _check_range("tokens", self.tokens, 1)
        if not (isinstance(self.count, (int, float)) and 0 < self.count <= MAX_COUNT):
            raise _wrong("count", f"{self.count!r} is no number of steps", "give a number above 0")
        if self.loras < 0 or self.loras > MAX_SIZE:
            raise _wrong("loras", f"{self.loras} is no number of adapters", "give 0 or more")
        if self.query_len is not None and not 1 <= self.query_len <= MAX_SIZE:
            raise _wrong("query_len", f"{self.query_len} is no number of tokens", "give 1 or more")
        if self.query_len is not None and self.kind != "decode":
            raise _wrong("query_len", "only decode batches have one length of all requests", "leave it out")
        if self.requests is not None:
            _check_range("requests", self.requests, 1)
            self._check_requests(self.requests)
        if self.seen is not None and self.seen.mode not in RUN_MODES:
            raise _wrong("mode", f"{self.seen.mode} is no mode of a step", "give FULL, PIECEWISE or NONE")
        if self.seen is not None and self.seen.padded < self.tokens.low:
            raise _wrong("padded", f"{self.seen.padded} is below the {self.tokens.low} tokens", "give the padded size")

    def _check_requests(self, requests: Range) -> None:
        if self.tokens.high is not None and requests.low > self.tokens.high:
            message = f"{requests.low} requests have no {self.tokens.high} tokens"
            raise _wrong("requests", message, "give one token a request at least")
        if not (self.tokens.is_point and requests.is_point and self.kind == "decode"):
            return
        length = self.query_len
        if self.tokens.low % requests.low or (length is not None and self.tokens.low != requests.low * length):
            each = f" of {length} tokens" if length is not None else ""
            message = f"{requests.low} decode requests{each} are not {self.tokens.low} tokens"
            raise _wrong("tokens", message, "name the kind mixed where requests differ in length")

    @property
    def is_exact(self) -> bool:
        """The size is one number, and either the kind is known or what the batch ran in."""
        return self.tokens.is_point and (self.kind != "any" or self.seen is not None)


_Key = tuple[Kind, Range, "Range | None", "int | None", int, "Seen | None"]


@dataclass(frozen=True)
class Workload:
    """Batches with their counts, each description once, by falling count.

    Attributes:
        batches: never empty.
        source: where they are from, in words for a person.
    """

    batches: tuple[Batches, ...]
    source: str = ""

    @property
    def steps(self) -> float:
        """The sum of the counts."""
        return fsum(item.count for item in self.batches)

    @property
    def exact(self) -> bool:
        """Every size is one number and every kind known, or what it ran in."""
        return all(item.is_exact for item in self.batches)

    def scaled(self, factor: float) -> Workload:
        """The same shares, every count times `factor`.

        Raises:
            InputError: CG903, `factor` is not above 0.
        """
        if not (isfinite(factor) and factor > 0):
            raise _wrong("factor", f"{factor!r} does not scale a workload", "give a finite number above 0")
        return replace(self, batches=tuple(replace(item, count=item.count * factor) for item in self.batches))


def workload_of(batches: Iterable[Batches], source: str = "") -> Workload:
    """A workload; counts of one description are added.

    Raises:
        InputError: CG903, there is no batch.
    """
    counts: dict[_Key, float] = {}
    for item in batches:
        key = _key(item)
        counts[key] = counts.get(key, 0) + item.count
    if not counts:
        raise _wrong("batches", "a workload without a step says nothing", "give one batch at least")
    return Workload(tuple(_from_counts(counts)), source)


def merge(workloads: Iterable[Workload], source: str = "") -> Workload:
    """All steps of all of them: counts are added.

    Raises:
        InputError: CG903, there is none.
    """
    given = tuple(workloads)
    text = source or "; ".join(dict.fromkeys(item.source for item in given if item.source))
    return workload_of((batch for item in given for batch in item.batches), text)


def difference(later: Workload, earlier: Workload) -> Workload | None:
    """What was counted after `earlier`, by a source whose counts only grow; None where nothing was.

    Raises:
        InputError: CG903, a count fell: the two are not of one run.
    """
    counts = {_key(item): item.count for item in later.batches}
    for item in earlier.batches:
        left = counts.get(_key(item), 0) - item.count
        if left < 0:
            message = f"batches of {item.tokens} tokens were counted {item.count:g} times, later {left + item.count:g}"
            raise _wrong("count", message, "give two snapshots of one run, the earlier one first")
        counts[_key(item)] = left
    grown = {key: count for key, count in counts.items() if count > 0}
    return Workload(tuple(_from_counts(grown)), later.source) if grown else None


def _key(item: Batches) -> _Key:
    return (item.kind, item.tokens, item.requests, item.query_len, item.loras, item.seen)


def _from_counts(counts: dict[_Key, float]) -> list[Batches]:
    made = [
        Batches(kind, tokens, count, requests, query_len, loras, seen)
        for (kind, tokens, requests, query_len, loras, seen), count in counts.items()
    ]
    return sorted(made, key=_order)


def _order(item: Batches) -> tuple[float, int, int, str, int, int]:
    high = item.tokens.high if item.tokens.high is not None else MAX_SIZE
    requests = item.requests.low if item.requests is not None else 0
    return (-item.count, item.tokens.low, high, item.kind, requests, item.loras)


def _check_range(name: str, value: Range, least: int) -> None:
    if not least <= value.low <= MAX_SIZE or (value.high is not None and not value.low <= value.high <= MAX_SIZE):
        raise _wrong(name, f"{value} is no count of {least} or more", "give whole numbers, the lower one first")


def _wrong(where: str, message: str, fix: str) -> InputError:
    return InputError(f"{where}: {message}", code="CG903", where=where, fix=fix)
