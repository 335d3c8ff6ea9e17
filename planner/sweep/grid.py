"""A grid: every combination of its options' values, but for those excluded. Pure arithmetic on positions.

A deployment of a grid has a number: its values' positions read as digits, the last axis counting fastest. Axes whose
values change least of the work stand last, so that neighbours share most of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

from ..light_dataclass import dataclass

KEY_BYTES = 12
"""Of a record's key. Two of a million deployments share one with a chance of 1 in 10**16."""


class Value(NamedTuple):
    """One value of an option.

    Attributes:
        shown: in records: text, a number, true or false; None: the option is not given.
        identity: text that two values share only where they are the same.
        content: what the field of the Deployment gets.
        given: False: the option is not given at all.
    """

    shown: str | int | float | bool | None
    identity: str
    content: Any
    given: bool = True


class Axis(NamedTuple):
    """An option and its values: one of [base], one or more of [grid]."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Grid:
    """Deployments.

    Attributes:
        axes: the options, the fastest last.
        excludes: combinations to leave out: for axes by position, the positions of values that are meant. One that
            names no axis is not possible.
        absent: by release of vLLM, options that it does not have.
        ignored: options that vLLM takes and that are not modelled.
        version: of cgplan; records of another one are not the same.
        notes: what is to be said of the grid's values, each in one line.
    """

    axes: tuple[Axis, ...]
    excludes: tuple[Mapping[int, frozenset[int]], ...] = ()
    absent: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    version: str = ""
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Combinations, those excluded too."""
        return prod(len(axis.values) for axis in self.axes)

    @cached_property
    def count(self) -> int:
        """Deployments."""
        return sum(1 for _ in self.numbers()) if self.excludes else self.size

    def numbers(self) -> Iterator[int]:
        """The numbers of the deployments, ascending."""
        if not self.excludes:
            yield from range(self.size)
            return
        lengths = [len(axis.values) for axis in self.axes]
        at = [0] * len(lengths)
        for number in range(self.size):
            if not any(all(at[axis] in meant for axis, meant in one.items()) for one in self.excludes):
                yield number
            for axis in range(len(at) - 1, -1, -1):
                at[axis] += 1
                if at[axis] < lengths[axis]:
                    break
                at[axis] = 0

    def positions(self, number: int) -> tuple[int, ...]:
        """The position of each axis's value in the deployment of that number."""
        found = []
        for axis in reversed(self.axes):
            number, at = divmod(number, len(axis.values))
            found.append(at)
        return tuple(reversed(found))

    def key(self, positions: tuple[int, ...]) -> str:
        """The key of a deployment's record. It does not depend on the grid that the deployment stands in."""
        digest = blake2b(self._salt, digest_size=KEY_BYTES)
        for axis in self._by_name:
            digest.update(self._identities[axis][positions[axis]])
        return digest.hexdigest()

    @cached_property
    def _salt(self) -> bytes:
        return f"cgplan {self.version}\0".encode()

    @cached_property
    def _by_name(self) -> tuple[int, ...]:
        return tuple(sorted(range(len(self.axes)), key=lambda at: self.axes[at].name))

    @cached_property
    def _identities(self) -> list[list[bytes]]:
        """By axis and position, what a value adds to the key; an option that is not given adds nothing."""
        return [
            [
                f"{axis.name}={value.identity}\0".encode("utf-8", "surrogatepass") if value.given else b""
                for value in axis.values
            ]
            for axis in self.axes
        ]
