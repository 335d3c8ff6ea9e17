"""Checks of the CUDA graph mode: settings that cannot both count, and what keeps the graphs that a rule takes away."""

from __future__ import annotations

from collections.abc import Iterator

from ..resolve import Resolution, graph_gains
from ..resolve.memory_deduction import graph_memory_deducted
from ..resolve.other_backend import (
    DRAFTS_NEED,
    NONE_ASKED,
    PIECEWISE_ASKED,
    drafts_need,
    full_for_decode,
    graphs_at_all,
    with_plain_cache,
)
from ..trace import Finding, Rule
from ..vocabulary import CUDAGraphMode
from .alternatives import backend_flag, best_backend
from .diagnostic import Hit, Related
from .places import change_dotted, drop, found_place, place_of, related
from .registry import check
from .resolved import plain, says_more
from .subject import Subject
from .what_if import MAXIMUM, SIZES, in_section, number_flag, what_if

EAGER_WINS = Rule(
    "CG240",
    title="--enforce-eager wins over every graph setting beside it.",
    why="Eager mode switches compilation and CUDA graphs off after the other settings are read; vLLM says nothing.",
    example="--enforce-eager -cc.cudagraph_mode=FULL: no graph is captured.",
    instead="Drop --enforce-eager, or the graph settings.",
    source="vllm/config/vllm.py, VllmConfig.__post_init__",
)
NO_MODE = Rule(
    "CG241",
    title="Capture sizes count for nothing where no CUDA graph is captured.",
    why="With cudagraph_mode NONE, named or by -O0, the sizes are cleared.",
    example="-cc.cudagraph_mode=NONE --max-cudagraph-capture-size 64: no graph is captured.",
    instead="Drop the sizes, or name a mode with graphs.",
    source="vllm/config/vllm.py, VllmConfig._set_cudagraph_sizes",
)
EAGER = Rule(
    "CG242",
    title="--enforce-eager runs every step without CUDA graphs.",
    why="Each kernel is then launched one by one, which costs most at small decode batches.",
    example="vllm serve MODEL --enforce-eager: no compilation, no graph.",
    instead="Drop --enforce-eager; to save memory or start-up time capture fewer sizes instead.",
    source="vllm/config/vllm.py, VllmConfig.__post_init__",
)

FULL = CUDAGraphMode.FULL


def graph_settings(subject: Subject) -> tuple[str, ...]:
    """The graph settings that the launch gives and that ask for graphs, by name."""
    d = subject.deployment
    if d is None:
        return ()
    mode = d.compilation_config.cudagraph_mode
    named = () if mode in (None, CUDAGraphMode.NONE) else ("cudagraph_mode",)
    return (*named, *sizes_given(subject))


def sizes_given(subject: Subject) -> tuple[str, ...]:
    """Which of the two size settings the launch gives."""
    return tuple(key for key in (SIZES, MAXIMUM) if subject.is_given(key) or in_section(subject, key))


@check(EAGER_WINS, "error")
def eager_wins(subject: Subject) -> Iterator[Hit]:
    d = subject.deployment
    settings = graph_settings(subject)
    if d is None or not d.enforce_eager or not settings:
        return
    verb = "is" if len(settings) == 1 else "are"
    yield Hit(
        f"{_and(settings)} {verb} ignored: --enforce-eager wins, and no CUDA graph is captured",
        "drop --enforce-eager to get graphs, or drop the graph settings",
        place_of(subject, f"-cc.{settings[0]}"),
        edits=drop(subject, "enforce_eager"),
        safe=False,
        related=related(subject, "switches every graph off", "enforce_eager"),
    )


@check(NO_MODE, "error")
def sizes_without_graphs(subject: Subject) -> Iterator[Hit]:
    d, found = subject.deployment, subject.resolution
    settings = sizes_given(subject)
    if d is None or found is None or d.enforce_eager or not settings:
        return
    if found.requested_mode is not CUDAGraphMode.NONE:
        return
    verb = "is" if len(settings) == 1 else "are"
    edits = [edit for key in settings for edit in (drop(subject, key) or change_dotted(subject, "-cc", key, None))]
    yield Hit(
        f"{_and(settings)} {verb} ignored: the CUDA graph mode is NONE",
        "drop the sizes, or name a mode with graphs",
        place_of(subject, f"-cc.{settings[0]}"),
        edits=tuple(edits),
        related=related(subject, "no graph is captured", "compilation_config", "optimization_level"),
    )


@check(EAGER, "info")
def eager_alone(subject: Subject) -> Iterator[Hit]:
    d, found = subject.deployment, subject.resolution
    if d is None or found is None or not d.enforce_eager or graph_settings(subject):
        return
    message = "every step runs without CUDA graphs"
    deduction = graph_memory_deducted(d.model_copy(update={"enforce_eager": False}), subject.release, found.runner)
    if not deduction.deducted:
        message += f"; on {subject.release} that leaves the KV cache no more memory, as none was kept back for graphs"
    message += f"; {graph_gains.quotation(d, graph_gains.ALL)}"
    yield Hit(
        message,
        "drop --enforce-eager; a short --cudagraph-capture-sizes saves memory and start-up time too",
        subject.at("enforce_eager"),
        edits=drop(subject, "enforce_eager"),
        safe=False,
    )


@check(PIECEWISE_ASKED, "info")
def piecewise_asked(subject: Subject) -> Iterator[Hit]:
    d, now = subject.deployment, subject.resolution
    finding = full_for_decode(d, now) if d is not None and now is not None else None
    if finding is None:
        return
    at = place_of(subject, "-cc.cudagraph_mode")
    flag = f"-cc.cudagraph_mode={CUDAGraphMode.FULL_AND_PIECEWISE}"
    edits = change_dotted(subject, "-cc", "cudagraph_mode", CUDAGraphMode.FULL_AND_PIECEWISE.value)
    yield Hit(finding.message, finding.fix, at, flag, edits, safe=False)


@check(NONE_ASKED, "info")
def none_asked(subject: Subject) -> Iterator[Hit]:
    d, now = subject.deployment, subject.resolution
    finding = graphs_at_all(d, now) if d is not None and now is not None and not d.enforce_eager else None
    if finding is not None:
        yield Hit(finding.message, finding.fix, subject.at("compilation_config", "optimization_level"))


@check(DRAFTS_NEED, "info")
def drafts_with_a_choice(subject: Subject) -> Iterator[Hit]:
    d, now = subject.deployment, subject.resolution
    finding = drafts_need(d, now) if d is not None and now is not None else None
    if finding is not None:
        at = subject.at("speculative_config", "spec_method", "spec_model", "spec_tokens")
        yield Hit(finding.message, finding.fix, at)


@says_more("CG203")
def _eager(subject: Subject, finding: Finding) -> Hit | None:
    """CG240 or CG242 has said it."""
    return None


@says_more("CG330", "CG332", "CG333")
def _backend_lowers(subject: Subject, finding: Finding) -> Hit:
    """A mode that the attention backend's support lowers: which other backend keeps it."""
    found, better = subject.resolution, best_backend(subject)
    assert found is not None
    chosen = _lowering(subject, found)
    chosen += related(subject, "each request of a decode batch has several tokens", "speculative_config", "spec_method")
    at = found_place(subject, finding.where) or (chosen[0].at if chosen else subject.start)
    chosen = tuple(one for one in chosen if one.at != at)
    message = finding.message + _of_the_draft(found)
    if better is None:
        fix = _with_plain_cache(subject) or f"no other backend of {subject.release} keeps it here"
        if finding.code == "CG330":
            fix = f"write what runs, -cc.cudagraph_mode={found.cudagraph_mode}"
            edits = change_dotted(subject, "-cc", "cudagraph_mode", found.cudagraph_mode.value)
            return Hit(message, fix, at, f"-cc.cudagraph_mode={found.cudagraph_mode}", edits, related=chosen)
        return Hit(message, fix, at, related=chosen)
    name, result = better
    flag, edits = backend_flag(subject, name)
    fix = f"use {flag}, which gives {result.cudagraph_mode}"
    if finding.code == "CG330":
        fix += f", or write what runs, -cc.cudagraph_mode={found.cudagraph_mode}"
    return Hit(message, fix, at, flag, edits, safe=False, related=chosen)


def _lowering(subject: Subject, found: Resolution) -> tuple[Related, ...]:
    """The place of the backend that lowers the mode, where the line names it."""
    if _of_the_draft(found):
        return related(subject, "the draft", "speculative_config", "spec_method", "spec_model")
    return related(subject, "the backend that lowers it", "attention_backend", "attention_config")


def _of_the_draft(found: Resolution) -> str:
    """That the backend which lowers the mode is that of the draft's layers alone, which is chosen apart; else ""."""
    kinds = {group.kind for group in found.backend.groups if group.class_name == found.backend.weakest}
    return f" {found.backend.weakest} is the backend of the draft's layers." if kinds == {"draft"} else ""


def _with_plain_cache(subject: Subject) -> str | None:
    """The remedy where a quantised KV cache excludes every backend that keeps the graphs."""
    d, now = subject.deployment, subject.resolution
    return None if d is None or now is None else with_plain_cache(d, now)


@says_more("CG207", "CG208")
def _by_kind_of_model(subject: Subject, finding: Finding) -> Hit:
    """Pooling and encoder-decoder models never have more; only a mode that was named was asked for in vain."""
    hit = plain(subject, finding)
    d, found = subject.deployment, subject.resolution
    assert d is not None
    assert found is not None
    if d.compilation_config.cudagraph_mode is None:
        return Hit(hit.message, None, hit.at, severity="info")
    mode = found.cudagraph_mode.value
    edits = change_dotted(subject, "-cc", "cudagraph_mode", mode)
    return Hit(hit.message, f"write what runs, -cc.cudagraph_mode={mode}", hit.at, f"-cc.cudagraph_mode={mode}", edits)


@says_more("CG601")
def _deepep(subject: Subject, finding: Finding) -> Hit:
    """DeepEP high throughput: which all-to-all keeps the graphs."""
    hit = plain(subject, finding)
    named = related(subject, "the all-to-all that switches graphs off", "all2all_backend")
    named += related(subject, "more than one data-parallel rank", "data_parallel_size")
    for name in ("deepep_low_latency", "nixl_ep", "allgather_reducescatter"):
        changed = what_if(subject, all2all_backend=name)
        if changed is not None and changed.cudagraph_mode is not CUDAGraphMode.NONE:
            flag, edits = number_flag(subject, "--all2all-backend", name)
            fix = f"use {flag}, which gives {changed.cudagraph_mode}; high throughput suits prefill-only servers"
            at = subject.at("all2all_backend", "compilation_config", "data_parallel_size")
            return Hit(hit.message, fix, at, flag, edits, safe=False, related=named)
    return Hit(hit.message, hit.fix, hit.at, related=named)


def _and(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
