"""Two releases compared for one deployment: one resolution a release, neighbours laid side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..deployment import Deployment
from ..errors import StartupError
from ..releases import canonical
from .causes import StepCauses, relevant_moves
from .changes import Change, Comparison, Note, Step
from .fields import SECTIONS, field_of
from .path import newer, releases_between
from .restore import restore
from .snapshot import Snapshot, snapshot


def compare(deployment: Deployment, first: str, last: str) -> Comparison:
    """What changes for `deployment` from release `first` to `last`; the older may be either.

    One resolution a release is made. `deployment.vllm` does not count.

    Raises:
        InputError: a release is not supported, or no release between the two can make anything of the deployment.
    """
    snapshots = tuple(snapshot(deployment, release) for release in releases_between(canonical(first), canonical(last)))
    errors = [s.error for s in snapshots]
    if errors[0] is not None and all(e is not None and not isinstance(e, StartupError) for e in errors):
        raise errors[0]
    causes = _Causes(snapshots, deployment)
    changes = [
        _change(name, deployment, snapshots, causes)
        for name in _names(snapshots[0], snapshots[-1])
        if snapshots[0].values.get(name) != snapshots[-1].values.get(name)
    ]
    order = list(SECTIONS)
    changes.sort(key=lambda change: order.index(change.section))
    return Comparison(snapshots, tuple(changes), _without_effect(snapshots, changes, deployment))


def _without_effect(
    snapshots: Sequence[Snapshot], changes: Sequence[Change], deployment: Deployment
) -> tuple[Note, ...]:
    """Rules at work here that a release changed, though nothing came of it."""
    told = {(step.release, cause.code) for change in changes for step in change.steps for cause in step.causes}
    found = []
    for before, after in zip(snapshots, snapshots[1:], strict=False):
        release = newer(before.release, after.release)
        at_work = {decision.code for decision in (*before.decisions, *after.decisions)}
        moved = relevant_moves((before.release, after.release), deployment, before.backends | after.backends)
        for code, move in sorted(moved.items()):
            if code in at_work and (release, code) not in told:
                found.append(Note(release, code, move.kind, move.facts))
    return tuple(found)


def _names(first: Snapshot, last: Snapshot) -> list[str]:
    """Fields that can be compared: where one side does not start, only that."""
    if not (first.starts and last.starts):
        return ["startup"]
    return list(dict.fromkeys([*first.values, *last.values]))


class _Causes:
    """StepCauses by pair of snapshots."""

    def __init__(self, snapshots: Sequence[Snapshot], deployment: Deployment) -> None:
        self._snapshots, self._deployment = snapshots, deployment
        self._found: dict[tuple[int, int], StepCauses] = {}

    def between(self, start: int, end: int) -> StepCauses:
        key = (start, end)
        if key not in self._found:
            path = tuple(s.release for s in self._snapshots[start : end + 1])
            self._found[key] = StepCauses(self._snapshots[start], self._snapshots[end], path, self._deployment)
        return self._found[key]


def _change(name: str, deployment: Deployment, snapshots: Sequence[Snapshot], causes: _Causes) -> Change:
    field = field_of(name)
    first, last = snapshots[0], snapshots[-1]
    return Change(
        field=name,
        label=field.label,
        section=field.section,
        before=first.values.get(name),
        after=last.values.get(name),
        steps=_steps(name, snapshots, causes),
        restore=restore(name, deployment, first, last),
    )


def _steps(name: str, snapshots: Sequence[Snapshot], causes: _Causes) -> tuple[Step, ...]:
    """Where the value changed. Releases at which vLLM does not start say nothing and are passed over."""
    steps = []
    known = [i for i, s in enumerate(snapshots) if name == "startup" or s.starts]
    for start, end in zip(known, known[1:], strict=False):
        before, after = _value(snapshots[start], name), _value(snapshots[end], name)
        if before == after:
            continue
        found, follows = causes.between(start, end).of(name)
        previous, following = snapshots[end - 1].release, snapshots[end].release
        steps.append(Step(previous, following, newer(previous, following), before, after, found, follows))
    return tuple(steps)


def _value(side: Snapshot, name: str) -> Any:
    return side.values.get(name)
