"""The screen of `cgplan resolve`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..resolve.coverage import Coverage
from ..resolve.resolution import Resolution
from ..vocabulary import CUDAGraphMode
from . import bars, trace
from .batches import BatchAnswer, answers
from .console import console
from .folding import fold

STYLES = {CUDAGraphMode.FULL: "full", CUDAGraphMode.PIECEWISE: "piecewise", CUDAGraphMode.NONE: "eager"}
MEANING = {
    CUDAGraphMode.FULL: "one graph holds the whole step",
    CUDAGraphMode.PIECEWISE: "graphs between the attention layers; attention itself runs eager",
    CUDAGraphMode.NONE: "no graph: every kernel is launched one by one",
}
SIGNS = {"error": "error", "warning": "warning", "info": "note"}


class Screen(NamedTuple):
    """What the screen shows besides the resolution.

    Attributes:
        model, gpu: their names.
        batches: sizes to answer for.
        padding_table, explain: show the table, the trace.
    """

    model: str
    gpu: str
    batches: tuple[int, ...] = ()
    padding_table: bool = False
    explain: bool = False


def show(resolution: Resolution, screen: Screen, out: Console | None = None) -> None:
    """Print the screen."""
    out = out or console()
    out.print(_title(resolution, screen))
    out.print()
    out.print(_summary(resolution))
    for coverage, note in _coverages(resolution):
        out.print()
        _show_coverage(out, coverage, note)
    if screen.batches:
        out.print()
        out.print(_batch_table(answers(resolution, screen.batches)))
    if screen.padding_table:
        out.print()
        out.print(_padding_table(resolution))
    if screen.explain:
        out.print()
        trace.show(out, resolution)
    _show_findings(out, resolution)
    _show_list(out, "Assumed", resolution.assumptions)
    _show_list(out, "Not modelled", resolution.not_modelled)


def _title(resolution: Resolution, screen: Screen) -> Text:
    parts = [f"vLLM {resolution.vllm_version}", screen.gpu, screen.model or "a dense 8B decoder"]
    return Text(" · ".join(parts), style="head")


def _summary(resolution: Resolution) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="key", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("CUDA graphs", _mode_line(resolution))
    grid.add_row("Decode batches", _mode_meaning(resolution.decode_mode))
    grid.add_row("Mixed batches", _mode_meaning(resolution.mixed_mode))
    grid.add_row("Attention", _attention(resolution))
    grid.add_row("Runner", _runner(resolution))
    grid.add_row("Limits", _limits(resolution))
    grid.add_row("Graphs", _counts(resolution))
    if resolution.capture_sizes:
        grid.add_row("Sizes", _sizes(resolution))
    if resolution.lora is not None:
        grid.add_row("LoRA", _lora(resolution))
    if resolution.drafter is not None:
        grid.add_row("Drafter", _drafter(resolution))
    return grid


def _mode_line(resolution: Resolution) -> Text:
    line = Text(resolution.cudagraph_mode.value, style="bold")
    if resolution.requested_mode is not resolution.cudagraph_mode:
        line.append(f"  instead of {resolution.requested_mode.value}", style="warning")
        why = [d for d in resolution.decisions if d.field == "cudagraph_mode"]
        if why:
            line.append(f": {why[-1].why}", style="not bold default")
    line.append(f"  · compilation {resolution.compilation_mode.value}", style="not bold bright_black")
    return line


def _mode_meaning(mode: CUDAGraphMode) -> Text:
    line = Text(bars.NAMES[mode], style=f"bold {STYLES[mode]}" if mode in STYLES else "bold")
    line.append(f"  {MEANING[mode]}", style="not bold default")
    return line


def _attention(resolution: Resolution) -> Text:
    backend = resolution.backend
    line = Text(backend.name, style="bold")
    line.append(f"  supports {backend.support.name}", style="not bold default")
    shown = [g for g in backend.groups if g.support is backend.support][:1] or list(backend.groups[:1])
    for group in shown:
        text = group.condition if group.name == backend.name else f"because of {group.name}: {group.condition}"
        line.append(f" · {text}", style="not bold bright_black")
    return line


def _runner(resolution: Resolution) -> Text:
    line = Text(resolution.runner.value, style="bold")
    why = [d.why for d in resolution.decisions if d.field == "runner"]
    if why:
        line.append(f"  {why[-1]}", style="not bold default")
    return line


def _limits(resolution: Resolution) -> str:
    limits = f"{resolution.max_num_seqs} requests, {resolution.max_num_batched_tokens} tokens a step"
    if resolution.uniform_decode_query_len > 1:
        limits += f" · {resolution.uniform_decode_query_len} tokens a decode request, drafts counted"
    return limits


def _counts(resolution: Resolution) -> Text:
    line = Text(str(resolution.graph_count()), style="bold")
    parts = [
        (mode, resolution.graph_count(mode))
        for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE)
        if resolution.graph_count(mode)
    ]
    for index, (mode, count) in enumerate(parts):
        line.append("  " if index == 0 else " + ", style="not bold default")
        line.append(f"{count} {mode.value}", style=f"not bold {STYLES[mode]}")
    extra = _drafter_count(resolution)
    if extra:
        line.append(f"  and {extra} of the drafter", style="not bold default")
    if resolution.unreachable:
        line.append(f" · {len(resolution.unreachable)} serve no batch", style="not bold warning")
    return line


def _sizes(resolution: Resolution) -> Text:
    line = Text(str(len(resolution.capture_sizes)), style="bold")
    line.append(f"  {fold(resolution.capture_sizes)}", style="not bold default")
    line.append(" tokens", style="not bold bright_black")
    return line


def _lora(resolution: Resolution) -> str:
    assert resolution.lora is not None
    cases = ", ".join(str(case) for case in resolution.lora.cases)
    return f"up to {resolution.lora.max_loras} adapters in a batch; each size is captured for {cases} adapters"


def _drafter(resolution: Resolution) -> str:
    assert resolution.drafter is not None
    name = resolution.drafter.speculator or "no class"
    managers = [
        f"{sum(len(g) for g in captures.values())} ({label})"
        for label, captures in resolution.drafter.managers.items()
        if captures
    ]
    return f"{name}: graphs of its own: {', '.join(managers)}" if managers else f"{name}: no graphs of its own"


def _drafter_count(resolution: Resolution) -> int:
    if resolution.drafter is None:
        return 0
    return sum(len(g) for m in resolution.drafter.managers.values() for g in m.values())


def _coverages(resolution: Resolution) -> Iterable[tuple[Coverage, str]]:
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
    title = Text("Decode batches" if decode else "Mixed batches", style="key")
    title.append(f"{note}, by {unit}", style="not bold bright_black")
    out.print(title)
    parts = bars.stretches(coverage)
    width = out.width - 1
    line = Text()
    for segment in bars.segments(parts, width):
        line.append(segment.text, style=STYLES[segment.stretch.mode])
    out.print(line, no_wrap=True, overflow="crop")
    out.print(Text(bars.scale(parts, width), style="faint"), no_wrap=True, overflow="crop")
    out.print(_legend(coverage, parts, unit))
    if any(r.padded is not None for r in coverage.ranges):
        out.print(_padding(coverage, unit))


def _legend(coverage: Coverage, parts: list[bars.Stretch], unit: str) -> Text:
    line = Text()
    for index, part in enumerate(parts):
        line.append("" if index == 0 else " · ")
        line.append(str(part), style=STYLES[part.mode])
    cliff = coverage.first_cliff
    if cliff is not None and len(parts) > 1:
        line.append(f"  first cliff at {cliff} {unit}", style="warning")
    elif cliff is None:
        line.append("  no cliff", style="faint")
    return line


def _padding(coverage: Coverage, unit: str) -> Text:
    worst = coverage.worst
    line = Text("padding ", style="faint")
    line.append(f"{coverage.mean_waste:.1%} of a step on average")
    if worst is not None and worst.padded is not None:
        tokens = worst.first * worst.query_len
        words = f"{worst.first} {unit}" if worst.query_len == 1 else f"{worst.first} {unit}, {tokens} tokens,"
        line.append(f", {worst.waste:.1%} at worst: {words} run as {worst.padded}")
    return line


def _batch_table(found: Iterable[BatchAnswer]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for heading, justify in (("Batch", "left"), ("Runs in", "left"), ("As", "right"), ("Padding", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for answer in found:
        what = "decode requests" if answer.kind == "uniform_decode" else "tokens, mixed"
        if answer.mode is None:
            table.add_row(f"{answer.size} {what}", Text(f"never: {answer.why_not}", style="faint"), "", "")
            continue
        mode = CUDAGraphMode(answer.mode)
        table.add_row(
            f"{answer.size} {what}",
            Text(bars.NAMES[mode], style=STYLES[mode]),
            f"{answer.padded} tokens",
            f"{answer.waste:.2%}",
        )
    return table


def _padding_table(resolution: Resolution) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False, title_justify="left")
    for heading in ("Tokens of a batch", "Run as", "Padding at most"):
        table.add_column(heading, justify="right")
    for first, last, size in resolution.padding_table():
        batch = str(first) if first == last else f"{first}–{last}"
        table.add_row(batch, str(size), f"{(size - first) / size:.2%}")
    if not resolution.capture_sizes:
        table.add_row("any", "itself, eager", "0.00%")
    return table


def _show_findings(out: Console, resolution: Resolution) -> None:
    for finding in resolution.findings:
        out.print()
        line = Text(SIGNS[finding.severity], style=finding.severity)
        line.append(f" {finding.code}", style="code")
        line.append(f"  {finding.message}", style="not bold default")
        out.print(line)
        if finding.fix:
            fix = Text("fix ", style="fix")
            fix.append(finding.fix, style="default")
            out.print(Padding(fix, (0, 0, 0, 2)))


def _show_list(out: Console, title: str, items: Iterable[str]) -> None:
    lines = list(items)
    if not lines:
        return
    out.print()
    out.print(Text(title, style="key"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(style="faint")
    grid.add_column(style="faint")
    for line in lines:
        grid.add_row("•", line)
    out.print(grid)
