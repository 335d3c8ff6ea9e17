#!/usr/bin/env python3
"""Build planner/releases/field_ranges.toml: the ranges that vLLM's configuration sets for options that are numbers.

    python tools/build_field_ranges.py --sources DIR

DIR holds the unpacked sources of the releases, vllm-RELEASE/. The parser takes any number; the classes of vllm/config
refuse it afterwards, by Field(gt=..., ge=..., lt=..., le=...). They are read as syntax trees, nothing is run; only
fields that EngineArgs gives the option's value as it is are kept.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cgplan.inputs.serve_args_flags import flag_table
from cgplan.releases import SUPPORTED

OUT = Path(__file__).parent.parent / "planner" / "releases" / "field_ranges.toml"
BOUNDS = ("gt", "ge", "lt", "le")
UNDER_A_CONDITION = {"LoRAConfig": "enable_lora"}
"""Classes that are only made where an option is given."""
NOT_ALWAYS_MADE = ("MultiModalConfig",)
"""Classes that are made for some models alone; what they refuse is not kept."""


class Range(NamedTuple):
    """The range of one option at one release; `line` is that of the field."""

    option: str
    config: str
    bounds: tuple[tuple[str, float], ...]
    source: str
    line: int


def passed_on(tree: ast.Module) -> set[tuple[str, str, str]]:
    """Class, field and name of the setting where EngineArgs makes a class with `field=self.name`, `self.name or 0`, or
    a variable of the field's own name, which holds the setting where it is given."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Config"):
            for keyword in node.keywords:
                field = keyword.arg or ""
                text = ast.unparse(keyword.value)
                if text == field:
                    found.add((node.func.id, field, field))
                elif text.startswith("self."):
                    found.add((node.func.id, field, text.removeprefix("self.").removesuffix(" or 0")))
    return found


def bounds_of(source: Path) -> dict[tuple[str, str], tuple[tuple[tuple[str, float], ...], str, int]]:
    """By class and field: its bounds, the file and the line."""
    found = {}
    for path in sorted((source / "vllm" / "config").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    bounds = tuple(_bounds(field))
                    if bounds:
                        found[node.name, field.target.id] = bounds, f"vllm/config/{path.name}", field.lineno
    return found


def _bounds(field: ast.AnnAssign) -> Iterator[tuple[str, float]]:
    for part in (field.annotation, field.value):
        for node in ast.walk(part) if part is not None else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Field":
                for keyword in node.keywords:
                    if keyword.arg in BOUNDS:
                        yield keyword.arg, ast.literal_eval(keyword.value)


def ranges_of(source: Path, release: str) -> dict[str, Range]:
    """The ranges of one release by the name of the setting."""
    tree = ast.parse((source / "vllm" / "engine" / "arg_utils.py").read_text(encoding="utf-8"))
    bounds, options = bounds_of(source), flag_table(release).by_dest
    found = {}
    for config, field, name in sorted(passed_on(tree)):
        if (config, field) in bounds and name in options and config not in NOT_ALWAYS_MADE:
            numbers, path, line = bounds[config, field]
            found[name] = Range(name, config, numbers, path, line)
    return found


def rows_of(by_release: dict[str, dict[str, Range]]) -> Iterator[dict[str, Any]]:
    """One row for each stretch of releases in which a range is the same, with the place in the last of them."""
    for name in sorted({name for ranges in by_release.values() for name in ranges}):
        row: dict[str, Any] | None = None
        same: object = None
        for release in SUPPORTED:
            one = by_release[release].get(name)
            if one is None or (one.config, one.bounds) != same:
                if row is not None:
                    yield row
                row, same = None, None
            if one is None:
                continue
            if row is None:
                same = one.config, one.bounds
                row = {"option": name, "config": one.config, **dict(one.bounds), "since": release}
                if one.config in UNDER_A_CONDITION:
                    row["with"] = UNDER_A_CONDITION[one.config]
            row["until"], row["source"] = release, f"{one.source}:{one.line}"
        if row is not None:
            yield row


def written(row: dict[str, Any]) -> str:
    values = {key: value for key, value in row.items() if value is not None}
    if values["since"] == SUPPORTED[0]:
        del values["since"]
    if values["until"] == SUPPORTED[-1]:
        del values["until"]
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in values.items()]
    return "\n".join(("[[range]]", *lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    folder = parser.parse_args().sources
    rows = list(rows_of({release: ranges_of(folder / f"vllm-{release}", release) for release in SUPPORTED}))
    head = "# Made by tools/build_field_ranges.py from vllm/config and vllm/engine/arg_utils.py of each release.\n"
    OUT.write_text(f"{head}\n" + "\n\n".join(map(written, rows)) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {len(rows)} ranges")


if __name__ == "__main__":
    main()
