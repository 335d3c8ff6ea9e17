"""Parts of lines that were quoted: half a sentence with its number, or an older wording, without vLLM's own head."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...startup.record import Captured, Place
from .quoted import MAX_LINE, MOST_LINES
from .start_notes import StartNotes

GIB = 1 << 30
_N = r"-?[0-9]{1,7}(?:\.[0-9]{1,4})?(?![\d,])"
_SHARE = r"[01](?:\.[0-9]{1,18})?(?!\d)"
_AS_GIB = r"`? ?(?:\([^()]{1,30}\) )?"
_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,15}"


class Part(NamedTuple):
    """A value of a rank or of the server.

    Attributes:
        name: of a field of Rank; else "tokens", "concurrency", "length", "profiled" or "seconds" of the engine's start.
    """

    name: str
    value: int | float | Captured


_TEXTS = tuple(
    re.compile(text.replace("#", _N).replace("@", _SHARE).replace("~", _COUNT))
    for text in (
        r"Available KV cache memory:? (?P<kv_bytes>#) ?GiB",
        r"[Ee]stimated CUDA ?[Gg]raph memory:? (?P<graph_estimate_bytes>#) ?GiB",
        r"(?P<graph_estimate_bytes>#) ?GiB \(estimated\)",
        r"(?P<graph_actual_bytes>#) ?GiB \(actual\)",
        r"[Gg]raph capturing finished in (?P<capture_seconds>#) ?s\w{0,6},? took (?P<graph_actual_bytes>#) ?GiB",
        r"[Mm]odel (?:loading took|weights take) (?P<weights_bytes>#) ?GiB",
        r"Free memory on device (?:[\w:]{1,40} )?\((?P<free_bytes>#)/(?P<total_bytes>#) ?GiB\) on startup(?! is less)",
        r"[Dd]esired GPU memory utilization is \((?P<utilization>@), (?P<requested_bytes>#) ?GiB\)",
        r"(?P<weights_bytes>#) ?GiB for weight\b",
        r"(?P<consumed_bytes>#) ?GiB for consumed memory",
        r"(?P<activation_bytes>#) ?GiB for peak activation",
        r"(?P<non_torch_bytes>#) ?GiB for non-torch memory",
        r"(?P<graph_actual_bytes>#) ?GiB for CUDAGraph memory",
        r"[Cc]urrent kv cache memory in use is (?P<kv_bytes>#) ?GiB",
        r"[Cc]urrent kv cache memory in use is (?P<kv_bytes>[0-9]{1,15})(?P<exact>) bytes",
        rf"--kv-cache-memory=(?P<suggested_kv_bytes>[0-9]{{1,15}})(?P<exact>){_AS_GIB}to fit into requested",
        rf"--kv-cache-memory=(?P<suggested_kv_bytes_full>[0-9]{{1,15}})(?P<exact>){_AS_GIB}to fully utilize",
        # Of engine V0.
        r"total_gpu_memory \((?P<total_bytes>#) ?GiB\) x gpu_memory_utilization \((?P<utilization>@)\) ?= ?"
        r"(?P<requested_bytes>#) ?GiB",
        r"non_torch_memory takes (?P<non_torch_bytes>#) ?GiB",
        r"PyTorch activation peak memory takes (?P<activation_bytes>#) ?GiB",
        r"the rest of the memory reserved for KV Cache is (?P<kv_bytes>#) ?GiB",
        # The advice on the share.
        r"--gpu-memory-utilization[ =](?P<utilization>@) is equivalent to",
        r"equivalent to --gpu-memory-utilization[ =](?P<equivalent_utilization>@)",
        r"(?:increas\w{1,3}|rais\w{1,3}|set) `?--gpu-memory-utilization`? (?:from (?P<utilization>@) )?to"
        r" (?P<raised_utilization>@)",
        # The KV cache and the graphs.
        r"KV cache size: (?P<tokens>~) tokens",
        r"[Mm]aximum concurrency for (?P<length>~) tokens per request: (?P<concurrency>#)x?",
        r"(?P<kind>FULL|PIECEWISE)=(?P<graphs>[0-9]{1,6}) \(largest=(?P<largest>[0-9]{1,6})\)",
        r"init engine \([^()]{1,80}\) took (?P<seconds>#) ?s",
    )
)


def parts(text: str) -> list[tuple[int, str, list[Part]]]:
    """Values in the lines of a short text, with the number of each line, from 1, and its words; a longer text: none."""
    lines = [(number, line.strip()[:MAX_LINE]) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MOST_LINES:
        return []
    found = [(number, line, list(_of(line))) for number, line in lines]
    if not any(values for _, _, values in found) and len(lines) > 1:
        whole = " ".join(line for _, line in lines)[:MAX_LINE]
        found = [(lines[0][0], whole, list(_of(whole)))]  # A terminal wrapped it.
    return [one for one in found if one[2]]


def _of(line: str) -> Iterator[Part]:
    for text in _TEXTS:
        for match in list(text.finditer(line))[:3]:
            values = {name: value for name, value in match.groupdict().items() if value is not None}
            if "kind" in values:
                counted = Captured(values["kind"], int(values["graphs"]), int(values["largest"]))
                yield Part("profiled", counted)
                continue
            is_exact = "exact" in values
            for name, value in values.items():
                if name != "exact":
                    yield Part(name, _number(name, value, is_exact))


def _number(name: str, value: str, is_exact: bool) -> int | float:
    if name.endswith(("_bytes", "_bytes_full")):
        return int(value) if is_exact else round(float(value) * GIB)
    if name in ("tokens", "length"):
        return int(value.replace(",", ""))
    return float(value)


def put(values: list[Part], notes: StartNotes, place: Place) -> None:
    """Takes the values of a line into the notes of a start."""
    rank = notes.rank(None)
    for name, value in values:
        if isinstance(value, Captured):
            rank.profiled = (*rank.profiled, value)
        elif name in ("tokens", "concurrency", "length"):
            notes.tokens(None, **{name: value})
        elif name == "seconds":
            notes.phase("init engine", value, None)
            notes.is_up = True
        else:
            rank.put(name, value, place)
