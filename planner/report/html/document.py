"""The page of a deployment, put together from its sections."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._version import __version__
from ...inputs.launches.secret_names import is_secret_name
from ...inputs.secret_shapes import HIDDEN
from ...memory.capacity_plan import CapacityPlan, capture_time
from ...memory.profile.worth import Left
from ...memory.what_if import BuyBack
from ...trace import Finding
from ...workload.gathered import Gathered
from .. import plan_words as words
from ..bars import NAMES
from ..plan_graphs import seconds_of_capture
from ..plan_text import Titles
from ..words import counted
from . import of_memory, of_profile, of_resolution, of_workload
from .blocks import Block, Findings, Heading, Items, Page, Section, Tone, table

if TYPE_CHECKING:
    from ...workload.tune.tuning import Tuning

MOST_FINDINGS = 200
_ORDER = ("error", "warning", "info")
_TONES: Mapping[str, Tone] = {"info": "good", "warning": "warning", "error": "error"}


class Facts(NamedTuple):
    """What a page is of.

    Attributes:
        plan, titles: the deployment's plan, and how it is named.
        bought: what other graphs give back.
        assumptions, not_modelled: sentences.
        timings, worth: of a profile; None: none was given.
        gathered: the steps of a workload; None: none was given.
        tuning: the capture sizes for it, or why none are chosen; None: no workload was given.
    """

    plan: CapacityPlan
    titles: Titles
    bought: Sequence[BuyBack] = ()
    assumptions: Sequence[str] = ()
    not_modelled: Sequence[str] = ()
    timings: of_profile.Timings | None = None
    worth: Mapping[str, Left] | str = ""
    gathered: Gathered | None = None
    tuning: Tuning | str | None = None


def page(facts: Facts) -> Page:
    """The page; it may still hold what must not be shown, see masking.py."""
    made = facts.plan
    found = findings_of(made)
    verdict, style = words.headline(made)
    sections = [
        _findings(found),
        of_resolution.resolution(made.resolution),
        of_memory.budget(made),
        of_memory.cache(made),
        of_memory.graphs(made, facts.bought),
    ]
    if facts.timings is not None:
        sections.append(of_profile.profile(facts.timings, facts.worth))
    if facts.gathered is not None:
        sections.append(of_workload.workload(facts.gathered, made.resolution))
    if facts.tuning is not None:
        from . import of_tuning

        chosen = facts.tuning
        sections.append(of_tuning.no_tuning(chosen) if isinstance(chosen, str) else of_tuning.tuning(chosen))
    sections += [of_resolution.decisions(made.resolution), _asked(facts)]
    return Page(
        "CUDA graphs and memory",
        facts.titles.line(made.resolution.vllm_version),
        verdict,
        _TONES.get(style, ""),
        tuple(_key(made, found)),
        tuple(sections),
        f"Made by cgplan {__version__}.",
    )


def findings_of(made: CapacityPlan) -> tuple[Finding, ...]:
    """What the plan and the resolution found, each once, most pressing first."""
    every = dict.fromkeys((*made.findings, *made.resolution.findings))
    return tuple(sorted(every, key=lambda one: _ORDER.index(one.severity) if one.severity in _ORDER else 9))


def _key(made: CapacityPlan, found: Sequence[Finding]) -> list[tuple[str, str]]:
    """The few numbers at the top. A server that does not start by the best estimate runs and captures nothing."""
    resolution = made.resolution
    count = resolution.graph_count()
    name = "CUDA graphs" if made.fits else "CUDA graphs, asked for"
    key = [(name, f"{resolution.cudagraph_mode.value}, {counted(count, 'graph')}")]
    decode = resolution.uniform_decode_coverage().ranges
    if decode and made.fits:
        first = decode[0]
        last = next((one.first - 1 for one in decode if one.mode is not first.mode), decode[-1].last)
        key.append(("Decode batches", f"{NAMES[first.mode]} up to {counted(last, 'request')}"))
    pairs = dict(words.cache_lines(made))
    key += [(name, pairs[name]) for name in ("KV cache", "KV tokens", "Concurrency") if name in pairs]
    time = capture_time(made) if made.fits else None
    if time is not None:
        key.append(("Capture", f"{seconds_of_capture(time)} at the start"))
    numbers = {sign: sum(one.severity == sign for one in found) for sign in _ORDER}
    told = [counted(number, sign) for sign, number in numbers.items() if number]
    key.append(("Findings", ", ".join(told) or "none"))
    return key


def _findings(found: Sequence[Finding]) -> Section:
    shown = found[:MOST_FINDINGS]
    blocks: list[Block] = [Findings(tuple(shown))] if shown else []
    if len(found) > len(shown):
        blocks.append(Items((f"And {len(found) - len(shown)} more.",)))
    return Section("findings", "Findings", tuple(blocks))


def _asked(facts: Facts) -> Section:
    """What was asked, and what was assumed where nothing was said."""
    rows = [(name, _said(name, value)) for name, value in _settings(facts.plan).items()]
    blocks: list[Block] = [table("Settings that were given", ("setting", "value"), rows, folded=True)] if rows else []
    for title, texts in (("Assumed", facts.assumptions), ("Not modelled", facts.not_modelled)):
        if texts:
            blocks += [Heading(title), Items(tuple(texts))]
    return Section("deployment", "Deployment", tuple(blocks))


def _settings(made: CapacityPlan) -> dict[str, Any]:
    left_out = {"model", "gpu", "software"}
    found: dict[str, Any] = made.deployment.model_dump(exclude_unset=True, exclude=left_out, mode="json")
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


def _said(name: str, value: Any) -> str:
    if is_secret_name(name):
        return HIDDEN
    return value if isinstance(value, str) else json.dumps(_without_secrets(value), ensure_ascii=False)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: HIDDEN if is_secret_name(str(key)) else _without_secrets(own) for key, own in value.items()}
    if isinstance(value, list):
        return [_without_secrets(own) for own in value]
    return value
