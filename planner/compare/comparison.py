"""Two releases compared for one deployment: one resolution a release, neighbours laid side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..deployment import Deployment
from ..errors import CgplanError, StartupError
from ..releases import canonical
from .causes import StepCauses, relevant_moves
from .changes import Change, Comparison, Note, Step
from .fields import SECTIONS, field_of
from .path import newer, releases_between
from .snapshot import Snapshot, differ, snapshot

OFF_THE_CACHE = "graph_memory_deducted"
TOO_WIDE = ("pipeline.batch_limits.rows", "backends.backend.")
"""Facts of which most are about other GPUs and models; they are told only where something came of them."""


def compare(
    deployment: Deployment,
    first: str,
    last: str,
    refused: Mapping[str, CgplanError] | None = None,
    *,
    kv_is_given: bool = False,
) -> Comparison:
    """What changes for `deployment` from release `first` to `last`; the older may be either.

    One resolution a release is made. `deployment.vllm` does not count.

    Args:
        refused: why vLLM of a release does not take the command line of the deployment, by release.
        kv_is_given: --kv-cache-memory-bytes sizes the KV cache, so that nothing is taken off it.

    Raises:
        InputError: a release is not supported, or no release between the two can make anything of the deployment.
    """
    snapshots = _snapshots(deployment, releases_between(canonical(first), canonical(last)), refused or {})
    errors = [s.error for s in snapshots]
    if errors[0] is not None and all(e is not None and not isinstance(e, StartupError) for e in errors):
        raise errors[0]
    causes = _Causes(snapshots, deployment)
    changes = [
        _change(name, snapshots, causes)
        for name in _names(snapshots[0], snapshots[-1])
        if differ(name, snapshots[0], snapshots[-1]) and not (kv_is_given and name == OFF_THE_CACHE)
    ]
    order = list(SECTIONS)
    changes.sort(key=lambda change: order.index(change.section))
    return Comparison(deployment, snapshots, tuple(changes), _without_effect(snapshots, changes, deployment))


def codes_between(comparison: Comparison, previous: str, following: str, field: str) -> tuple[str, ...]:
    """The rules that moved `field` between two releases of the way; () where it did not move, or one does not start."""
    sides = {one.release: one for one in comparison.snapshots}
    before, after = sides[previous], sides[following]
    if not (before.starts and after.starts and differ(field, before, after)):
        return ()
    causes, _ = StepCauses(before, after, releases_between(previous, following), comparison.deployment).of(field)
    return tuple(cause.code for cause in causes)


def _snapshots(deployment: Deployment, path: Sequence[str], refused: Mapping[str, CgplanError]) -> tuple[Snapshot, ...]:
    found: list[Snapshot] = []
    for release in path:
        error = refused.get(release)
        if error is not None:
            found.append(Snapshot(release, {"startup": error.as_dict()}, error=error))
            continue
        found.append(snapshot(deployment, release, found[-1] if found else None))
    return tuple(found)


def _without_effect(
    snapshots: Sequence[Snapshot], changes: Sequence[Change], deployment: Deployment
) -> tuple[Note, ...]:
    """Rules at work here that go by other facts in a release, though nothing came of it.

    Rules that came or went are left out: another one is at work in their place.
    """
    told = {(step.release, cause.code) for change in changes for step in change.steps for cause in step.causes}
    found = []
    for before, after in pairwise(snapshots):
        if not (before.starts and after.starts):
            continue
        release = newer(before.release, after.release)
        at_work = {decision.code for decision in (*before.decisions, *after.decisions)}
        moved = relevant_moves((before.release, after.release), deployment, before.backends | after.backends)
        for code, move in sorted(moved.items()):
            facts = tuple(fact for fact in move.facts if not fact.path.startswith(TOO_WIDE))
            if code in at_work and move.kind == "fact" and facts and (release, code) not in told:
                found.append(Note(release, code, move.kind, facts))
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


def _change(name: str, snapshots: Sequence[Snapshot], causes: _Causes) -> Change:
    field = field_of(name)
    first, last = snapshots[0], snapshots[-1]
    return Change(
        field=name,
        label=field.label,
        section=field.section,
        before=first.values.get(name),
        after=last.values.get(name),
        steps=_steps(name, snapshots, causes),
    )


def _steps(name: str, snapshots: Sequence[Snapshot], causes: _Causes) -> tuple[Step, ...]:
    """Where the value changed. Releases at which vLLM does not start say nothing and are passed over."""
    steps = []
    known = [i for i, s in enumerate(snapshots) if name == "startup" or s.starts]
    for start, end in pairwise(known):
        if not differ(name, snapshots[start], snapshots[end]):
            continue
        before, after = snapshots[start].values.get(name), snapshots[end].values.get(name)
        found, follows = causes.between(start, end).of(name)
        previous, following = snapshots[end - 1].release, snapshots[end].release
        steps.append(Step(previous, following, newer(previous, following), before, after, found, follows))
    return tuple(steps)
