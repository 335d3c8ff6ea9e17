"""The screen of `cgplan profile`: progress, the three answers side by side, and times as bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ..memory.estimates import GIB, MIB
from ..memory.profile.descriptors import by_mode
from .console import console
from .plan_text import show_findings
from .tables import show_list, show_pairs
from .words import counted

if TYPE_CHECKING:
    from ..memory.profile.descriptors import Descriptor
    from ..memory.profile.needs import Needs
    from ..memory.profile.worth import Left
    from ..vocabulary import CUDAGraphMode

NOTHING_KEPT = "This vLLM keeps nothing back for graphs: every answer leaves the same KV cache."
NAMES = {
    "two": "vLLM's rule, two samples",
    "auto": "from a quarter of the graphs",
    "all": "all graphs captured",
}
_BAR = 36
"""Cells of the longest bar at most."""
_LABEL = 16
"""Columns before a bar."""


class Progress:
    """A bar on stderr with the graph at hand and the free memory; nothing where stderr is no terminal."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        out = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, TextColumn("{task.fields[free]}"), console=out, transient=True)
        self._bars.disable = not out.is_terminal
        self._task = self._bars.add_task("starting", total=total, free="")

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def tell(self, what: str, done: int, of: int, free: int) -> None:
        """Show where the measurement stands."""
        self._bars.update(self._task, description=what, completed=done, total=of, free=f"{free / GIB:.2f} GiB free")


def show_dry_run(found: Needs, title: str, sample: str, assumptions: Iterable[str] = ()) -> None:
    """What would be captured, what memory it needs, and whether the GPU has it."""
    out = console()
    out.print(Text(title, style="head"))
    out.print(Text(f"engine {found.engine}, sample {sample}; nothing is measured", style="faint"))
    out.print()
    show_pairs(out, [(str(mode), _sizes(found, mode, graphs)) for mode, graphs in by_mode(found.captures).items()])
    out.print()
    show_pairs(out, list(_needed(found)))
    if found.problem is not None:
        show_findings(out, [found.problem])
    show_list(out, "Differs from vLLM's model", found.notes)
    show_list(out, "To know", found.remarks)
    show_list(out, "Assumed", assumptions)


def _sizes(found: Needs, mode: CUDAGraphMode, graphs: Sequence[Descriptor]) -> str:
    """How many of how many, and their tokens; those of each number of adapters by themselves."""
    by_adapters: dict[int, dict[int, None]] = {}
    for one in graphs:
        by_adapters.setdefault(one.num_active_loras, {})[one.num_tokens] = None
    parts = []
    for adapters, sizes in sorted(by_adapters.items()):
        listed = ", ".join(map(str, sizes))
        whose = f"with {counted(adapters, 'adapter')}" if adapters else "without adapters"
        parts.append(listed if list(by_adapters) == [0] else f"{whose} {listed}")
    return f"{len(graphs)} of {counted(found.every[str(mode)], 'graph')}: {'; '.join(parts)}"


def _needed(found: Needs) -> Iterator[tuple[str, str]]:
    of_vllm = found.engine == "vllm"
    if found.weights_bytes is not None and found.kv_bytes is not None and found.step_bytes is not None:
        yield "Weights", _gib(found.weights_bytes) + ("" if of_vllm else ", random")
        if of_vllm:
            yield "KV cache", _gib(found.kv_bytes) if found.kv_bytes else "nothing is left for it"
            yield "Peak", f"{_gib(found.step_bytes)}, activations of vLLM's profile run"
        else:
            yield "KV cache", f"{_gib(found.kv_bytes)}, blocks shared by all requests"
            yield "Largest step", f"at most {_gib(found.step_bytes)}"
    if found.outside_bytes is not None:
        yield "Process", f"{_gib(found.outside_bytes)}: CUDA, libraries" + (", buffers" if of_vllm else "")
    if found.graphs is not None and found.few is not None:
        few, every = found.few, found.graphs
        said = f"{_gib(few.best)} ({few.low / GIB:.2f} to {few.high / GIB:.2f}) of the captured ones in vLLM"
        yield "CUDA graphs", said + ("" if few.best == every.best else f", {_gib(every.best)} of all")
    if found.driver_bytes is not None:
        graphs, node = found.driver_bytes
        yield (
            "CUDA graphs",
            f"{graphs / MIB:.1f} MiB in the driver and {node / 1024:.1f} KiB more for each kernel of each, as measured "
            "of vLLM's graphs; their pool is not known",
        )
    if found.total_bytes is not None:
        bound = "about" if of_vllm else "at most"
        yield "Together", f"{bound} {_gib(found.total_bytes)} of the {_gib(found.gpu_bytes)} of each GPU"


def show_profile(made: Mapping[str, Any], title: str, worth: Mapping[str, Left] | str) -> None:
    """The record of a profile."""
    out = console()
    profile = made["profile"]
    out.print(Text(title, style="head"))
    machine = profile["machine"]
    done = sum(profile["captured"].values())
    every = sum(profile["graphs"].values())
    versions = f"torch {machine['torch']}, driver {machine['driver'] or 'unknown'}"
    out.print(
        Text(f"{machine['gpu']}, {versions}, engine {machine['engine']}; {done} of {every} graphs", style="faint")
    )
    if profile["stopped"]:
        out.print()
        out.print(Text(f"It stopped early: {profile['stopped']}. What follows is what was measured by then.", "error"))
    for one in profile["ranks"]:
        _show_rank(out, one, len(profile["ranks"]), worth)
    _show_own(out, profile)
    _show_workspace(out, profile)
    if isinstance(worth, str):
        show_list(out, "KV cache", [f"it is not planned: {worth}"])
    for one in profile["ranks"][:1]:
        _show_times(out, one["steps"], profile["launch_bound_up_to"])
    show_list(out, "Notes", profile["notes"])


def _show_rank(out: Console, one: Mapping[str, Any], ranks: int, worth: Mapping[str, Left] | str) -> None:
    out.print()
    head = "CUDA graphs" if ranks == 1 else f"CUDA graphs of rank {one['rank']}"
    out.print(Text(head, style="key"))
    answers = one["graph_bytes"]
    truth = answers["all"]
    rows = []
    for name, label in NAMES.items():
        value = answers[name]
        if value is None:
            continue
        best = value["best"] if isinstance(value, dict) else value
        text = f"{best / MIB:7.0f} MiB"
        if isinstance(value, dict) and value["low"] != value["high"]:
            text += f" ({value['low'] / MIB:.0f} to {value['high'] / MIB:.0f})"
        if truth and name != "all":
            text += f", {100 * (best - truth) / truth:+.1f}%"
        left = worth.get(name) if not isinstance(worth, str) else None
        if left is not None and left.tokens is not None:
            text += f"; leaves {_gib(left.kv_bytes)} of KV cache, {left.num_blocks:,} blocks, {left.tokens:,} tokens"
        rows.append((label, text))
    show_pairs(out, rows)
    if not isinstance(worth, str) and is_all_one(list(worth.values())):
        out.print(Text(NOTHING_KEPT, style="faint"))
    parts = {"weights": one["weights_bytes"] or 0, "cache": one["kv_bytes"] or 0, "graphs' pool": one["pool_bytes"]}
    parts["steps and libraries"] = max(0, one["peak_bytes"] - sum(parts.values()))
    peak = f"peak {_gib(one['peak_bytes'])}: " + ", ".join(f"{name} {_gib(size)}" for name, size in parts.items())
    left_bytes = one["left_bytes"]
    kept = "nothing is left allocated" if not left_bytes else f"{left_bytes / MIB:.0f} MiB are still allocated"
    out.print(Text(f"{one['seconds']:.1f} s{_capturing(one['captures'])}; {peak}; {kept}", style="faint"))


def is_all_one(worth: Sequence[Left]) -> bool:
    """Whether other bytes of graphs leave the same KV cache."""
    return len({one.graph_bytes for one in worth}) > 1 and len({one.kv_bytes for one in worth}) == 1


def _capturing(captures: Sequence[Mapping[str, Any]]) -> str:
    """Of the seconds, those of the captures, and of these what made the graphs runnable, where it is told apart."""
    if not captures:
        return ""
    instantiate = [one.get("instantiate_seconds") for one in captures]
    known = sum(value for value in instantiate if value is not None)
    apart = f" ({known:.2f} to instantiate)" if None not in instantiate else ""
    return f", captures {sum(one['seconds'] for one in captures):.2f} s{apart}"


def _show_own(out: Console, profile: Mapping[str, Any]) -> None:
    own = profile["vllm"]
    if not own:
        return
    rows = [("vLLM estimated", own["estimate_bytes"]), ("vLLM's capture took", own["took_bytes"])]
    show_pairs(out, [(label, f"{value / MIB:7.0f} MiB") for label, value in rows if value is not None])


def _show_workspace(out: Console, profile: Mapping[str, Any]) -> None:
    """What vLLM's attention keeps and the synthetic decoder's does not: the better part of the gap between them."""
    size = profile["attention_workspace_bytes"]
    if size is None:
        return
    if size:
        text = f"about {size / MIB:.0f} MiB more in vLLM's own graphs: its attention splits the keys (predicted)"
    else:
        text = "none in vLLM's own graphs with this backend (predicted)"
    show_pairs(out, [("Attention workspace", text)])


def _show_times(out: Console, steps: Sequence[Mapping[str, Any]], bound: int | None) -> None:
    shown = [step for step in steps if step["eager"] is not None]
    if not shown:
        return
    out.print()
    out.print(Text("A decode step, ms", style="key"))
    longest = max(step["eager"]["median"] for step in shown)
    rows = [(step, name) for step in shown for name in ("eager", "piecewise", "full") if step[name] is not None]
    told = [_told(step, name) for step, name in rows]
    widest = min(_BAR, out.width - _LABEL - max(map(len, told)))
    for (step, name), text in zip(rows, told, strict=True):
        label = f"{step['num_tokens']:5} " if name == "eager" else " " * 6
        line = Text(f"{label}{name if name == 'eager' else name.upper():10}")
        if widest > 0:
            line.append("█" * max(1, round(widest * step[name]["median"] / longest)), style=name)
        line.append(text)
        out.print(line)
    kernels = shown[0]["kernels"]
    launch = shown[0]["launch_seconds"]
    if kernels and launch:
        out.print(Text(f"{kernels} launches a step, {1e6 * launch:.1f} us of the CPU each", style="faint"))
    if bound is None:
        text = "Not bound by launches at any measured size: graphs gain little here."
    else:
        text = f"Bound by launches up to {counted(bound, 'token')}: there a graph is faster than eager by more than 5%."
    out.print(Text(text))
    bare = [str(step["num_tokens"]) for step in shown if step["full"] is None and step["piecewise"] is None]
    if bare:
        text = f"Timed eager only, as no graph of that size was captured (--sample all has all): {', '.join(bare)}"
        out.print(Text(text, style="faint"))


def _told(step: Mapping[str, Any], name: str) -> str:
    """A step's time and spread, ms, and of a graph how many times faster than eager it is."""
    times = step[name]
    spread = 1000 * (times["high"] - times["low"]) / 2
    gain = "" if name == "eager" else f", {step['eager']['median'] / times['median']:.2f}x"
    return f" {1000 * times['median']:.2f} ±{spread:.2f}{gain}"


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"
