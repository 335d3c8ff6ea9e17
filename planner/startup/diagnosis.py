"""How a start or a server ended: one page, one message, one fix, and all other constraints that it breaks as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..releases import SUPPORTED, holds
from ..trace import Finding
from . import serving
from .crash_rules import UNFINISHED, page_of
from .known import (
    GIB,
    deducts,
    gib,
    is_manual,
    is_seen_by_pools,
    rank_named,
    release_of,
    step_of,
    tightest,
)
from .outside import is_split, outside_the_budget, spent
from .pages import rule
from .record import Crash, Place, Start
from .remedies import remedy
from .rules import BEYOND_BUDGET, NOT_MOVED, PART_OF_A_LOG
from .scene import Remedy, Scene, beyond_budget, not_moved, smaller_cache
from .serving import SERVING
from .siblings import WITHOUT_CAUSE, cause, failed_of, in_use, same_server


@dataclass(frozen=True)
class Diagnosis:
    """How a start ended.

    Attributes:
        code: of the rule that explains it.
        kind, step: of `crashes` and `known.step_of`; step "serving": it had come up.
        message: the exception's line; what: the same in our words.
        fix: with numbers of the log; largest: the values that would have worked, by vLLM's names.
        place, rank: where it was printed, and by whom.
        values: numbers of the messages.
        also: other constraints that do not hold, or what else the crash shows.
        chain: the exceptions of the log, the deepest first.
    """

    code: str
    kind: str
    step: str
    what: str
    message: str
    fix: str
    place: Place
    rank: str = ""
    largest: dict[str, int | float] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    also: tuple[Finding, ...] = ()
    chain: tuple[str, ...] = ()


def came_up(start: Start) -> bool:
    """Whether the engine was ready, as far as the log says; it may have died since."""
    if died_at_work(start):
        return True
    return start.crash is None and (start.ready or any(phase.name == "init engine" for phase in start.phases))


def died_at_work(start: Start) -> bool:
    """Whether the server came up and ended since."""
    return start.crash is not None and start.crash.step == SERVING


def diagnose(
    start: Start,
    starts: Sequence[Start] = (),
    needed: int | None = None,
    beside: int | None = None,
    most: float | None = None,
    gpu_bytes: int | None = None,
    graphs: int | None = None,
    seqs: int | None = None,
    tokens: int | None = None,
    prefill: int | None = None,
) -> Diagnosis | None:
    """How `start` ended; None: it came up, or the log ends before.

    Args:
        starts: all of the log: those of the same model may break other constraints.
        needed: bytes of KV cache that a request of the full length takes, where a plan says.
        beside: bytes that the largest step and the graphs take beside the KV cache, where a plan says.
        most: the largest share of the GPU that is surely free before the start, where a plan says.
        gpu_bytes: memory of the GPU that was named, where the log's is not another.
        graphs: bytes that capture takes at most, where a plan says.
        seqs: how many requests may run, where a plan says.
        tokens, prefill: of `Scene`, where a plan says.
    """
    if start.crash is None:
        return None
    kind, values = cause(start, start.crash)
    scene = _scene(start, start.crash, values, starts, needed, beside)._replace(
        most=most, gpu_bytes=gpu_bytes, graphs=graphs, seqs=seqs, tokens=tokens, prefill=prefill
    )
    if kind in WITHOUT_CAUSE and scene.step != SERVING and _has_no_memory(start):
        kind = "no_blocks"
    code = page_of(kind, values, scene.step)
    found = remedy(kind, scene)
    return Diagnosis(
        code=code,
        kind=kind,
        step=scene.step,
        what=_what(kind, code, scene),
        message=start.crash.message,
        fix=(found.fix if found is not None and found.fix else rule(code).instead) + refused_since(code, start),
        place=start.crash.place,
        rank=start.crash.rank,
        largest=found.largest if found is not None else {},
        values=values,
        also=tuple(_also(start, starts, kind, scene, found)),
        chain=start.crash.chain,
    )


def refused_since(code: str, start: Start) -> str:
    """Since when vLLM refuses it, where a release brought that in, and what shows it, for the end of a fix; "": all
    releases do. One that does not refuse it has not printed the line."""
    of = rule(code)
    release = release_of(start)
    if of.since not in SUPPORTED[1:] or not of.history:
        return ""
    if release is not None and not holds(release, of.since):
        return f"; {release} does not refuse it: the line is of {of.since} or a later release"
    before = SUPPORTED[SUPPORTED.index(of.since) - 1]
    return (
        f"; refused since {of.since}, {of.history.removesuffix('.')}: `cgplan diff --from {before} --to {of.since} --"
        " vllm serve ...` shows it"
    )


def unfinished(start: Start) -> Finding | None:
    """What to say of a start that neither came up nor ended."""
    if start.crash is not None or came_up(start) or start.is_part:
        return None
    if not (start.arguments or start.engine or start.vllm_version):
        text = "it has neither the beginning of a start nor its end; what its lines say is read by itself"
        return Finding(PART_OF_A_LOG.code, "info", text, "give the log from the first line of the start")
    step = step_of(start)
    where = f" while {_DOING[step]}" if step in _DOING else ""
    text = f"the log ends{where}, and does not say whether it came up"
    return Finding(UNFINISHED.code, "info", text, UNFINISHED.instead)


AFTER_CAPTURE = "after-capture"
_DOING = {
    "loading": "the model is loaded",
    "profiling": "the model is profiled",
    "cache": "the KV cache is laid out",
    "capture": "CUDA graphs are captured",
    "warm-up": "the server warms up",
}


def _scene(
    start: Start,
    crash: Crash,
    values: dict[str, Any],
    starts: Sequence[Start],
    needed: int | None = None,
    beside: int | None = None,
) -> Scene:
    rank = rank_named(start, crash.rank) if crash.rank else None
    if rank is None or rank.kv_bytes is None:
        rank = tightest(start.ranks) or rank or (start.ranks[0] if start.ranks else None)
    return Scene(start, rank, step_of(start), values, needed, beside, failed=failed_of(start, starts))


def _has_no_memory(start: Start) -> bool:
    rank = tightest(start.ranks)
    return rank is not None and rank.kv_bytes is not None and rank.kv_bytes <= 0 and start.kv_tokens is None


def _what(kind: str, code: str, scene: Scene) -> str:
    """The crash in one line of our own."""
    values = scene.values
    if "out_of_memory" in kind or kind.endswith("warm_up"):
        step = {
            "loading": "while the model was loaded",
            "profiling": "in the profile run",
            "cache": "when the KV cache was allocated",
            "capture": "while CUDA graphs were captured",
            "warm-up": "after capture, when the sampler was warmed up",
            AFTER_CAPTURE: "while CUDA graphs were captured or later (their pools are in use)",
            SERVING: f"in a step{_within(scene.start, kind)}",
        }.get(AFTER_CAPTURE if is_seen_by_pools(scene.start) else scene.step, "")
        what = {"sampler_warm_up": "sampler", "pooler_warm_up": "pooler"}.get(kind)
        if what is not None:
            step = f"when the {what} was warmed up with {values.get('max_num_seqs')} rows"
        tried, free = values.get("tried_bytes"), values.get("free_bytes")
        sizes = f": {_size(tried)} were asked for, {_size(free)} free" if tried and free is not None else ""
        on_top = _on_top(scene) if kind == "out_of_memory" and scene.step == "capture" else ""
        if scene.step == "loading" and is_split(scene.start):
            on_top = "; the weights are those of each GPU, and the GPUs' memory does not add up for one of them"
        text = " ".join(f"{_platform(scene.start)} out of memory {step}".split())
        return f"{text}{sizes}{on_top}{outside_the_budget(scene)}"
    if kind == "no_blocks" and scene.rank is not None and scene.rank.kv_bytes is not None:
        each = " on each GPU" if is_split(scene.start) else ""
        return f"no memory is left for the KV cache: {gib(scene.rank.kv_bytes)}{each}{spent(scene)}"
    if kind == "model_len" and "max_model_len" in values:
        return f"one request of {values.get('max_model_len'):,} tokens does not fit into the KV cache" + (
            f": it needs {gib(values['needed_bytes'])}, there are {gib(values['available_bytes'])}{_each(scene.start)}"
            if {"needed_bytes", "available_bytes"} <= values.keys()
            else ""
        )
    if kind == "mamba_blocks":
        asked = values.get("max_num_seqs")
        flag = f"--max-num-seqs {asked}" if asked else "--max-num-seqs"
        return f"{flag} exceeds the {values.get('blocks')} blocks of the KV cache"
    if kind == "free_memory" and {"requested_bytes", "free_bytes"} <= values.keys():
        return f"{gib(values['requested_bytes'])} are asked for and {gib(values['free_bytes'])} are free"
    if kind == "memory_access" and scene.step == SERVING:
        return f"a kernel ended with an error in a step{_within(scene.start, kind)}"
    if kind == "wrapper" and scene.step == SERVING:
        return "the engine's process is gone, and the log does not hold the cause"
    if kind == "timed_out" and "method" in values:
        return f"a worker did not answer {values['method']} in time"
    return _lower(rule(code).title)


def _each(start: Start) -> str:
    return " on each GPU; the GiB of several GPUs do not add up" if is_split(start) else ""


def _on_top(scene: Scene) -> str:
    """That the budget has nothing for the graphs, where that is so; "": it has, or the bytes were given."""
    rank = scene.rank
    if rank is None or deducts(scene.start, rank) or is_manual(scene.start, rank):
        return ""
    return "; graphs come on top of what --gpu-memory-utilization asks for, and nothing was kept back for them"


def _platform(start: Start) -> str:
    """ "CUDA", "HIP" or "XPU", as the exception says."""
    crash = start.crash
    texts = (crash.message, *crash.chain) if crash is not None else ()
    return next((name for name in ("HIP", "XPU") if any(f"{name} out of memory" in text for text in texts)), "CUDA")


def _within(start: Start, kind: str) -> str:
    """The function that it happened in, as the traceback has it; "": it does not say."""
    name = start.crash.function if start.crash is not None else ""
    if name in ("", "execute_model", "sample_tokens", "forward"):
        return ""
    layers = ", a Gated DeltaNet prefill, which the profile run leaves out" if serving.is_gated_delta(name) else ""
    return f" ({name}{layers if kind == 'out_of_memory' else ''})"


def _lower(title: str) -> str:
    text = title.removesuffix(".")
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _size(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB" if size < GIB else gib(size)


def _also(start: Start, starts: Sequence[Start], kind: str, scene: Scene, found: Remedy | None) -> Iterator[Finding]:
    yield from _same_everywhere(scene)
    yield from _beyond_budget(scene, found)
    said = {kind}
    for other in starts:
        if other is start or other.crash is None or not same_server(start, other):
            continue
        again, values = cause(other, other.crash)
        if again in said or again not in _CONSTRAINTS:
            continue
        said.add(again)
        its = _scene(other, other.crash, values, starts)
        other_fix = remedy(again, its)
        code = page_of(again, values, its.step)
        yield Finding(
            code, "error", f"another start of the log, line {other.first_line}: {_what(again, code, its)}",
            other_fix.fix if other_fix is not None else rule(code).instead,
        )  # fmt: skip


_CONSTRAINTS = (
    "model_len", "mamba_blocks", "no_blocks", "sampler_warm_up", "out_of_memory", "free_memory", "derived_len",
)  # fmt: skip
"""Kinds that hold for the next start of the same server as well."""


def _same_everywhere(scene: Scene) -> Iterator[Finding]:
    """Crashes at other utilizations with as much in use: the KV cache is not what is too large."""
    shares = not_moved(scene)
    if not shares:
        return
    said = ", ".join(f"{one:g}" for one in shares)
    yield Finding(
        NOT_MOVED.code, "warning",
        f"{gib(in_use(scene.values) or 0)} are in use at each of --gpu-memory-utilization {said}",
        smaller_cache(scene) or NOT_MOVED.instead,
    )  # fmt: skip


def _beyond_budget(scene: Scene, remedied: Remedy | None) -> Iterator[Finding]:
    """Memory that is in use and in no line of the budget; a size that the fix has is not contradicted."""
    found = beyond_budget(scene)
    if found is None:
        return
    size = remedied.largest.get("kv_cache_memory_bytes") if remedied is not None else None
    said = f"--kv-cache-memory-bytes {size} ({gib(size)})" if size else smaller_cache(scene)
    rest = "steps, workspaces and NCCL" if scene.step == SERVING else "workspaces and NCCL"
    yield Finding(
        BEYOND_BUDGET.code, "warning",
        f"the process holds {gib(found.held)}, {gib(found.beyond)} more than it asked for, and {_size(found.pools)} of"
        f" it are graphs: {rest} take the rest",
        said or BEYOND_BUDGET.instead,
    )  # fmt: skip


def with_findings(found: Diagnosis, more: Sequence[Finding]) -> Diagnosis:
    """The same with further constraints; those of a code that is said already are left out."""
    said = {found.code, *(one.code for one in found.also)}
    return replace(found, also=(*found.also, *(one for one in more if one.code not in said)))
