"""The light dataclass against the standard one: what objects can do is the same."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from typing import ClassVar

import pytest

from cgplan.light_dataclass import dataclass


@dataclass(frozen=True)
class Point:
    """A point."""

    x: int
    names: list[str] = field(default_factory=list)
    seen: int = field(default=0, compare=False)
    hidden: str = field(default="h", repr=False)
    kind: ClassVar[str] = "point"

    @cached_property
    def double(self) -> int:
        return 2 * self.x


@dataclass(frozen=True, kw_only=True)
class Base:
    size: int
    unit: int | None = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("below 0")


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    more: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Own:
    value: int


@dataclass(frozen=True)
class One:
    value: int


@dataclass(frozen=True)
class Empty:
    pass


def test_fields_defaults_and_keywords() -> None:
    made = Point(3, seen=2)
    assert (made.x, made.names, made.seen, made.hidden, made.kind) == (3, [], 2, "h", "point")
    assert Point(1).names is not Point(1).names, "a factory makes each object its own"
    assert [one.name for one in fields(Point)] == ["x", "names", "seen", "hidden"]


def test_arguments_that_do_not_fit_are_refused() -> None:
    for _ in range(2):  # the first object of a class is made in another way than the second
        with pytest.raises(TypeError, match=r"One\.__init__\(\) missing 1 required positional argument: 'value'"):
            One()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        One(1, other=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Derived(1)  # type: ignore[misc]


def test_objects_are_frozen() -> None:
    made = Point(3)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        made.x = 4  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x  # type: ignore[misc]
    assert made.double == 6, "cached properties are kept all the same"


def test_equal_are_those_of_one_class_whose_compared_fields_are() -> None:
    assert Point(1, seen=1) == Point(1, seen=2) != Point(2)
    assert One(1) == One(1)
    assert hash(One(1)) == hash(One(1))
    assert One(1) != Own(1)
    assert One(1) != (1,)
    assert Base(size=1) != Derived(size=1)
    assert Empty() == Empty()
    assert Own(1) != Own(1), "without eq each object is itself alone"
    assert len({Own(1), Own(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_text_names_the_fields_that_are_shown() -> None:
    assert repr(Point(1, ["a"])) == "Point(x=1, names=['a'], seen=0)"
    assert repr(Derived(size=1)) == "Derived(size=1, unit=None, more=())"


def test_derived_classes_have_all_fields_and_checks() -> None:
    assert Derived(more=(1,), size=2) == Derived(size=2, unit=None, more=(1,))
    for cls in (Base, Derived):
        with pytest.raises(ValueError, match="below 0"):
            cls(size=-1)


def test_the_standard_functions_take_them() -> None:
    made = Point(1, ["a"])
    assert replace(made, x=2) == Point(2, ["a"])
    assert asdict(made) == {"x": 1, "names": ["a"], "seen": 0, "hidden": "h"}
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
    match Derived(size=5):
        case Base(size=size):
            assert size == 5


def test_only_frozen_classes_are_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False)(Own)
