"""The section "Memory" of `cgplan diff` in words, shared by the screen and by Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..memory.by_release import MemoryAtRelease, MemoryMoves
from ..memory.estimates import MIB
from ..memory.kv.capacity import CAPACITY
from ..memory.reach import MOST_SEQS
from ..memory.release_causes import ASKED, CAPTURE, ESTIMATE, SAMPLER
from ..resolve.downgrade import MAMBA_SIZES
from ..trace import Finding
from .plan_words import gib, signed

LABELS = {
    "starts": "start, by its memory",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "kv_bytes": "KV cache",
    "max_concurrency": "full-length requests",
    "kv_tokens": "KV tokens",
    "max_model_len": "max_model_len that fits",
    "deducted_bytes": "graph estimate taken off",
    "graph_bytes": "graphs, capture takes",
    "block_size": "block size",
    "max_num_seqs_that_fits": "largest max_num_seqs",
    "codes": "findings",
}


OF_CACHE = ("max_concurrency", "kv_tokens", "max_model_len", "block_size")
OF_ONE_END = ("kv_bytes", "deducted_bytes", "graph_bytes")
"""Values that are told of one release alone, where the other one refuses before it looks at memory."""
COUNTED_OTHERWISE = "KV tokens of the log"
NOT_TRACED = "not traced"
MEASURED = "measured"


class MemoryRow(NamedTuple):
    """One value that moved; `codes` are the rules behind it, or the words that it was not traced to one."""

    label: str
    before: str
    after: str
    releases: tuple[str, ...]
    codes: tuple[str, ...]


def rows(moves: MemoryMoves) -> list[MemoryRow]:
    """What differs between the ends. Tokens are counted in one way at both."""
    found = []
    for name in moves.changed:
        if name == "codes" and not (moves.new or moves.gone):
            continue  # warnings of a KV cache that one end does not have
        if name in OF_CACHE and None in (moves.first.kv_tokens, moves.last.kv_tokens):
            continue  # the row of the start says why there is nothing to compare
        if name == "deducted_bytes" and not _has_cache(moves):
            continue  # there is nothing to take it off
        ends = (value(name, moves.first), value(name, moves.last))
        label, codes, releases = LABELS[name], _rules(moves, name), moves.releases(name)
        if moves.refused is not None:
            if name not in OF_ONE_END:
                continue  # of a release that refuses before there is nothing to compare
            codes = moves.refused.ends
        if name == "kv_tokens" and counts_otherwise(moves):
            alike = (moves.first.full_length_tokens, moves.last.full_length_tokens)
            own = moves.codes_of("max_concurrency") or (NOT_TRACED,)
            if alike[0] != alike[1]:
                found.append(MemoryRow(label, _number(alike[0]), _number(alike[1]), moves.tokens_moved_in, own))
            label, codes, releases = COUNTED_OTHERWISE, (CAPACITY.code,), moves.count_moved_in
        if ends[0] != ends[1]:
            found.append(MemoryRow(label, *ends, releases, codes))
    return found


def _has_cache(moves: MemoryMoves) -> bool:
    """Whether an end has memory left for a KV cache."""
    return any(side.kv_bytes is not None and side.kv_bytes > 0 for side in (moves.first, moves.last))


def _rules(moves: MemoryMoves, name: str) -> tuple[str, ...]:
    """The rules behind a value; where there is none, whether what moved it was measured."""
    known = any(cause.why for cause in moves.causes_of(name))
    return moves.codes_of(name) or (MEASURED if known else NOT_TRACED,)


def counts_otherwise(moves: MemoryMoves) -> bool:
    """Whether the log's tokens of one end are of one group of layers and those of the other of all."""
    return moves.first.counts_one_group is not moves.last.counts_one_group


def _number(found: int | None) -> str:
    return "-" if found is None else f"{found:,}"


def value(name: str, side: MemoryAtRelease) -> str:
    """A value of one release, in short."""
    if name == "starts":
        return start(side)
    if name == "codes":
        return " ".join(side.codes) or "none"
    found = getattr(side, name)
    if found is None:
        return "-"
    if name == "gpu_memory_utilization":
        return f"{found:g}"
    if name == "kv_bytes":
        return f"{gib(found)} GiB" if found > 0 else "none"
    if name == "max_concurrency":
        return f"{found:.2f}"
    if name == "kv_tokens" and side.counts_one_group:
        return f"{found:,}, of one group"
    if name in ("deducted_bytes", "graph_bytes"):
        return f"{gib(found)} GiB" if found else "0"
    if name == "max_num_seqs_that_fits" and not found:
        return "none starts"
    if name == "max_num_seqs_that_fits" and found >= MOST_SEQS:
        return f"{found:,} or more"
    return f"{found:,}"


def start(side: MemoryAtRelease) -> str:
    """Whether it starts, and how sure that is."""
    if side.starts == "unsure":
        return "starts by the best estimate" if side.fits else "does not start by the best estimate"
    return "starts" if side.starts == "yes" else "does not start"


def headline(moves: MemoryMoves) -> str:
    """What the plan of the memory adds to the first line; "" where nothing of it moves."""
    if moves.refused is not None:
        planned = moves.last if moves.refused is moves.first else moves.first
        if not planned.fits:
            return f"By its memory {planned.release} does not start: {', '.join(planned.ends)}."
        held_bytes = "" if planned.kv_bytes is None else f", with {gib(planned.kv_bytes)} GiB of KV cache"
        return f"By its memory {planned.release} {start(planned)}{held_bytes}."
    if moves.ends_both:
        more = ""
        if None in (moves.first.kv_tokens, moves.last.kv_tokens):
            more = "; of its KV cache the size alone is compared" if _has_cache(moves) else "; there is no KV cache"
        return f"By its memory it starts in neither: {', '.join(moves.ends_both)}{more}."
    if not moves.changed:
        return ""
    if moves.is_given and moves.first.fits and moves.last.fits and moves.first.kv_bytes == moves.last.kv_bytes:
        return "Its KV cache stays as --kv-cache-memory-bytes has it."
    if moves.first.fits and not moves.last.fits:
        codes = ", ".join(moves.last.ends)
        return f"{moves.first.release} starts, {moves.last.release} does not" + (f": {codes}." if codes else ".")
    if moves.last.fits and not moves.first.fits:
        return f"{moves.first.release} does not start, {moves.last.release} does."
    before, after = moves.first.kv_bytes, moves.last.kv_bytes
    if before is None or after is None or gib(before) == gib(after):
        return "The plan of its memory changes."
    return f"Its KV cache {'grows' if after > before else 'shrinks'} from {gib(before)} to {gib(after)} GiB."


def told(moves: MemoryMoves) -> list[tuple[str, str, str]]:
    """Each finding that came, then each that went: its code, the word for it, and what it says.

    Where it starts in neither, those that end both come first.
    """
    both = [one for one in moves.last.findings if one.code in moves.last.ends and one.code in moves.first.ends]
    stay = _told(both, "both", fixes=True) if moves.ends_both else []
    found = [*stay, *_told(moves.new, "new", fixes=True), *_told(moves.gone, "gone", fixes=False)]
    if moves.unchecked_blocks is not None:
        text = (
            f"{moves.first.release} has {moves.unchecked_blocks:,} blocks and does not refuse: it caps the capture"
            " sizes to the blocks where these are fewer, with a warning in its log"
        )
        found.append((MAMBA_SIZES.code, "gone", text))
    return found


def parts(moves: MemoryMoves) -> list[tuple[str, str, str, str]]:
    """What moved the memory: release, codes, what it gives the KV cache or takes of it, and why."""
    found = []
    for cause in moves.causes:
        if cause.part == CAPTURE:
            continue  # it has a row of its own, and is no part of the budget
        by = "" if cause.kv_bytes is None else signed(cause.kv_bytes)
        why = f"{cause.part}: {cause.why}" if cause.why else f"{cause.part}: {NOT_TRACED} to a rule"
        found.append((cause.release, " ".join(cause.codes) or "-", by, why))
    return found


def not_restored(moves: MemoryMoves, restored: Collection[str]) -> list[str]:
    """What the KV cache lost by parts that no setting gives back; `restored`: codes of rules that one undoes."""
    return [
        f"{cause.part}, {signed(cause.kv_bytes)} of KV cache in {cause.release}"
        f" ({' '.join(cause.codes) or NOT_TRACED}): no setting restores it."
        for cause in moves.causes
        if cause.kv_bytes is not None
        and cause.kv_bytes <= -MIB
        and SAMPLER not in cause.why  # VLLM_USE_FLASHINFER_SAMPLER undoes that
        and cause.part not in (ASKED, ESTIMATE)  # a flag and a variable undo them
        and not set(cause.codes) & set(restored)
    ]


def _told(findings: Iterable[Finding], happened: str, fixes: bool) -> list[tuple[str, str, str]]:
    return [
        (one.code, happened, f"{one.message}; fix: {one.fix}" if fixes and one.fix else one.message) for one in findings
    ]
