"""`dataclass(frozen=True)` at a small part of its price.

The standard decorator writes and compiles six methods of every class; of over a hundred classes that takes a quarter
of the life of a command. Here it only reads the fields. `__init__` is compiled when the first object is made, and the
other methods are shared by all classes. What objects can do is the same, `replace`, `asdict` and `fields` included.
A class of it is derived from classes of it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import MISSING, FrozenInstanceError
    from dataclasses import dataclass as _standard
    from dataclasses import fields as _fields
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls: type | None = None, /, *, frozen: bool, eq: bool = True, kw_only: bool = False) -> Any:
        """The standard decorator of frozen classes, for fields with or without a default that `__init__` takes."""

        def decorate(own: type) -> type:
            return _made(own, eq, kw_only)

        if not frozen:
            raise TypeError("only frozen classes gain by it")
        return decorate if cls is None else decorate(cls)

    def _made(cls: type, eq: bool, kw_only: bool) -> type:
        # Without a docstring the standard decorator would write the signature into it.
        cls.__doc__ = cls.__doc__ or cls.__name__
        cls = _standard(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        methods = {"__init__": _first_init(cls), "__repr__": _repr, "__setattr__": _set, "__delattr__": _delete}
        if eq:
            compared = tuple(f.name for f in _fields(cls) if f.compare)
            methods |= _comparison(cls, compared)
        for name, method in methods.items():
            if name not in cls.__dict__:
                setattr(cls, name, method)
        return cls

    def _first_init(cls: type) -> Any:
        def __init__(self: object, *args: Any, **kwargs: Any) -> None:
            cls.__init__ = _init_of(cls)
            cls.__init__(self, *args, **kwargs)

        return __init__

    def _init_of(cls: type) -> Any:
        """`__init__` with a parameter for each field."""
        names: dict[str, Any] = {"_MISSING": MISSING}
        plain, named, lines = [], [], ["found = self.__dict__"]
        for field in _fields(cls):
            name, value = field.name, field.name
            parameter = name
            if field.default is not MISSING:
                names[f"_of_{name}"] = field.default
                parameter = f"{name}=_of_{name}"
            elif field.default_factory is not MISSING:
                names[f"_of_{name}"] = field.default_factory
                parameter = f"{name}=_MISSING"
                value = f"_of_{name}() if {name} is _MISSING else {name}"
            (named if field.kw_only else plain).append(parameter)
            lines.append(f"found[{name!r}] = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = ", ".join(["self", *plain, *(["*", *named] if named else [])])
        exec(f"def __init__({parameters}):\n " + "\n ".join(lines), names)
        made = names["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    def _comparison(cls: type, compared: tuple[str, ...]) -> dict[str, Any]:
        """`__eq__` and `__hash__` over the fields of these names."""
        values = attrgetter(*compared) if len(compared) > 1 else lambda own: tuple(getattr(own, n) for n in compared)

        def __eq__(self: object, other: object) -> bool:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return values(self) == values(other)

        def __hash__(self: object) -> int:
            return hash(values(self))

        return {"__eq__": __eq__, "__hash__": __hash__}

    @recursive_repr()
    def _repr(self: object) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self) if field.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def _set(self: object, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delete(self: object, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
