"""The best records of a sweep: those that no other one of the same model and GPU beats in every respect."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10
from typing import Any, NamedTuple

Record = Mapping[str, Any]
Merits = tuple[int, int, int, int, int]
MIB = 1 << 20
DIGITS = 3
"""Significant digits of tokens that are compared: less than that decides nothing, and is below what is known."""


class Best(NamedTuple):
    """A record that none beats, and how many more are as good."""

    record: Record
    alike: int


class Front:
    """The best records by model and GPU; the order in which records come does not matter.

    More tokens of KV cache over all replicas, more decode batch sizes that run in a graph, less memory of graphs,
    fewer GPUs, and a start that is sure are better. Records of servers that do not start by the best estimates are not
    looked at.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[Merits, Best]] = {}

    def add(self, record: Record) -> None:
        if not record.get("fits") or record.get("kv_tokens") is None:
            return
        merits = merits_of(record)
        group = self._groups.setdefault((str(record.get("model")), str(record.get("gpu"))), {})
        same = group.get(merits)
        if same is not None:
            better = min(same.record, record, key=_preference)
            group[merits] = Best(better, same.alike + 1)
            return
        if any(all(a >= b for a, b in zip(other, merits, strict=True)) for other in group):
            return
        for other in [one for one in group if all(a <= b for a, b in zip(one, merits, strict=True))]:
            del group[other]
        group[merits] = Best(record, 0)

    def best(self) -> dict[tuple[str, str], list[Best]]:
        """By model and GPU: the best, those with the most tokens first."""
        return {
            name: [group[merits] for merits in sorted(group, reverse=True)]
            for name, group in sorted(self._groups.items())
        }


def tokens_of(record: Record) -> int:
    """Tokens of KV cache over all replicas."""
    return int(record["kv_tokens"]) * int(record.get("replicas") or 1)


def merits_of(record: Record) -> Merits:
    """What is compared, more being better."""
    return (
        _rounded(tokens_of(record)),
        int(record.get("covered_batches") or 0),
        -(int(record.get("graph_bytes") or 0) // MIB),
        -int(record.get("gpus") or 1),
        int(record["starts"] == "yes"),
    )


def _rounded(number: int) -> int:
    if number <= 0:
        return 0
    step = int(10 ** max(0, floor(log10(number)) - DIGITS + 1))
    return number // step * step


def _preference(record: Record) -> tuple[int, int, str]:
    return (-tokens_of(record), int(record.get("graph_bytes") or 0), str(record["key"]))
