"""What a comparison finds. Values are JSON values; None where a release has no such thing."""

from __future__ import annotations

from typing import Any

from ..deployment import Deployment
from ..light_dataclass import dataclass
from .snapshot import Snapshot


@dataclass(frozen=True)
class FactChange:
    """One entry of planner/releases/*.toml that differs between two releases.

    Attributes:
        path: topic and keys, "pipeline.grid.platform_cap.sm10".
        before, after: its value; None: there is none.
    """

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Cause:
    """A rule that made a change.

    Attributes:
        code: its code.
        kind: "new" or "gone": the rule came or went; "fact": a fact that it goes by changed; "input": it holds in both
            releases and decided differently, since what it looks at changed.
        why: what it says of this deployment.
        facts: the facts that changed, for kind "fact"; a new rule may bring some too.
    """

    code: str
    kind: str
    why: str
    facts: tuple[FactChange, ...] = ()


@dataclass(frozen=True)
class Step:
    """One change from a release to its neighbour.

    Attributes:
        previous, next: the two releases, in the direction of the comparison.
        release: the newer of the two, which brought the change (or, on a downgrade, takes it away).
        before, after: the value in each.
        causes: the rules; never empty.
        follows: fields whose change in the same step brought this one; then the causes are theirs.
    """

    previous: str
    next: str
    release: str
    before: Any
    after: Any
    causes: tuple[Cause, ...]
    follows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore:
    """How to keep what was.

    Attributes:
        setting: a flag, or NAME=VALUE of the environment; None: nothing restores it.
        note: what it costs or why there is none.
    """

    setting: str | None
    note: str


@dataclass(frozen=True)
class Change:
    """One field that differs between the two releases.

    Attributes:
        field: its name in the snapshot, "capture_sizes".
        label: the same for people.
        section: what it belongs to; see fields.SECTIONS.
        before, after: the value at either end.
        steps: every neighbouring pair where it changed, in order; the first starts at `before`, the last ends at
            `after`.
    """

    field: str
    label: str
    section: str
    before: Any
    after: Any
    steps: tuple[Step, ...]

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases in which it changed."""
        return tuple(step.release for step in self.steps)

    @property
    def codes(self) -> tuple[str, ...]:
        """Rules that made it, each once."""
        return tuple(dict.fromkeys(cause.code for step in self.steps for cause in step.causes))


@dataclass(frozen=True)
class Note:
    """One rule that a release changed.

    Attributes:
        release: the release that brought it; on a downgrade, that takes it away again.
        code: the rule.
        kind: "new", "gone" or "fact".
        facts: facts that the rule goes by and that differ.
    """

    release: str
    code: str
    kind: str
    facts: tuple[FactChange, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What changes between `first` and `last`.

    Attributes:
        deployment: what was compared.
        snapshots: one a release, from `first` to `last`.
        changes: what differs between the two ends.
        without_effect: rules at work here that changed on the way, though nothing came of it.
    """

    deployment: Deployment
    snapshots: tuple[Snapshot, ...]
    changes: tuple[Change, ...]
    without_effect: tuple[Note, ...] = ()

    @property
    def first(self) -> Snapshot:
        return self.snapshots[0]

    @property
    def last(self) -> Snapshot:
        return self.snapshots[-1]

    def change(self, field: str) -> Change | None:
        """The change of `field`, or None."""
        return next((change for change in self.changes if change.field == field), None)
