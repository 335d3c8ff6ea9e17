"""What the sources of a workload give: one part an engine, never joined unasked."""

from __future__ import annotations

from dataclasses import dataclass, field

from .histogram import Workload, merge

KINDS = ("tables", "iterations", "metrics", "file")


@dataclass(frozen=True)
class Settings:
    """What stands above a table of --cudagraph-metrics: mode and sizes as the frontend has them.

    The frontend does not hear of what the worker lowers when it knows its attention backends, so the mode may be
    higher than the one that runs.
    """

    mode: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """The steps of one engine.

    Attributes:
        name: as the source calls the engine ("engine 0", "2 engines together"), or "".
        workload: its steps.
        kind: one of KINDS.
        settings: of a table; None elsewhere.
        tables: how many tables were added up.
        facts: numbers the source gives beside the steps, by name (counters, gauges).
    """

    name: str
    workload: Workload
    kind: str
    settings: Settings | None = None
    tables: int = 0
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """All parts of one or more sources.

    Attributes:
        parts: one an engine, and one a set of settings where these changed.
        remarks: what a reader of the numbers has to know, in words.
        not_recognised: lines that look like the source's but were not understood.
    """

    parts: tuple[Part, ...]
    remarks: tuple[str, ...] = ()
    not_recognised: int = 0

    def split(self) -> tuple[Gathered, ...]:
        """One for each kind of source, the one that says most first; remarks stay with the first.

        Steps of several kinds are never added: tables, iteration lines and /metrics may count the same ones.
        """
        found = [tuple(part for part in self.parts if part.kind == kind) for kind in KINDS]
        given = [parts for parts in found if parts] or [()]
        first = Gathered(given[0], self.remarks, self.not_recognised)
        return (first, *(Gathered(parts) for parts in given[1:]))

    def together(self) -> Workload | None:
        """The steps of all engines, of the kind of source that says most; None where there are none."""
        parts = self.split()[0].parts
        return merge(part.workload for part in parts) if parts else None


def joined(*many: Gathered) -> Gathered:
    """Several sources side by side."""
    return Gathered(
        tuple(part for one in many for part in one.parts),
        tuple(dict.fromkeys(remark for one in many for remark in one.remarks)),
        sum(one.not_recognised for one in many),
    )
