"""What `cgplan tune --max-concurrency` says: which graphs so many requests can use, and what the others cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..errors import as_fix
from ..memory.capture_seconds import Seconds
from ..memory.estimates import MIB
from ..workload.choices.concurrency import Ceiling, Launch, Used
from ..workload.sizes.effect import Point
from .console import console
from .markdown_table import cell, table
from .tables import show_list
from .tune_text import show_table
from .tune_view import NOTHING, percent, printable
from .words import as_option, counted, sentence

HEAD = ("", "sizes", "graphs", "padding", "MiB", "KV tokens", "capture, s")
MOST_SAID = 8
OF_REQUESTS = "--max-num-seqs"


def show(found: Ceiling, title: str, assumptions: Sequence[str] = (), out: Console | None = None) -> None:
    """Print it; `title` is of the deployment."""
    out = out or console()
    out.print(Text(printable(title), style="head"))
    out.print()
    for line in stopped(found):
        out.print(Text(line, style="error"))
    for line in told(found):
        out.print(Text(line))
    out.print()
    show_table(out, HEAD, rows(found))
    for one in found.launches:
        if one.flags:
            out.print()
            out.print(Text(f"{sentence(effect(found, one))}"))
            out.print(Text(one.flags, style="fix"), soft_wrap=True)
    show_list(out, "Assumed and noted", notes(found, assumptions))


def page(found: Ceiling, title: str, assumptions: Sequence[str] = ()) -> str:
    """The same as a page of Markdown, from its heading of level 1 on."""
    lines = [f"# Graphs of at most {found.asked} requests at once: {cell(title)}", ""]
    if found.stops:
        lines += [cell(" ".join(stopped(found))), ""]
    lines += [*told(found), ""]
    lines += table(HEAD, rows(found), range(1, len(HEAD)))
    for one in found.launches:
        if one.flags:
            lines += ["", cell(sentence(effect(found, one))), "", "```", one.flags, "```"]
    said = notes(found, assumptions)
    if said:
        lines += ["", "## Assumed and noted", "", *(f"- {cell(sentence(note))}" for note in said)]
    return "\n".join(lines) + "\n"


def stopped(found: Ceiling) -> list[str]:
    """Why today's launch does not start, and what mends it; []: it starts, or its memory is not planned."""
    lines = [
        f"{one.code}: {one.message}" + (f"; fix: {as_option(as_fix(one.fix))}" if one.fix else "") + "."
        for one in found.stops
    ]
    return ["It does not start as it is, by the best estimate:", *lines] if lines else []


def told(found: Ceiling) -> list[str]:
    """Which graphs are used, in whole sentences."""
    graphs = found.launches[0].point.graphs
    lines = [f"Of {counted(graphs, 'graph')}, with at most {counted(found.requests, 'request')} at once:"]
    if found.asked > found.requests:
        lines.insert(0, f"max_num_seqs lets in {found.requests} at once, so that {found.asked} are never reached.")
    for one in found.used:
        lines += _of_mode(one)
    if found.without_graph:
        what = f"decode steps of {_sizes(found.without_graph)} requests"
        lines.append(
            f"- {what if len(found.without_graph) < found.requests else 'all decode steps'} run without a graph."
        )
    return lines


def _of_mode(one: Used) -> list[str]:
    lines = []
    if one.by_decode:
        lines.append(f"- decode steps run in {len(one.by_decode)} {one.mode} sizes: {_sizes(one.by_decode)}.")
    if one.by_prefill:
        lines.append(
            f"- {len(one.by_prefill)} {one.mode} sizes serve steps with a prefill alone: {_sizes(one.by_prefill)}."
        )
    if one.by_none:
        lines.append(f"- {len(one.by_none)} {one.mode} sizes are never used: {_sizes(one.by_none)}.")
    return lines


def _sizes(sizes: Sequence[int]) -> str:
    if len(sizes) <= MOST_SAID:
        return ", ".join(map(str, sizes))
    return f"{', '.join(map(str, sizes[:3]))} to {sizes[-1]}"


def rows(found: Ceiling) -> list[tuple[str, ...]]:
    return [(one.name, *_cells(one.point)) for one in found.launches]


def _cells(point: Point) -> tuple[str, ...]:
    taken = NOTHING if point.graph_bytes is None else f"{point.graph_bytes / MIB:,.0f}"
    tokens = NOTHING if point.kv_tokens is None else f"{point.kv_tokens:,}"
    return (
        str(len(point.sizes)), str(point.graphs), percent(point.waste), taken, tokens, f"{point.capture.best:.1f}",
    )  # fmt: skip


def effect(found: Ceiling, one: Launch) -> str:
    """What a launch saves of today's, and what runs without a graph then."""
    before, after = found.launches[0].point, one.point
    fewer = before.graphs - after.graphs
    saved = [f"{counted(abs(fewer), 'graph')} {_less(fewer, 'fewer')}" if fewer else "as many graphs"]
    if before.graph_bytes is not None and after.graph_bytes is not None:
        less = round((before.graph_bytes - after.graph_bytes) / MIB)
        saved += [f"{abs(less):,} MiB {_less(less, 'less')}"] if less else []
    saved += _seconds(before.capture, after.capture)
    if before.kv_tokens is not None and after.kv_tokens is not None and before.kv_tokens != after.kv_tokens:
        gained = after.kv_tokens - before.kv_tokens
        saved.append(f"{abs(gained):,} KV tokens {'more' if gained > 0 else 'fewer'}")
    text = f"{one.name}: {', '.join(saved)}"
    if one.without_graph < found.launches[0].without_graph:
        what = f"above {one.without_graph} tokens" if one.without_graph else "of any size"
        text += f"; steps with a prefill {what} then run without a graph"
    return text


def _less(by: float, word: str) -> str:
    return word if by > 0 else "more"


def _seconds(before: Seconds, after: Seconds) -> list[str]:
    """What capture saves; its bounds hold the best value, whichever end of the estimate it comes of."""
    best, *ends = (round(getattr(before, name) - getattr(after, name), 1) for name in ("best", "low", "high"))
    if not best and not any(ends):
        return []
    sign = -1 if best < 0 else 1
    low, *_, high = sorted(sign * by for by in (best, *ends))
    return [f"{abs(best):.1f} s {_less(sign, 'less')} of capture ({low:.1f} to {high:.1f})"]


def notes(found: Ceiling, assumptions: Sequence[str]) -> list[str]:
    own = ["Padding is of decode steps, each number of requests alike."]
    if any(one.point.kv_tokens is not None and OF_REQUESTS in one.flags for one in found.launches):
        own.append(f"KV tokens: {OF_REQUESTS} gives some beside those of the graphs, for the profile run takes less.")
    if found.why_no_memory:
        own.append(f"the memory is not planned: {found.why_no_memory}")
    return [printable(text) for text in (*assumptions, *own)]
