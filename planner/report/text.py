"""The screen of `cgplan resolve`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import as_fix
from ..resolve.coverage import Coverage
from ..resolve.drafter import Drafter
from ..resolve.graphs import Captures
from ..resolve.lora import LoraPlan
from ..resolve.resolution import Resolution
from ..vocabulary import AttentionCGSupport, CUDAGraphMode
from . import bars, tables, trace
from .batches import answers
from .console import console
from .folding import fold
from .words import as_option, counted

MEANING = {
    CUDAGraphMode.FULL: "one graph holds the whole step",
    CUDAGraphMode.PIECEWISE: "graphs around the attention, which runs eager",
    CUDAGraphMode.NONE: "no graph: every kernel is launched one by one",
}
SUPPORT = {
    AttentionCGSupport.ALWAYS: "a graph may hold it for any batch",
    AttentionCGSupport.UNIFORM_BATCH: "a graph may hold it where all requests have the same number of tokens",
    AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE: "a graph may hold it where all requests have one token",
    AttentionCGSupport.NEVER: "no graph may hold it",
}
FIXED = "fixed in its metadata builder"
"""A condition that tells nothing to whoever does not know vLLM's code."""

ONE_MODE = (
    "the ranks of a model with experts run each step in one mode, padded to the largest of them; "
    "one eager rank makes all eager (CG613)"
)


class Screen(NamedTuple):
    """What the screen shows besides the resolution.

    Attributes:
        model, gpu: their names.
        layout: how many GPUs and nodes share the work, "tp 2"; "" for one GPU.
        batches: sizes to answer for.
        padding_table, explain: show the table, the trace.
    """

    model: str
    gpu: str
    batches: tuple[int, ...] = ()
    padding_table: bool = False
    explain: bool = False
    layout: str = ""


def show(resolution: Resolution, screen: Screen, out: Console | None = None) -> None:
    """Print the screen."""
    out = out or console()
    out.print(_title(resolution, screen))
    out.print()
    out.print(_summary(resolution))
    for coverage, note in coverages(resolution):
        out.print()
        _show_coverage(out, coverage, note)
    if screen.batches:
        out.print()
        out.print(tables.batches(answers(resolution, screen.batches)))
    if screen.padding_table:
        out.print()
        said = "Padding table: a batch of so many tokens, what it runs as, padding at most: of the step, over the batch"
        out.print(Text(said, style="key"))
        out.print(tables.padding(resolution, out.width) if resolution.graph_count() else "no size is captured")
    if screen.explain:
        out.print()
        trace.show(out, resolution)
    _show_findings(out, resolution)
    tables.show_list(out, "Assumed", resolution.assumptions)
    tables.show_list(out, "Not modelled", resolution.not_modelled)


def _title(resolution: Resolution, screen: Screen) -> Text:
    parts = [f"vLLM {resolution.vllm_version}", screen.gpu, screen.layout, screen.model or "a dense 8B decoder"]
    line = " · ".join(part for part in parts if part)
    return Text("".join(c if c.isprintable() else "?" for c in line), style="head")


def _summary(resolution: Resolution) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="key", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in summary_rows(resolution):
        grid.add_row(name, text)
    return grid


def summary_rows(resolution: Resolution) -> Iterable[tuple[str, Text | str]]:
    """What the top of the screen says, by name."""
    yield "CUDA graphs", _mode_line(resolution)
    decode, mixed = _modes_in_use(resolution)
    yield "Decode batches", _mode_meaning(resolution.decode_mode, decode)
    yield "Mixed batches", _mode_meaning(resolution.mixed_mode, mixed)
    yield "Attention", _attention(resolution)
    yield "Compilation", resolution.compilation_mode.value
    yield "Runner", _runner(resolution)
    yield "Limits", _limits(resolution)
    yield "Graphs", _counts(resolution)
    yield from _sizes(resolution)
    if resolution.data_parallel_ranks > 1:
        yield "Data parallel", ONE_MODE
    if resolution.lora is not None:
        yield "LoRA", _lora(resolution.lora, resolution.captures, resolution.max_num_seqs)
    if resolution.drafter is not None:
        yield "Drafter", _drafter(resolution.drafter)


def _line(*parts: tuple[str, str]) -> Text:
    """Text of (words, style) parts; rich would let the first style reach over the others."""
    line = Text()
    for words, style in parts:
        line.append(words, style=style or None)
    return line


def _mode_line(resolution: Resolution) -> Text:
    final = resolution.cudagraph_mode
    parts = [(final.value, "head")]
    changed = resolution.requested_mode is not final
    if changed:
        parts.append((f"  instead of {resolution.requested_mode.value}", "warning"))
    why = [d.why for d in resolution.decisions if d.field == "cudagraph_mode"]
    if why and (changed or final is CUDAGraphMode.NONE):
        parts.append((f"\n{why[-1]}", ""))
    return _line(*parts)


def _modes_in_use(resolution: Resolution) -> list[set[CUDAGraphMode]]:
    """The modes that some decode batch, and some mixed batch, runs in."""
    found: list[set[CUDAGraphMode]] = [set(), set()]
    for coverage, _ in coverages(resolution):
        found[coverage.kind == "mixed"] |= {r.mode for r in coverage.ranges}
    return found


def _mode_meaning(mode: CUDAGraphMode, used: set[CUDAGraphMode]) -> Text:
    """What the mode means, or what happens in its place where no batch runs in it."""
    if mode in used or not used:
        return _line((bars.NAMES[mode], f"{bars.STYLES[mode]}.name"), (f"  {MEANING[mode]}", ""))
    best = CUDAGraphMode.PIECEWISE if CUDAGraphMode.PIECEWISE in used else CUDAGraphMode.NONE
    return _line(
        (bars.NAMES[best], f"{bars.STYLES[best]}.name"),
        (f"  {MEANING[best]}", ""),
        (f"\nthe mode is {mode.value}, but no graph of it fits such a batch", "warning"),
    )


def _attention(resolution: Resolution) -> Text:
    backend = resolution.backend
    parts = [(backend.name, "head"), (f"  {backend.support.name}: {SUPPORT[backend.support]}", "")]
    weakest = [g for g in backend.groups if g.support is backend.support]
    for group in weakest[:1]:
        # The source of the condition stands in the trace.
        condition = group.condition.partition(" (vllm/")[0]
        text = "" if condition == FIXED else condition
        if group.name != backend.name:
            text = f"because of {group.name}" + (f": {text}" if text else "")
        parts.append((f"\n{text}" if text else "", "faint"))
    return _line(*parts)


def _runner(resolution: Resolution) -> Text:
    why = [d.why for d in resolution.decisions if d.field == "runner"]
    return _line((resolution.runner.value, "head"), (f"  {why[-1]}" if why else "", ""))


def _limits(resolution: Resolution) -> str:
    requests, tokens = resolution.max_num_seqs, resolution.max_num_batched_tokens
    limits = f"{counted(requests, 'request')}, {counted(tokens, 'token')} a step"
    if (resolution.config.get("data_parallel_size") or 1) > 1:
        limits += " of each data-parallel rank"
    if resolution.uniform_decode_query_len > 1:
        drafts = resolution.uniform_decode_query_len - 1
        limits += f"; 1 + {drafts} tokens a decode request"
    return limits


def _counts(resolution: Resolution) -> Text:
    parts = [(str(resolution.graph_count()), "head")]
    for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE):
        if resolution.graph_count(mode):
            parts.append(("  " if len(parts) == 1 else " + ", ""))
            parts.append((f"{resolution.graph_count(mode)} {mode.value}", bars.STYLES[mode]))
    if resolution.drafter is not None and _drafter_count(resolution.drafter):
        parts.append((f", and {_drafter_count(resolution.drafter)} of the drafter", ""))
    if resolution.unreachable:
        parts.append((f"  {len(resolution.unreachable)} of them serve no batch", "warning"))
    return _line(*parts)


def _sizes(resolution: Resolution) -> Iterable[tuple[str, Text]]:
    """The sizes that were captured; those of FULL decode graphs by themselves where they are others."""
    if not resolution.graph_count() and not (resolution.drafter and _drafter_count(resolution.drafter)):
        return
    sizes = resolution.capture_sizes
    full = sorted({graph.num_tokens for graph in resolution.captures.get(CUDAGraphMode.FULL, ())})
    if sizes:
        yield "Sizes", _listed(sizes)
    if not set(full) <= set(sizes):
        yield "FULL sizes", _listed(full)


def _listed(sizes: Sequence[int]) -> Text:
    noun = " token" if list(sizes) == [1] else " tokens"
    return _line((str(len(sizes)), "head"), (f"  {fold(sizes)}", ""), (noun, "faint"))


def _lora(lora: LoraPlan, captures: Captures, max_num_seqs: int) -> str:
    """The captured cases; one above `max_loras` stands for any number that has no case of its own."""
    cases = {graph.num_active_loras for graphs in captures.values() for graph in graphs} or set(lora.cases)
    most = f"at most {counted(lora.max_loras, 'adapter')} in a batch; each size is captured"
    if cases == {0}:
        return f"{most} once"
    if len(cases) > 2:
        idle = [str(case) for case in lora.idle_cases(max_num_seqs) if case in cases]
        unused = f"; no batch runs as {_or(idle)}" if idle else ""
        return f"{most} for {lora.in_words(sorted(cases))}{unused}".replace("active ", "")
    parts = ["without adapters"] if 0 in cases else []
    last = f"for any number up to {lora.max_loras}" if lora.max_loras > 1 else "for one"
    return f"{most} {', '.join([*parts, last])}"


def _or(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _drafter(drafter: Drafter) -> str:
    name = drafter.speculator or "no class"
    parts = [f"{_count(captures)}{_purpose(label)}" for label, captures in drafter.managers.items() if _count(captures)]
    return f"{name}, graphs of its own: {', '.join(parts)}" if parts else f"{name}, no graphs of its own"


def _purpose(label: str) -> str:
    """What a graph manager of vLLM is for, by its name."""
    purpose = label.removesuffix("cudagraph_manager").strip("_").replace("_", " ")
    return f" for {purpose}" if purpose else ""


def _drafter_count(drafter: Drafter) -> int:
    return sum(_count(captures) for captures in drafter.managers.values())


def _count(captures: Captures) -> int:
    return sum(len(graphs) for graphs in captures.values())


def coverages(resolution: Resolution) -> Iterable[tuple[Coverage, str]]:
    """Each kind of batch; with LoRA also the batches with adapters where they run differently."""
    plain = resolution.uniform_decode_coverage(), resolution.mixed_coverage()
    most = resolution.lora.max_loras if resolution.lora is not None else 0
    adapted = resolution.uniform_decode_coverage(most), resolution.mixed_coverage(most)
    for without, with_ in zip(plain, adapted, strict=True):
        if without == with_:
            yield without, ""
        else:
            yield without, ", no adapter"
            yield with_, f", {most} adapters"


def _show_coverage(out: Console, coverage: Coverage, note: str) -> None:
    decode = coverage.kind == "uniform_decode"
    unit = "requests" if decode else "tokens"
    parts = bars.stretches(coverage)
    out.print(_heading(coverage, parts, f"{'Decode' if decode else 'Mixed'} batches", f"{note} by {unit}"))
    width = out.width - 1
    bar = _line(*((segment.text, bars.STYLES[segment.stretch.mode]) for segment in bars.segments(parts, width)))
    out.print(bar, no_wrap=True, overflow="crop")
    out.print(Text(bars.scale(parts, width)), no_wrap=True, overflow="crop")
    if any(r.padded is not None for r in coverage.ranges):
        out.print(_padding(coverage, unit))


def _heading(coverage: Coverage, parts: list[bars.Stretch], title: str, note: str) -> Text:
    words = [(title, "key"), (note, "faint"), ("  ", "")]
    for index, part in enumerate(parts):
        words.append((" · " if index else "", "faint"))
        words.append((str(part), bars.STYLES[part.mode]))
    cliff = coverage.first_cliff
    if cliff is not None and len(parts) > 1:
        words.append((f"  first cliff at {cliff}", "faint"))
    elif cliff is None:
        words.append(("  none eager", "faint"))
    return _line(*words)


def _padding(coverage: Coverage, unit: str) -> Text:
    worst = coverage.worst
    text = f"Padding: {coverage.mean_waste:.1%} of a step on average"
    if worst is not None and worst.padded is not None:
        text += f", {worst.waste:.1%} at worst ({_run_as(worst.first, worst.padded, worst.query_len, unit)})"
    return Text(text)


def _run_as(size: int, padded: int, query_len: int, unit: str) -> str:
    whole, rest = divmod(padded, query_len)
    if rest:
        return _runs(size * query_len, "tokens", padded)
    return _runs(size, unit, whole)


def _runs(size: int, unit: str, padded: int) -> str:
    return f"{counted(size, unit.removesuffix('s'))} {'runs' if size == 1 else 'run'} as {padded}"


def _show_findings(out: Console, resolution: Resolution) -> None:
    for finding in resolution.findings:
        out.print()
        out.print(_line((finding.severity, finding.severity), (f" {finding.code}", "code")))
        out.print(Padding(_line((finding.message, "")), (0, 0, 0, 2)))
        if finding.fix:
            out.print(Padding(_line(("fix: ", "fix"), (as_option(as_fix(finding.fix)), "")), (0, 0, 0, 2)))
