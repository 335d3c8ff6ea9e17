"""Reads a grid from its TOML file, with the files of models beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import CgplanError, InputError, cannot_read, did_you_mean, shorten
from ..inputs.catalogue import load_model
from ..inputs.serve_args_flags import flag_table
from ..model_shape import ModelShape
from ..releases import SUPPORTED, stand_in
from .grid import Axis, Grid, Value
from .options import LIMITS, MEMORY, NOT_GIVEN, SECTIONS, TABLES, Load, canonical_name, is_ignored, read_value
from .rules import BAD_GRID

LARGEST = 2**20
"""Bytes of a file that is read."""
MOST = 1_000_000
"""Combinations of a grid."""
PARTS = ("base", "grid", "exclude")
NOT_OF_VLLM = ("model", "vllm", "gpu", "gpus_per_node", "software", "env", "usage_context", "num_gpu_blocks",
               "attention_support", "kv_bytes")  # fmt: skip
"""Options that are no flag of vLLM in any release."""


def read_grid(path: str) -> Grid:
    """The grid of a file. Paths of models are taken from the folder of the file.

    Raises:
        InputError: CG910, CG914 the file cannot be read; CG735 it holds no grid; or an option or a value is unknown.
    """
    return grid_of(_document(Path(path)), path, Path(path).parent)


def grid_of(document: Mapping[str, Any], name: str = "grid", folder: Path | None = None) -> Grid:
    """The grid of a TOML document.

    Args:
        name: of the file, for errors.
        folder: where paths of models begin; None: the current one.

    Raises:
        InputError: as `read_grid`.
    """
    for part in document:
        if part not in PARTS:
            raise _wrong(
                f"unknown part {shorten(part, 40)!r}", name, did_you_mean(part, PARTS) or "write [base], [grid]"
            )
    reader = _Reader(name, _loader(folder, document))
    axes = [*reader.base(document.get("base", {})), *reader.lists(document.get("grid", {}))]
    _check_once(axes, name)
    if not document.get("grid"):
        raise _wrong("there is no [grid]", name, "write [grid] and an option with a list, max_num_seqs = [64, 128]")
    for needed, example in (("model", "Qwen/Qwen3-8B"), ("gpu", "h100")):
        if all(axis.name != needed for axis in axes):
            raise _wrong(f"no {needed} is named", name, f'write {needed} = "{example}" in [base]')
    if prod(len(axis.values) for axis in axes) > MOST:
        raise InputError(f"{name}: more than {MOST} combinations", code="CG914", where=name, fix="split the grid")
    axes.sort(key=_speed)
    excludes = tuple(reader.excludes(document.get("exclude", []), axes))
    ignored = tuple(axis.name for axis in axes if is_ignored(axis.name))
    grid = Grid(tuple(axes), excludes, _absent(axes), ignored, __version__, tuple(_stood_in_for(document)))
    if not grid.count:
        raise _wrong("nothing is left of it", f"{name}: exclude", "exclude less")
    return grid


class _Reader:
    """Reads the parts of a document; errors name the file and the place in it."""

    def __init__(self, name: str, load: Load) -> None:
        self._name, self._load = name, load

    def base(self, table: Any) -> Iterator[Axis]:
        for name, raw, where in self._options(table, "base"):
            yield Axis(name, (self._value(name, raw, where),))

    def lists(self, table: Any) -> Iterator[Axis]:
        for name, raw, where in self._options(table, "grid"):
            if not isinstance(raw, list) or not raw:
                shown = shorten(raw, 40)
                raise _wrong(f"{shown} is no list of values", where, f"write {name} = [{shown.strip('[]') or '1, 2'}]")
            values = [
                Value(None, "", None, False) if one == NOT_GIVEN else self._value(name, one, f"{where}[{at}]")
                for at, one in enumerate(raw)
            ]
            if len({(value.given, value.identity) for value in values}) < len(values):
                raise InputError(f"{where}: a value stands twice", code="CG907", where=where, fix="drop one of the two")
            yield Axis(name, _of_one_type(values))

    def excludes(self, tables: Any, axes: list[Axis]) -> Iterator[dict[int, frozenset[int]]]:
        if not isinstance(tables, list):
            raise _wrong("exclude is no list of tables", f"{self._name}: exclude", "write [[exclude]]")
        by_name = {axis.name: at for at, axis in enumerate(axes)}
        for number, table in enumerate(tables, 1):
            found: dict[int, frozenset[int]] = {}
            for name, raw, where in self._options(table, "exclude", number):
                if name not in by_name:
                    fix = did_you_mean(name, by_name) or f"name one of {', '.join(by_name)}"
                    raise _wrong(f"{name} is not in the grid", where, fix)
                at = by_name[name]
                found[at] = frozenset(self._position(axes[at], one, where) for one in _listed(name, raw))
            if not found:
                raise _wrong("an [[exclude]] is empty", f"{self._name}: exclude {number}", "name an option and a value")
            yield found

    def _position(self, axis: Axis, raw: Any, where: str) -> int:
        if raw == NOT_GIVEN and any(not value.given for value in axis.values):
            return next(at for at, value in enumerate(axis.values) if not value.given)
        wanted = self._value(axis.name, raw, where).identity
        for at, value in enumerate(axis.values):
            if value.given and value.identity == wanted:
                return at
        fix = f"give one of {shorten(', '.join(str(value.shown) for value in axis.values), 120)}"
        raise _wrong(f"{shorten(raw, 40)} is no value of {axis.name} in the grid", where, fix)

    def _value(self, name: str, raw: Any, where: str) -> Value:
        try:
            return read_value(name, raw, where, self._load)
        except CgplanError as error:
            error.where = error.where or where
            if where not in error.message:
                error.message = f"{where}: {error.message.removeprefix(f'{name}: ')}"
            raise

    def _options(self, table: Any, part: str, number: int | None = None) -> Iterator[tuple[str, Any, str]]:
        """Name, value and place of each option; the keys of a table are options."""
        place = f"{self._name}: {part}" + (f" {number}" if number is not None else "")
        if not isinstance(table, dict):
            raise _wrong(f"{part} is no table", place, f"write [{part}]" if number is None else "write [[exclude]]")
        for key, raw in table.items():
            name = canonical_name(key, f"{place}.{_in_a_line(key)}")
            if name in TABLES and isinstance(raw, dict):
                for inner, value in raw.items():
                    yield f"{name}.{inner}", value, f"{place}.{name}.{_in_a_line(inner)}"
            else:
                yield name, raw, f"{place}.{_in_a_line(key)}"


def _in_a_line(key: str) -> str:
    """A key as an error shows it."""
    return shorten(" ".join(key.split()), 60)


def _speed(axis: Axis) -> int:
    """The axes whose values change least of the work come last."""
    order = (*LIMITS[::-1], *MEMORY)
    return order.index(axis.name) if axis.name in order else -1


def _listed(name: str, raw: Any) -> list[Any]:
    """The values that an [[exclude]] means: a list means each of its values, but where the option's are lists."""
    is_one = not isinstance(raw, list) or (
        name == "cudagraph_capture_sizes" and not any(isinstance(one, (list, str)) for one in raw)
    )
    return [raw] if is_one else raw


def _of_one_type(values: list[Value]) -> tuple[Value, ...]:
    """The values; where numbers and text mix, all are shown as text, so that a column has one type."""
    kinds = {float if type(value.shown) is int else type(value.shown) for value in values if value.shown is not None}
    if len(kinds) > 1:
        return tuple(v if v.shown is None else v._replace(shown=str(v.shown)) for v in values)
    return tuple(values)


def _check_once(axes: list[Axis], name: str) -> None:
    seen: set[str] = set()
    for axis in axes:
        head, dot, _ = axis.name.partition(".")
        if axis.name in seen or (dot and head in seen and head not in SECTIONS):
            raise InputError(
                f"{name}: {axis.name} is given twice",
                code="CG907",
                where=f"{name}: {axis.name}",
                fix="drop one of the two",
            )
        seen.add(axis.name)


def _stood_in_for(document: Mapping[str, Any]) -> Iterator[str]:
    """What to say of releases that another patch answers for. The document has been read: all of them are known."""
    for part in ("base", "grid"):
        named = document.get(part, {}).get("vllm", [])
        for text in named if isinstance(named, list) else [named]:
            said = stand_in(text)[1] if text != NOT_GIVEN else None
            if said is not None:
                yield f"{said.partition(';')[0]}, whose number the records have"


def _absent(axes: list[Axis]) -> dict[str, frozenset[str]]:
    """By release, the options of the grid that its parser does not have."""
    heads = {axis.name.partition(".")[0] for axis in axes} - set(NOT_OF_VLLM)
    named = [str(value.shown) for axis in axes if axis.name == "vllm" for value in axis.values if value.given]
    releases = {*named, SUPPORTED[-1]}
    found = {release: frozenset(heads.difference(flag_table(release).by_dest)) for release in releases}
    return {release: lacking for release, lacking in found.items() if lacking}


def _loader(folder: Path | None, document: Mapping[str, Any]) -> Load:
    """Gives shapes of models, each read once; how one is read depends on --runner, so that is one for all."""
    base, lists = document.get("base"), document.get("grid")
    if isinstance(lists, dict) and "runner" in lists:
        raise _wrong("runner is one for all deployments", "grid.runner", "give it in [base], one grid for each")
    runner = base.get("runner", "auto") if isinstance(base, dict) else "auto"

    @cache
    def load(name: str) -> ModelShape:
        beside = None if folder is None or name.startswith(("/", "~")) else folder / name
        path = str(beside) if beside is not None and _exists(beside) else name
        return load_model(path, runner=runner if isinstance(runner, str) else "auto")

    return load


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _document(path: Path) -> dict[str, Any]:
    shown = shorten(str(path), 200)
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise cannot_read(error, shown, "give the TOML file of a grid") from None
    if len(raw) > LARGEST:
        raise InputError(f"{shown} is larger than 1 MiB", code="CG914", where=shown, fix="give the TOML file of a grid")
    return _parsed(raw, shown, _toml())


def _parsed(raw: bytes, shown: str, loads: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    try:
        return loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _wrong("is not UTF-8", shown, "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        said = shorten(str(error) if isinstance(error, ValueError) else "nested too deeply", 120)
        raise _wrong(f"is not TOML: {said}", shown, "mend it at that place") from None


def _toml() -> Callable[[str], dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    loads: Callable[[str], dict[str, Any]] = tomllib.loads
    return loads


def _wrong(message: str, where: str, fix: str) -> InputError:
    return InputError(f"{where}: {message}", code=BAD_GRID.code, where=where, fix=fix)
