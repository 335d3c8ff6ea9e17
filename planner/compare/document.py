"""The JSON document of `cgplan diff`.

Top level:
    schema_version: 1.
    from, to: releases, in the direction of the comparison.
    changed: whether anything changed.
    deployment: {model, gpu}, or null where no deployment was given.
    releases: [{release, starts, error}] from `from` to `to`; [] without a deployment.
    changes: [{field, label, section, before, after, added, removed, steps, restore}]; [] without a deployment.
        added, removed: items of `before` and `after` where both are lists, else null.
        steps: [{from, to, release, before, after, causes, follows}], one for each release that changed it.
        causes: [{code, kind, why, title, instead, facts}]; kind is "new", "gone", "fact" or "input".
        restore: {setting, note}; setting is a flag, NAME=VALUE, or null.
    without_effect: rules at work in this deployment that changed though nothing came of it, as in notes.
    notes: [{release, code, kind, title, instead, facts}], or null with a deployment.
        facts: [{path, before, after}].
    memory: {from, to, changes, new, gone}: what `cgplan plan` says at both ends; null where the weights of the model
        are not known, or a release refuses the deployment. from, to: {release, fits, starts, kv_tokens, deducted_bytes,
        block_size, max_num_seqs_that_fits, findings}; changes: [{field, before, after, releases}]; new, gone: findings.
    assumptions, not_modelled: lines, as in the document of `cgplan resolve`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..trace import RULES
from .changes import Cause, Change, Comparison, FactChange, Note, Restore, Step
from .restore import restores
from .snapshot import Snapshot

SCHEMA_VERSION = 1


def comparison_document(
    comparison: Comparison,
    model: str,
    gpu: str,
    assumptions: Iterable[str] = (),
    not_modelled: Iterable[str] = (),
    memory: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a comparison for one deployment. `memory`: its section, written; None: there is none."""
    kept = restores(comparison)
    return {
        "schema_version": SCHEMA_VERSION,
        "from": comparison.first.release,
        "to": comparison.last.release,
        "changed": bool(comparison.changes or (memory is not None and memory["changes"])),
        "deployment": {"model": model, "gpu": gpu},
        "releases": [_release(s) for s in comparison.snapshots],
        "changes": [_change(change, kept[change.field]) for change in comparison.changes],
        "without_effect": [_note(note) for note in comparison.without_effect],
        "notes": None,
        "memory": memory,
        "assumptions": list(assumptions),
        "not_modelled": list(not_modelled),
    }


def notes_document(first: str, last: str, notes: Iterable[Note]) -> dict[str, Any]:
    """The document of the release notes, without a deployment."""
    listed = [_note(note) for note in notes]
    return {
        "schema_version": SCHEMA_VERSION,
        "from": first,
        "to": last,
        "changed": bool(listed),
        "deployment": None,
        "releases": [],
        "changes": [],
        "without_effect": [],
        "notes": listed,
        "memory": None,
        "assumptions": [],
        "not_modelled": [],
    }


def added_and_removed(before: Any, after: Any) -> tuple[list[Any] | None, list[Any] | None]:
    """Items that only `after`, and only `before`, has; None where they are no lists."""
    if not isinstance(before, list) or not isinstance(after, list):
        return None, None
    return [item for item in after if item not in before], [item for item in before if item not in after]


def _release(s: Snapshot) -> dict[str, Any]:
    return {"release": s.release, "starts": s.starts, "error": None if s.error is None else s.error.as_dict()}


def _change(change: Change, restore: Restore) -> dict[str, Any]:
    added, removed = added_and_removed(change.before, change.after)
    return {
        "field": change.field,
        "label": change.label,
        "section": change.section,
        "before": change.before,
        "after": change.after,
        "added": added,
        "removed": removed,
        "steps": [_step(step) for step in change.steps],
        "restore": {"setting": restore.setting, "note": restore.note},
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "from": step.previous,
        "to": step.next,
        "release": step.release,
        "before": step.before,
        "after": step.after,
        "causes": [_cause(cause) for cause in step.causes],
        "follows": list(step.follows),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"code": cause.code, "kind": cause.kind, "why": cause.why, **_text(cause.code), "facts": _facts(cause.facts)}


def _note(note: Note) -> dict[str, Any]:
    return {
        "release": note.release,
        "code": note.code,
        "kind": note.kind,
        **_text(note.code),
        "facts": _facts(note.facts),
    }


def _text(code: str) -> dict[str, str]:
    return {"title": RULES[code].title, "instead": RULES[code].instead}


def _facts(facts: Iterable[FactChange]) -> list[dict[str, Any]]:
    return [{"path": fact.path, "before": fact.before, "after": fact.after} for fact in facts]
