"""Random inputs: an endless, reproducible sequence of records for a release and a seed.

A record's index chooses its family, and seed, release and index its random choices, so any record can be made again
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from oracle.draft import Draft, Draw
from oracle.records import Record
from oracle.traits import TRAITS, hardware

LEVELS = ("ALWAYS", "UNIFORM_BATCH", "UNIFORM_SINGLE_TOKEN_DECODE", "NEVER")

# How often a trait appears in a record that is about something else.
BACKGROUND = {
    "batch": 0.5,
    "mode": 0.25,
    "lora": 0.06,
    "speculation": 0.12,
    "parallel": 0.1,
    "hybrid": 0.03,
    "backend": 0.12,
    "splitting": 0.06,
    "fusion": 0.05,
    "sizes": 0.12,
    "scheduling": 0.08,
    "transfer": 0.02,
    "runner": 0.65,
}

# What a family is about: these traits always appear.
FAMILIES: dict[str, tuple[str, ...]] = {
    "backend": ("backend",),
    "batch": ("batch",),
    "fusion": ("mode", "fusion"),
    "hybrid": ("batch", "hybrid"),
    "lora": ("lora",),
    "mode": ("mode",),
    "mode-splitting": ("mode", "splitting"),
    "parallel": ("parallel",),
    "scheduling": ("batch", "scheduling"),
    "sizes": ("sizes",),
    "sizes-speculation": ("batch", "sizes", "speculation"),
    "speculation": ("batch", "speculation"),
    "transfer": ("transfer",),
    "wild": (),
}
WILD = 0.3
MOST_QUERIES = 12


def sample(release: str, seed: int, number: int) -> list[Record]:
    """The first `number` records of a seed."""
    return list(islice(records(release, seed), number))


def records(release: str, seed: int) -> Iterator[Record]:
    """All records of a seed."""
    families = tuple(FAMILIES)
    for index in count():
        yield record(release, seed, index, families[index % len(families)])


def record(release: str, seed: int, index: int, family: str) -> Record:
    """One record, without vLLM's answer."""
    draw = Draw(f"{release}/{seed}/{index}")
    major, minor = (int(part) for part in release.split(".")[:2])
    draft = Draft(release=(major, minor))
    hardware(draft, draw)
    for name, trait in TRAITS.items():
        odds = WILD if family == "wild" else BACKGROUND[name]
        if name in FAMILIES[family] or draw.chance(odds):
            trait(draft, draw)
    _ask(draft, draw)
    return {"id": f"{family}-{index:05d}", "input": draft.input()}


def _ask(draft: Draft, draw: Draw) -> None:
    """What to resolve: support levels, the real backend, and the path of some batches."""
    graph = draft.graph
    graph["support"] = draw.some(LEVELS, draw.one((1, 2, 4)))
    if draw.chance(0.3):
        graph["real_backend"] = False
    if draw.chance(0.04):
        graph["piecewise_capture_available"] = draw.chance(0.3)
    if draw.chance(0.7):
        graph["dispatch"] = queries(draft, draw)


def queries(draft: Draft, draw: Draw) -> list[list[int | bool]]:
    """Batches: [tokens, requests, longest query, active LoRAs, has no prefill]."""
    most, query = draft.max_num_seqs, draft.query_len
    adapters = int(draft.args.get("max_loras", 0))
    found: list[list[int | bool]] = []

    def add(tokens: int, reqs: int, longest: int, eligible: bool) -> None:
        active = draw.whole(0, adapters) if draw.chance(0.7) else 0
        found.append([tokens, reqs, longest, active, eligible])

    for reqs in (1, most, draw.whole(1, most), draw.size(most), most // 2 + 1):
        add(reqs * query, reqs, query, True)
    if query > 1:
        reqs, length = draw.size(most), draw.whole(1, query)
        add(reqs * length, reqs, length, True)
    for size in _edges(draft, draw):
        reqs = min(size, most)
        add(size, reqs, -(-size // reqs), draw.chance(0.7))
    for _ in range(3):
        reqs, length = draw.size(most), draw.whole(2, 300)
        add(length + (reqs - 1) * draw.one((1, query)), reqs, max(length, query), False)
    unique = {tuple(query): query for query in found}
    return list(unique.values())[:MOST_QUERIES]


def _edges(draft: Draft, draw: Draw) -> list[int]:
    """Token counts at and just above a border: of the sizes given, or of the usual maximum."""
    sections = (draft.args, draft.compilation)
    given = [size for section in sections for size in section.get("cudagraph_capture_sizes") or ()]
    given += [section.get("max_cudagraph_capture_size", 0) for section in sections]
    borders = [size for size in given if size > 0] or [512, 1024, 2 * draft.max_num_seqs]
    border = draw.one(borders)
    return [border, border + 1]
