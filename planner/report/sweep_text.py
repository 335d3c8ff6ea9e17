"""The screen of `cgplan sweep`: the bar of its progress, how many deployments start, and the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..errors import shorten
from ..memory.estimates import GIB
from ..sweep.grid import Grid
from ..sweep.pareto import Best, Front, Record, tokens_of
from .console import console
from .tables import show_columns, show_pairs
from .words import counted, sentence

MOST_ROWS = 30
"""Rows of the table of the best, over all models and GPUs."""
FEWEST_ROWS = 3
"""Rows of each model and GPU, however many there are."""
MOST_CODES = 8
SHORT = {
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
    "max_num_seqs": "seqs",
    "max_num_batched_tokens": "tokens",
    "max_model_len": "len",
    "gpu_memory_utilization": "util",
    "compilation_config.cudagraph_mode": "mode",
}
"""Options of the last column, which is narrow."""
WORDS = {
    "yes": ("starts", "start"),
    "unsure": ("may start", "may start"),
    "doubtful": ("does not start by the best estimate", "do not start by the best estimate"),
    "no": ("does not start", "do not start"),
    None: ("has no answer", "have no answer"),
}
"""Of one deployment, and of several."""
HEAD = ("GPUs", "KV tokens", "at once", "graphs", "graph GiB", "covered", "eager", "options")
LEAST_ROOM = 16
"""Columns that the options need, or those of the longest; with less they stand in lines of their own."""
MAY_START = "may start"
MAY_START_MEANS = f"{MAY_START}: it does by the best estimate; within the bounds it may not."
BEST = "Best of each model and GPU: no other has more KV cache, more batch sizes with a graph, less memory of graphs"


class Summary:
    """What is said of all records at the end; the order in which they come does not matter."""

    def __init__(self, grid: Grid) -> None:
        self._varied = [axis.name for axis in grid.axes if len(axis.values) > 1 and axis.name not in ("model", "gpu")]
        self._ignored = grid.ignored
        self._starts: Counter[str | None] = Counter()
        self._codes: Counter[str] = Counter()
        self._messages: dict[str, str] = {}
        self._front = Front()

    def add(self, record: Record) -> None:
        starts = record["starts"]
        self._starts["doubtful" if starts == "unsure" and not record.get("fits") else starts] += 1
        code = record.get("code")
        if code is not None:
            self._codes[code] += 1
            message = str(record.get("message"))
            self._messages[code] = min(message, self._messages.get(code, message))
        self._front.add(record)

    def show(self, out: Console | None = None) -> None:
        """Print it.

        Args:
            out: None: stdout.
        """
        out = out or console()
        counts = [(self._starts[key], words) for key, words in WORDS.items() if self._starts[key]]
        told = [f"{count:,} {words[count != 1]}" for count, words in counts]
        head = counted_in_thousands(sum(self._starts.values()), "deployment")
        out.print(Text(f"{head}: {', '.join(told)}", style="head"))
        self._show_codes(out)
        groups = self._front.best()
        if groups:
            out.print()
            out.print(Text(sentence(f"{BEST} and fewer GPUs"), style="key"))
            self._show_best(out, groups)
        if self._ignored:
            out.print()
            out.print(Text(f"Not modelled, and without effect here: {', '.join(self._ignored)}.", style="faint"))

    def _show_codes(self, out: Console) -> None:
        most = self._codes.most_common()
        most.sort(key=lambda item: (-item[1], item[0]))
        if not most:
            return
        out.print()
        rows = [(f"{code} x {count:,}", shorten(self._messages[code], 200)) for code, count in most[:MOST_CODES]]
        if len(most) > MOST_CODES:
            rows.append(("", f"and {counted(len(most) - MOST_CODES, 'further code')}"))
        show_pairs(out, rows, style="code")

    def _show_best(self, out: Console, groups: dict[tuple[str, str], list[Best]]) -> None:
        limit = max(FEWEST_ROWS, MOST_ROWS // len(groups))
        shown = {name: picked(best, limit) for name, best in groups.items()}
        every = [one.record for best in shown.values() for one in best]
        varied = [name for name in self._varied if len({str(record.get(name)) for record in every}) > 1]
        common = [_option(name, every[0]) for name in self._varied if name not in varied]
        if any(record["starts"] == "unsure" for record in every):
            out.print(Text(MAY_START_MEANS, style="warning"))
        if common:
            out.print(Text(f"All of them: {' '.join(common)}"))
        out.print()
        for (model, gpu), best in shown.items():
            out.print(Text(_printable(f"{model} on {gpu}"), style="key"))
            rows = [(_cells(one, varied), "warning" if one.record["starts"] == "unsure" else "") for one in best]
            _show_rows(out, rows)
            left_out = len(groups[model, gpu]) - len(best)
            if left_out:
                out.print(Text(f"and {left_out} more in between", style="faint"))
            out.print()


def _show_rows(out: Console, rows: Sequence[tuple[list[str], str]]) -> None:
    """A table; where the screen has no room for the options, each deployment in lines of its own."""
    before = sum(max(len(name), *(len(cells[at]) for cells, _ in rows)) + 2 for at, name in enumerate(HEAD[:-1]))
    longest = max((len(word) for cells, _ in rows for word in cells[-1].split()), default=0)
    if out.width - before >= max(LEAST_ROOM, longest):
        show_columns(out, HEAD, rows, right=(0, 1, 2, 3, 4, 5, 6))
        return
    for cells, style in rows:
        *numbers, options = cells
        told = ", ".join(f"{name} {text}" for name, text in zip(HEAD, numbers, strict=False) if text)
        out.print(Text(options or "-", style=style or "head"))
        out.print(Padding(Text(told), (0, 0, 0, 2)))


def _option(name: str, record: Record) -> str:
    value = record.get(name)
    return f"{_short(name)}={'default' if value is None else _shown(name, value)}"


def _cells(one: Best, varied: Sequence[str]) -> list[str]:
    """The columns of HEAD. Options that all rows share are said above them."""
    record = one.record
    graph_bytes, held = record.get("graph_bytes"), record.get("max_concurrency")
    options = [_option(name, record) for name in varied]
    if record["starts"] == "unsure":
        options.append(MAY_START if record.get("code") is None else f"{MAY_START} ({record['code']})")
    if one.alike:
        options.append(f"(+{one.alike:,} alike)")
    return [
        str(record.get("gpus")),
        f"{tokens_of(record):,}",
        "" if held is None else f"{held:.1f}x",
        str(record.get("graphs")),
        "" if graph_bytes is None else f"{graph_bytes / GIB:.2f}",
        f"{record.get('covered_batches'):,}",
        f"{record.get('uncovered_batches'):,}",
        " ".join(options),
    ]


def _printable(value: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value))


def _shown(name: str, value: object) -> str:
    return "auto" if name == "max_model_len" and value == -1 else _printable(value)


def _short(name: str) -> str:
    return SHORT.get(name) or name.rpartition(".")[2]


def picked(best: Sequence[Best], limit: int) -> list[Best]:
    """At most `limit` of them, the first and the last among them, evenly apart."""
    if len(best) <= limit:
        return list(best)
    return [best[round(at * (len(best) - 1) / (limit - 1))] for at in range(limit)]


def counted_in_thousands(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class Progress:
    """A bar on stderr; nothing where stderr is no terminal."""

    def __init__(self, total: int, done: int, what: str = "deployments") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        out = Console(stderr=True)
        columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn())
        self._bars = Bars(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=out, transient=True)
        self._bars.disable = not out.is_terminal
        self._task = self._bars.add_task(what, total=total, completed=done)

    def __enter__(self) -> Progress:
        if not self._bars.disable:  # rich before 14.1 ends even a bar that is not shown with an empty line
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._bars.disable:
            self._bars.stop()

    def tell(self, more: int) -> None:
        """So many deployments more are done."""
        self._bars.advance(self._task, more)
