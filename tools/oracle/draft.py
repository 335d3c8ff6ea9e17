"""A record's input while it is being drawn, and the random choices that fill it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")

GIB = 1 << 30
DEVICES: dict[str, tuple[tuple[int, int], str, int, int]] = {
    "t4": ((7, 5), "Tesla T4", 15843721216, 40),
    "a100_40": ((8, 0), "NVIDIA A100-SXM4-40GB", 42297786368, 108),
    "a100_80": ((8, 0), "NVIDIA A100-SXM4-80GB", 84974239744, 108),
    "a800": ((8, 0), "NVIDIA A800-SXM4-80GB", 84974239744, 108),
    "a10g": ((8, 6), "NVIDIA A10G", 23836033024, 80),
    "a6000": ((8, 6), "NVIDIA RTX A6000", 50952667136, 84),
    "l4": ((8, 9), "NVIDIA L4", 23580639232, 58),
    "l40s": ((8, 9), "NVIDIA L40S", 47697362944, 142),
    "h100": ((9, 0), "NVIDIA H100 80GB HBM3", 85520809984, 132),
    "h20": ((9, 0), "NVIDIA H20", 102625181696, 78),
    "h200": ((9, 0), "NVIDIA H200", 150754820096, 132),
    "below_70": ((9, 0), "NVIDIA Threshold", 70 * GIB - 1, 132),
    "at_70": ((9, 0), "NVIDIA Threshold", 70 * GIB, 132),
    "below_160": ((9, 0), "NVIDIA Threshold", 160 * GIB - 1, 132),
    "b200": ((10, 0), "NVIDIA B200", 191510806528, 148),
    "b300": ((10, 3), "NVIDIA B300 SXM6 AC", 295279001600, 148),
    "rtx5090": ((12, 0), "NVIDIA GeForce RTX 5090", 33668988928, 170),
    "rtxpro6000": ((12, 0), "NVIDIA RTX PRO 6000 Blackwell Server Edition", 101973823488, 188),
    "gb10": ((12, 1), "NVIDIA GB10", 128524165120, 48),
}
COMMON = ("h100", "h200", "b200", "a100_80", "l4")


def device(name: str) -> dict[str, Any]:
    """The device entry of a record."""
    capability, label, memory, processors = DEVICES[name]
    found: dict[str, Any] = {
        "capability": list(capability),
        "name": label,
        "memory_bytes": memory,
        "sm_count": processors,
        "count": 8,
    }
    return {**found, "integrated": True} if name == "gb10" else found


class Draw:
    """Random choices of one record; the same seed gives the same record on every machine."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def one(self, items: Sequence[Item]) -> Item:
        return items[int(self._random.random() * len(items))]

    def some(self, items: Sequence[Item], most: int) -> list[Item]:
        """One to `most` different items, in their order."""
        count = self.whole(1, min(most, len(items)))
        left = list(range(len(items)))
        chosen = {left.pop(int(self._random.random() * len(left))) for _ in range(count)}
        return [item for index, item in enumerate(items) if index in chosen]

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def size(self, high: int) -> int:
        """A number from 1 to high, small ones and the neighbours of powers of two more often."""
        if self.chance(0.4):
            power = 1 << self.whole(0, high.bit_length() - 1)
            return min(high, max(1, power + self.one((-1, 0, 0, 1))))
        return max(1, int(high ** self._random.random()))


@dataclass
class Draft:
    """What the traits fill. `args` holds the arguments that are not sections of their own."""

    release: tuple[int, int]
    device: str = "h100"
    model: str = "llama"
    context: str | None = "OPENAI_API_SERVER"
    args: dict[str, Any] = field(default_factory=dict)
    compilation: dict[str, Any] = field(default_factory=dict)
    passes: dict[str, Any] = field(default_factory=dict)
    attention: dict[str, Any] = field(default_factory=dict)
    speculative: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    graph: dict[str, Any] = field(default_factory=dict)

    @property
    def max_num_seqs(self) -> int:
        return int(self.args.get("max_num_seqs") or 256)

    @property
    def query_len(self) -> int:
        """Tokens of one request in a uniform decode batch."""
        return 1 + int(self.speculative.get("num_speculative_tokens") or 0)

    def input(self) -> dict[str, Any]:
        """The input of a record. A section that is empty is left out."""
        compilation = dict(self.compilation)
        if self.passes:
            compilation["pass_config"] = dict(self.passes)
        sections = {
            "compilation_config": compilation,
            "attention_config": dict(self.attention),
            "speculative_config": dict(self.speculative),
        }
        found: dict[str, Any] = {
            "device": device(self.device),
            "model": self.model,
            "usage_context": self.context,
            "args": {**self.args, **{name: section for name, section in sections.items() if section}},
        }
        if self.env:
            found["env"] = dict(self.env)
        return {**found, "graph": dict(self.graph)}
