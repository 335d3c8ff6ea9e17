#!/usr/bin/env python3
"""Build planner/releases/flags.json.gz, the options of `vllm serve` by release.

    python tools/build_flags.py --flags DIR [DIR ...] --classes DIR

The folders of --flags hold VERSION.json files: tables of the options of a release's real parser; later folders add
releases. The folder of --classes holds VERSION.json files of tools/dump_config_classes.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from cgplan.releases import SUPPORTED

OUT = Path(__file__).parent.parent / "planner" / "releases" / "flags.json.gz"
RENAMED = {
    "hidden_options": "hidden",
    "negative_options": "negative",
    "elem_kind": "element",
    "config_class": "class",
    "deprecated_in_help": "advice",
}
KEPT = ("dest", "options", "kind", "choice_type", "choices", "none_values", "nargs", "const", "action")


class Pool:
    """Texts, each held once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def add(self, value: Any) -> int:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return self.texts.setdefault(text, len(self.texts))


def row_of(flag: dict[str, Any]) -> dict[str, Any]:
    row = {key: flag[key] for key in KEPT if flag.get(key) not in (None, [], "")}
    row.setdefault("options", [])
    row["default"] = flag["default"]
    row.update({new: flag[old] for old, new in RENAMED.items() if flag.get(old)})
    if flag.get("deprecated"):
        row["deprecated"] = True
    return row


def classes_inside(schema: Any) -> list[str]:
    """Names of the classes in a schema, itself first."""
    if isinstance(schema, list):
        return [name for item in schema for name in classes_inside(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["cls"]] if schema.get("type") == "class" else []
    return own + [name for value in schema.values() for name in classes_inside(value)]


def defaults_of(name: str, table: dict[str, Any]) -> dict[str, Any]:
    fields = table["config_classes"].get(name) or {}
    return {field: entry["default"] for field, entry in fields.items() if "default" in entry}


def release_entry(table: dict[str, Any], classes: dict[str, Any], rows: Pool, pool: Pool) -> dict[str, Any]:
    indices = {}
    for name, schema in classes["classes"].items():
        inside = dict.fromkeys(classes_inside(schema))
        indices[name] = pool.add({"schema": schema, "defaults": {n: defaults_of(n, table) for n in inside}})
    return {
        "rows": [rows.add(row_of(flag)) for flag in table["flags"]],
        "classes": indices,
        "subcommands": classes["subcommands"],
        "only_serve": table["module_style"]["only_serve"],
        "words": classes["words"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flags", type=Path, nargs="+", required=True)
    parser.add_argument("--classes", type=Path, required=True)
    options = parser.parse_args()
    rows, pool, releases = Pool(), Pool(), {}
    for release in SUPPORTED:
        found = [folder / f"{release}.json" for folder in options.flags if (folder / f"{release}.json").exists()]
        table = json.loads(found[0].read_text(encoding="utf-8"))
        classes = json.loads((options.classes / f"{release}.json").read_text(encoding="utf-8"))
        releases[release] = release_entry(table, classes, rows, pool)
    data = {"rows": list(rows.texts), "classes": list(pool.texts), "releases": releases}
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    OUT.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(f"{OUT}: {len(releases)} releases, {len(rows.texts)} rows, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
