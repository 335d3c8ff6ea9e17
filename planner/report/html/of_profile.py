"""The section on a profile: the three answers to what graphs take, and the times of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import InputError, shorten
from ...memory.estimates import GIB, MIB
from ...memory.profile.worth import Left
from ..profile_text import NAMES, NOTHING_KEPT, is_all_one
from ..words import counted
from .blocks import Block, Figure, Grouped, Heading, Items, Line, Section, table
from .rules import NO_TIMINGS

MOST = 64
"""Batch sizes, ranks and notes that are shown."""

_Seconds = Annotated[float, Field(ge=0, lt=1e6, allow_inf_nan=False)]
_Bytes = Annotated[float, Field(gt=-1e18, lt=1e18, allow_inf_nan=False)]
_Text = Annotated[str, Field(max_length=2000)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Times(_Part):
    median: _Seconds
    low: _Seconds
    high: _Seconds


class _Step(_Part):
    num_tokens: Annotated[int, Field(ge=1, le=1 << 31)]
    eager: _Times | None = None
    full: _Times | None = None
    piecewise: _Times | None = None


class _Bounds(_Part):
    low: _Bytes
    best: _Bytes
    high: _Bytes


class _Answers(_Part):
    two: _Bytes | None
    auto: _Bounds | None
    all: _Bytes | None


class _Rank(_Part):
    rank: int
    graph_bytes: _Answers
    seconds: _Seconds
    steps: list[_Step] = []
    captures: list[dict[str, Any]] = []


class _Machine(_Part):
    gpu: _Text
    engine: _Text
    torch: _Text | None = None
    date: _Text | None = None


class Timings(_Part):
    """The part `profile` of a record, as far as a page shows it."""

    machine: _Machine
    graphs: dict[str, int]
    captured: dict[str, int]
    stopped: _Text | None = None
    ranks: list[_Rank]
    launch_bound_up_to: int | None = None
    notes: list[_Text] = []
    cost_seconds: dict[str, Any] | None = None

    @property
    def has_costs(self) -> bool:
        """Whether it says what a step costs by size."""
        return any((self.cost_seconds or {}).values())


def timings(document: Mapping[str, Any], where: str) -> Timings | None:
    """The timings of a measured record; None: it has none, such as one of a startup log.

    Raises:
        InputError: CG731, they have another form.
    """
    given = document.get("profile")
    if given is None:
        return None
    try:
        return Timings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in ("profile", *first["loc"]))
        raise InputError(
            f"{where}: {shorten(path, 80)}: {first['msg'][0].lower()}{first['msg'][1:]}",
            code=NO_TIMINGS.code,
            where=where,
            fix="give the file as `cgplan profile --json FILE` wrote it",
        ) from None


def profile(found: Timings, worth: Mapping[str, Left] | str) -> Section:
    """What was measured.

    Args:
        worth: the KV cache that each answer leaves, or why it is not planned.
    """
    done, every = sum(found.captured.values()), sum(found.graphs.values())
    machine = found.machine
    about = [machine.gpu, f"engine {machine.engine}", f"torch {machine.torch}" if machine.torch else ""]
    about += [f"{done} of {every} graphs", (machine.date or "")[:10]]
    blocks: list[Block] = [Line(", ".join(part for part in about if part), faint=True)]
    if found.stopped:
        blocks.append(Line(f"It stopped early: {found.stopped}. This is what was measured by then.", "error"))
    for one in found.ranks[:MOST]:
        blocks += _answers(one, len(found.ranks), worth)
    if isinstance(worth, str):
        blocks.append(Line(f"The KV cache is not planned: {worth}", "warning"))
    if found.ranks:
        blocks += _times(found.ranks[0], found.launch_bound_up_to)
    if found.notes:
        blocks += [Heading("Notes of the profile"), Items(tuple(found.notes[:MOST]))]
    return Section("profile", "Profile", tuple(blocks))


def _answers(one: _Rank, ranks: int, worth: Mapping[str, Left] | str) -> Iterable[Block]:
    of_rank = f", rank {one.rank}" if ranks > 1 else ""
    title = f"What all graphs take: three answers{of_rank}"
    rows: list[tuple[str, ...]] = []
    truth = one.graph_bytes.all
    for key, label in NAMES.items():
        value = getattr(one.graph_bytes, key)
        if value is None:
            continue
        best = value.best if isinstance(value, _Bounds) else value
        spread = f"{value.low / MIB:.0f} to {value.high / MIB:.0f}" if isinstance(value, _Bounds) else ""
        off = f"{(best - truth) / truth:+.1%}" if truth and key != "all" else ""
        left = worth.get(key) if not isinstance(worth, str) else None
        cache = "" if left is None else f"{left.kv_bytes / GIB:.2f}"
        tokens = "" if left is None or left.tokens is None else f"{left.tokens:,}"
        rows.append((label, f"{best / MIB:.0f}", spread, off, cache, tokens))
    if not rows:
        return
    head = ("answer", "MiB", "bounds", "off the truth", "KV cache GiB", "tokens")
    kept = [at for at in range(len(head)) if at < 2 or any(row[at] for row in rows)]
    yield Heading(title)
    yield table(
        title,
        tuple(head[at] for at in kept),
        [tuple(row[at] for at in kept) for row in rows],
        tuple(range(1, len(kept))),
    )
    if not isinstance(worth, str) and is_all_one(list(worth.values())):
        yield Line(NOTHING_KEPT, faint=True)


_SERIES = (("eager", "eager"), ("piecewise", "PIECEWISE"), ("full", "FULL"))


def _times(one: _Rank, bound: int | None) -> Iterable[Block]:
    steps = [step for step in one.steps if any(getattr(step, key) for key, _ in _SERIES)][:MOST]
    if not steps:
        return
    there = [(key, name) for key, name in _SERIES if any(getattr(step, key) for step in steps)]
    series = tuple(
        (key, tuple(None if (t := getattr(step, key)) is None else _bar(step, name, t) for step in steps))
        for key, name in there
    )
    head = ("tokens", *(f"{name} ms" for _, name in there), "best gain")
    rows = [(str(step.num_tokens), *(_ms(getattr(step, key)) for key, _ in there), _gain(step)) for step in steps]
    summary = (
        "Not bound by launches at any measured size: graphs gain little here."
        if bound is None
        else f"Bound by launches up to {counted(bound, 'token')}: there a graph is faster than eager by more than 5%."
    )
    title = "A decode step by tokens, milliseconds"
    yield Figure(
        title,
        summary,
        Grouped(tuple(str(step.num_tokens) for step in steps), series, "ms"),
        tuple(there),
        table(title, head, rows, tuple(range(len(head)))),
    )


def _bar(step: _Step, name: str, times: _Times) -> tuple[float, str]:
    return 1000 * times.median, f"{counted(step.num_tokens, 'token')}, {name}: {_ms(times)} ms"


def _ms(times: _Times | None) -> str:
    if times is None:
        return ""
    return f"{1000 * times.median:.2f} ±{500 * (times.high - times.low):.2f}"


def _gain(step: _Step) -> str:
    graphs = [times.median for times in (step.full, step.piecewise) if times is not None and times.median]
    return f"{step.eager.median / min(graphs):.2f}x" if step.eager is not None and graphs else ""
