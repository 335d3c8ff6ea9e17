"""The tables of --cudagraph-metrics in a log of vLLM, line by line.

Every VLLM_LOG_STATS_INTERVAL (10 s) the frontend prints, right behind "Engine 000: Avg prompt throughput ...":

    **CUDAGraph Config Settings:**

    - Mode: FULL_AND_PIECEWISE
    - Capture sizes: [1, 2, 4, 8]

    **CUDAGraph Stats:**

    | Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
    |-----------------|---------------|--------------|--------------|-------|
    | 7               | 8             | 1            | FULL         | 212   |

with the steps since the last table, all of them, the most frequent first; then it starts again at 0. So tables are
added. vLLM's formatter puts the prefix before every line; other formatters only before the first. The same in all
releases (vllm/compilation/cuda_graph.py, CUDAGraphLogging); runner V2 counts its steps since 0.30. With several API
servers vLLM prints no table. A step is counted with the tokens of its own engine; where ranks agree on a size, the
padded size is that of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ...vocabulary import CUDAGraphMode
from ..gathered import Gathered, Part, Settings
from ..histogram import MAX_COUNT, MAX_SIZE, Batches, Kind, Range, Seen, workload_of

COLUMNS = ("Unpadded Tokens", "Padded Tokens", "Num Paddings", "Runtime Mode", "Count")
MAX_ROWS = 200_000
"""Distinct rows that are kept; a day of a large server has a few thousand."""
MAX_CELLS = 64
OPEN_SETTINGS = "CUDAGraph Config Settings"
MODES = {str(mode).encode(): mode for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE)}
LONGEST_NUMBER = 18
ROWS_BEGIN = 8
"""Lines of a table between that of settings and the first row."""

DECODE_FULL = ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY")
"""Modes in which only decode batches run FULL."""

_PROCESS = re.compile(r"\((?P<name>[A-Za-z_][\w.-]{0,60}) pid=(?P<pid>[0-9]{1,10})\)")
_ENGINE = re.compile(r"\b(?:Engine (?P<one>[0-9]{3,6})|(?P<many>[0-9]{1,6}) Engines Aggregated): Avg prompt")
_MODE = re.compile(r"- Mode: (?P<mode>[A-Z_]{2,40})\s*$")
_SIZES = re.compile(r"- Capture sizes: \[(?P<sizes>[0-9, ]{0,60000})\]\s*$")
_RULE = re.compile(r"\|[-|:\s]{5,}\|\s*$")
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)

_ROW = re.compile(rb"^\| ([0-9]+) *\| ([0-9]+) *\| ([0-9]+) *\| ([A-Z]+) *\| ([0-9]+) *\|$", re.MULTILINE)
_WHOLE = re.compile(
    rb"\n- Mode: (?P<mode>[A-Z_]{2,40})\n- Capture sizes: \[(?P<sizes>[0-9, ]{0,60000})\]\n\n"
    rb"\*\*CUDAGraph Stats:\*\*\n\n"
    rb"\| Unpadded Tokens *\| Padded Tokens *\| Num Paddings *\| Runtime Mode *\| Count *\|\n\|[-|]+\|\n"
    rb"(?P<rows>\|[^\n]+(?:\n\|[^\n]+)*)(?:\n[^|\n]?[^\n]*)?"
)

_Row = tuple[int, int, CUDAGraphMode]


@dataclass
class _Stream:
    """What one process has printed so far."""

    engine: str = ""
    mode: str | None = None
    sizes: tuple[int, ...] | None = None
    columns: list[str] | None = None
    is_known: bool = False
    in_settings: bool = False
    rows: dict[_Row, int] = field(default_factory=dict)

    @property
    def settings(self) -> Settings | None:
        return None if self.mode is None or self.sizes is None else Settings(self.mode, self.sizes)


@dataclass
class TableReader:
    """Adds tables up: by engine, and by the settings above them. Memory grows with distinct rows only."""

    not_recognised: int = 0
    left_out: int = 0
    _streams: dict[tuple[str, str], _Stream] = field(default_factory=dict)
    _last: dict[str, tuple[str, str]] = field(default_factory=dict)
    _rows: dict[tuple[str, Settings | None], dict[_Row, int]] = field(default_factory=dict)
    _tables: dict[tuple[str, Settings | None], int] = field(default_factory=dict)
    _distinct: int = 0
    _latest: _Stream = field(default_factory=_Stream)

    @property
    def is_open(self) -> bool:
        """Whether a heading or a row of a table that has begun may follow."""
        return any(stream.in_settings or stream.columns is not None for stream in self._streams.values())

    def close(self) -> None:
        """No row follows."""
        for stream in self._streams.values():
            stream.columns = None
            stream.in_settings = False

    def feed(self, text: str, source: str = "") -> bool:
        """Take one line, with or without vLLM's prefix. `source` tells containers apart. True: of a table."""
        process = next(reversed(list(_PROCESS.finditer(text[:300]))), None)
        key = (source, process[0]) if process is not None else self._last.get(source, (source, ""))
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= 4096:
                return False
            stream = self._streams[key] = _Stream()
        self._latest = stream
        if process is not None:
            self._last[source] = key
        if engine := _ENGINE.search(text):
            stream.engine = f"engine {int(engine['one'])}" if engine["one"] else f"{engine['many']} engines together"
            stream.columns = None
            return False
        if self._is_heading(stream, text):
            # What follows may come without a prefix.
            self._last[source] = key
            return True
        if stream.columns is None:
            return False
        if _RULE.search(text):
            return True
        found = self._row(stream, text)
        if not found and process is not None and text[process.end() :].strip():
            stream.columns = None
        return found

    def feed_whole(self, bodies: Sequence[bytes], goes_on: bool) -> bool:
        """Take what follows the line of settings just fed, without prefixes, at once. False: it is not vLLM's own form
        to the letter, so that nothing was taken and the lines are to be fed one by one. `goes_on`: rows may follow.
        """
        match = _WHOLE.fullmatch(b"\n".join(bodies))
        if match is None:
            return False
        rows = [_read(*cells) for cells in _ROW.findall(match["rows"])]
        if None in rows or len(rows) != match["rows"].count(b"\n") + 1:
            return False
        stream = self._latest
        stream.mode, stream.sizes, stream.in_settings = match["mode"].decode(), _sizes(match["sizes"]), False
        stream.columns, stream.is_known = list(COLUMNS) if goes_on else None, True
        self._group(stream)
        for row in rows:
            assert row is not None
            self._add(stream, *row)
        return True

    def _is_heading(self, stream: _Stream, text: str) -> bool:
        if OPEN_SETTINGS in text:
            stream.mode = stream.sizes = stream.columns = None
            stream.in_settings = True
            return True
        if stream.in_settings and (match := _MODE.search(text)):
            stream.mode = match["mode"]
            return True
        if stream.in_settings and (match := _SIZES.search(text)):
            stream.sizes = _sizes(match["sizes"].encode())
            return True
        if COLUMNS[0] in text and text.count("|") >= len(COLUMNS):
            self._begin(stream, text)
            return True
        return False

    def _begin(self, stream: _Stream, text: str) -> None:
        stream.in_settings = False
        cells = [cell.strip() for cell in text.rstrip().split("|")][:MAX_CELLS]
        first = max((at for at, cell in enumerate(cells) if "]" in cell), default=0) + 1
        while first < len(cells) and not cells[first]:
            first += 1
        stream.columns = cells[first:-1] if cells[-1] == "" else []
        stream.is_known = all(stream.columns.count(name) == 1 for name in COLUMNS)
        if stream.is_known:
            self._group(stream)
        else:
            self.not_recognised += 1

    def _group(self, stream: _Stream) -> None:
        """A table begins."""
        group = (stream.engine, stream.settings)
        self._tables[group] = self._tables.get(group, 0) + 1
        stream.rows = self._rows.setdefault(group, {})

    def _row(self, stream: _Stream, text: str) -> bool:
        """Whether the line is a row, or was meant to be one."""
        if "|" not in text:
            return False
        cells = _cells(text, len(stream.columns or ()))
        named = dict(zip(stream.columns or (), cells, strict=False)) if stream.is_known else {}
        row = _read(*(named.get(name, "").encode() for name in COLUMNS))
        if row is None:
            self.not_recognised += 1
        else:
            self._add(stream, *row)
        return True

    def _add(self, stream: _Stream, row: _Row, count: int) -> None:
        rows = stream.rows
        if row not in rows:
            if self._distinct >= MAX_ROWS:
                self.left_out += 1
                return
            self._distinct += 1
        rows[row] = rows.get(row, 0) + count

    def gathered(self) -> Gathered:
        """All tables so far: one part an engine and settings."""
        parts = []
        for (engine, settings), rows in self._rows.items():
            if rows:
                count = self._tables[(engine, settings)]
                source = f"{count} table{'' if count == 1 else 's'} of --cudagraph-metrics"
                batches = (_batches(row, count, settings) for row, count in rows.items())
                parts.append(Part(engine, workload_of(batches, source), "tables", settings, count))
        remarks: tuple[str, ...] = ()
        if self.left_out:
            remarks = (f"{self.left_out} rows of tables were left out: over {MAX_ROWS} different ones",)
        return Gathered(tuple(parts), remarks, self.not_recognised)


def read_tables(lines: Iterable[str]) -> Gathered:
    """The tables in `lines`, which may hold line ends within, as structured logs do."""
    reader = TableReader()
    for line in lines:
        for text in line.splitlines():
            reader.feed(text)
    return reader.gathered()


def _cells(text: str, count: int) -> list[str]:
    """The `count` cells at the end of a line; none where the line has no end, or more cells than that."""
    parts = text.rstrip().split("|")
    if parts[-1] or len(parts) < count + 2:
        return []
    before = parts[-count - 2].strip()
    if _DIGITS.fullmatch(before) or before.encode() in MODES:
        return []
    return [cell.strip() for cell in parts[-count - 1 : -1]]


def _read(unpadded: bytes, padded: bytes, paddings: bytes, mode: bytes, count: bytes) -> tuple[_Row, int] | None:
    """A row and its count; None where a number is none, or the three sizes contradict each other."""
    if not (unpadded.isdigit() and padded.isdigit() and paddings.isdigit() and count.isdigit() and mode in MODES):
        return None
    if max(len(unpadded), len(padded), len(paddings), len(count)) > LONGEST_NUMBER:
        return None
    low, high, steps = int(unpadded), int(padded), int(count)
    if low + int(paddings) != high or not 1 <= low <= MAX_SIZE or high > MAX_SIZE or not 1 <= steps <= MAX_COUNT:
        return None
    return (low, high, MODES[mode]), steps


@lru_cache(64)
def _sizes(text: bytes) -> tuple[int, ...]:
    return tuple(int(size) for size in _DIGITS.findall(text.decode()))


def _batches(row: _Row, count: int, settings: Settings | None) -> Batches:
    unpadded, padded, mode = row
    is_decode = mode is CUDAGraphMode.FULL and settings is not None and settings.mode in DECODE_FULL
    kind: Kind = "decode" if is_decode else "any"
    return Batches(kind, Range(unpadded, unpadded), count, seen=Seen(mode, padded))
