"""What a replay tells an operator: shares that missed, padding, and where the log and the resolution part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import as_fix
from ...resolve.resolution import Resolution
from ...trace import Finding, Rule
from ..gathered import Gathered, Settings
from ..rules import BEYOND_LIMITS, BUCKETS, MANY_MISSED, OTHER_SIZES, SEEN_OTHERWISE, TRAFFIC_PADDING
from .words import percent, percents

if TYPE_CHECKING:
    from .replay import Missed, Replay

MISSED = 0.01
"""Share of the steps from which on those that missed are worth a word."""
WASTED = 0.10
"""Share of padding in all computed tokens from which on it is worth a word; by default sizes it is mostly below."""
NAMED = 3
WHERE_OF_KIND = {"decode": "for decode batches", "mixed": "for those with a prefill", "any": "for the others"}
OF_KIND = {"decode": "of decode batches, ", "mixed": "with a prefill, ", "any": ""}


def of(made: Replay) -> tuple[Finding, ...]:
    """The findings of a replay."""
    found = (_seen_otherwise(made), _beyond(made), _missed(made), _padding(made), _buckets(made))
    return tuple(finding for finding in found if finding is not None)


def settings_differ(settings: Settings, resolution: Resolution) -> Finding | None:
    """That the settings above a table are not those of the resolution, before what the worker changes of them."""
    differing = []
    if settings.mode != str(resolution.configured_mode):
        differing.append(f"mode {settings.mode}, resolved {resolution.configured_mode}")
    ours = tuple(resolution.config.get("cudagraph_capture_sizes") or ())
    theirs = tuple(sorted(settings.sizes))
    if theirs != ours:
        differing.append(f"{_sizes(theirs)}, resolved {_sizes(ours)}")
    if not differing:
        return None
    return _finding(OTHER_SIZES, "warning", f"the tables are of other settings: {'; '.join(differing)}")


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"{len(sizes)} sizes up to {sizes[-1]}" if sizes else "no sizes"


def _seen_otherwise(made: Replay) -> Finding | None:
    of_mode = [one for one in made.differences if one.is_of_mode]
    shown = of_mode or made.differences
    if not shown:
        return None
    first, steps = shown[0], sum(one.count for one in shown)
    ran, is_now = f"ran {first.seen.mode} as {first.seen.padded}", f"{first.resolved.mode} as {first.resolved.computed}"
    message = f"{percent(steps, made.total.steps)} of the steps ran otherwise than resolved: of {first.tokens} tokens "
    if not of_mode and made.resolution.data_parallel_ranks > 1:
        message += f"as {first.seen.padded}, not {first.resolved.computed}. Ranks agree on the largest size of any"
        return _finding(SEEN_OTHERWISE, "info", message)
    return _finding(SEEN_OTHERWISE, "warning", f"{message}they {ran}; resolved: {is_now}")


def _beyond(made: Replay) -> Finding | None:
    if not made.beyond:
        return None
    limits = f"max_num_seqs {made.resolution.max_num_seqs}, {made.resolution.max_num_batched_tokens} tokens a step"
    message = f"{percent(made.beyond, made.total.steps)} of the steps are larger than the deployment lets in: {limits}"
    return _finding(BEYOND_LIMITS, "warning", message)


def _missed(made: Replay) -> Finding | None:
    """Decode steps that missed are worth a warning, steps with a prefill a word."""
    worth = [one for one in made.missed if one.steps.low >= MISSED * made.total.steps]
    if not worth:
        return None
    is_decode = any(one.kind != "mixed" for one in worth)
    text = "; ".join(
        f"{percent(one.steps.low, made.total.steps)} {OF_KIND[one.kind]}{one.reason.message} ({one.reason.code})"
        for one in worth[:NAMED]
    )
    ran = "missed the graph wanted for them"
    fix = _fix_of(worth[:NAMED])
    return Finding(MANY_MISSED.code, "warning" if is_decode else "info", f"steps {ran}: {text}", fix, None)


def _fix_of(worth: Sequence[Missed]) -> str:
    """What to do: of each reason its own, those of decode batches first."""
    ordered = sorted(worth, key=lambda one: one.kind == "mixed")
    fixes = {one.reason.fix: one for one in reversed(ordered)}
    if len(fixes) == 1:
        return ordered[0].reason.fix
    return "; ".join(
        f"{WHERE_OF_KIND[one.kind]} ({one.reason.code}): {as_fix(one.reason.fix)}"
        for one in ordered
        if fixes[one.reason.fix] is one
    )


def _padding(made: Replay) -> Finding | None:
    """Of the kind of batches that has the largest share; long prefills would hide what decode steps waste."""
    kind, found = max(made.by_kind.items(), key=lambda one: one[1].waste.low)
    if found.waste.low < WASTED or found.steps < MISSED * made.total.steps:
        return None
    worst = sorted((one for one in made.paddings if one.kind == kind), key=lambda one: (-one.padding, one.tokens))[
        :NAMED
    ]
    named = ", ".join(f"{one.tokens} as {one.computed}" for one in worst)
    steps = {"decode": "decode steps", "mixed": "steps with a prefill", "any": "these steps"}[kind]
    message = f"{percent(found.waste.low, 1)} of the tokens that {steps} compute are padding"
    return _finding(TRAFFIC_PADDING, "info", f"{message}, most of it in batches of {named}" if named else message)


def _buckets(made: Replay) -> Finding | None:
    if made.workload.exact or all(item.tokens.is_point for item in made.workload.batches):
        return None
    full = made.total.share(made.resolution.decode_mode)
    message = f"the source has buckets, so shares are bounds: {made.resolution.decode_mode} {percents(full)}"
    return _finding(BUCKETS, "info", message)


def _finding(rule: Rule, severity: str, message: str) -> Finding:
    return Finding(rule.code, severity, message, rule.instead, None)


def findings_of_parts(gathered: Gathered, resolution: Resolution | None) -> tuple[Finding, ...]:
    """Where the settings above the tables are not those of the resolution, each difference once."""
    if resolution is None:
        return ()
    found = [settings_differ(part.settings, resolution) for part in gathered.parts if part.settings is not None]
    return tuple(dict.fromkeys(finding for finding in found if finding is not None))
