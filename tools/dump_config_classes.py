#!/usr/bin/env python3
"""Dump what the config classes behind vLLM's JSON options accept, for tools/build_flags.py.

    python tools/dump_config_classes.py --oracle DIR --vllm-root ROOT --version 0.33.0 --out classes/0.33.0.json

Runs where vLLM's sources can be imported; DIR holds the argument oracle (args_oracle.py) that makes this possible
without a GPU. The schemas written are pydantic-core's, cut down to what a JSON document can reach: a class is a
"typed-dict" with the class's name, a validator is the name of its function.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

KEPT = ("ge", "gt", "le", "lt", "min_length", "max_length", "strict", "pattern", "multiple_of", "expected")
AS_IS = ("int", "float", "str", "bool", "any", "none", "literal")


class Reducer:
    """Reduces core schemas; `definitions` are those that references name."""

    def __init__(self, to_json: Any) -> None:
        self.to_json = to_json
        self.definitions: dict[str, dict[str, Any]] = {}

    def reduce(self, schema: dict[str, Any]) -> dict[str, Any]:
        kind = schema["type"]
        if kind == "definitions":
            self.definitions.update({d["ref"]: d for d in schema["definitions"]})
            return self.reduce(schema["schema"])
        if kind == "definition-ref":
            return self.reduce(self.definitions[schema["schema_ref"]])
        if kind in AS_IS:
            return {"type": kind, **{k: self.to_json(schema[k]) for k in KEPT if schema.get(k) is not None}}
        if kind == "dataclass":
            return self.dataclass(schema)
        if kind == "enum":
            members = [[name, self.to_json(m.value)] for name, m in schema["cls"].__members__.items()]
            return {
                "type": "enum",
                "cls": schema["cls"].__name__,
                "members": members,
                "sub_type": schema.get("sub_type"),
            }
        if kind.startswith("function-"):
            return self.function(schema)
        if kind in ("nullable", "default"):
            inner = self.reduce(schema["schema"])
            return inner if kind == "default" else {"type": kind, "schema": inner}
        if kind in ("list", "set"):
            found = {"type": kind, "items_schema": self.reduce(schema.get("items_schema") or {"type": "any"})}
            return {**found, **{k: schema[k] for k in KEPT if schema.get(k) is not None}}
        if kind == "dict":
            found = {"type": kind}
            for part in ("keys_schema", "values_schema"):
                if part in schema:
                    found[part] = self.reduce(schema[part])
            return {**found, **{k: schema[k] for k in KEPT if schema.get(k) is not None}}
        if kind == "union":
            choices = [self.reduce(c[0] if isinstance(c, tuple) else c) for c in schema["choices"]]
            return {"type": kind, "choices": choices}
        if kind == "lax-or-strict":
            return self.reduce(schema["lax_schema"])
        if kind == "json-or-python":
            return self.reduce(schema["json_schema"])
        return {"type": "any"}

    def dataclass(self, schema: dict[str, Any]) -> dict[str, Any]:
        inner, before = schema["schema"], []
        while inner["type"] != "dataclass-args":
            before.append((inner["type"], inner["function"]["function"].__name__))
            inner = inner["schema"]
        name = schema["cls"].__name__
        fields = {f["name"]: self.reduce(f["schema"]) for f in inner["fields"] if f.get("init") is not False}
        found: dict[str, Any] = {"type": "class", "cls": name, "fields": fields}
        if schema.get("post_init"):
            found["post_init"] = True
        for kind, function in reversed(before):
            found = {"type": kind, "function": f"{name}.{function}", "schema": found}
        return found

    def function(self, schema: dict[str, Any]) -> dict[str, Any]:
        name = schema["function"]["function"].__qualname__
        if "path_validator" in name:
            return {"type": "function-before", "function": "normal_path", "schema": {"type": "str"}}
        found = {"type": schema["type"], "function": name}
        if "schema" in schema:
            found["schema"] = self.reduce(schema["schema"])
        return found


def class_of(kind: Any) -> Any:
    """The config class that an option's type function validates against, or None."""
    while getattr(kind, "__name__", "") in ("_optional_type", "_parse_type"):
        cells = [cell.cell_contents for cell in kind.__closure__]
        kind = dict(zip(kind.__code__.co_freevars, cells, strict=True))["return_type"]
    return kind.__defaults__[-1] if getattr(kind, "__name__", "") == "parse_dataclass" else None


def dump(oracle: Any, to_json: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    classes = {}
    for action in oracle.serve_parser()._actions:
        cls = class_of(action.type) if action.type else None
        if cls is not None:
            classes[cls.__name__] = Reducer(to_json).reduce(TypeAdapter(cls).core_schema)
    return {
        "vllm_version": oracle.version,
        "subcommands": list(subcommands(oracle.parsers["serve"])),
        "words": words(),
        "classes": classes,
    }


def subcommands(parser: Any) -> list[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices)
    return []


def words() -> dict[str, list[str]]:
    """Words that validators look up, where the release has them."""
    from typing import get_args

    found: dict[str, list[str]] = {}
    try:
        from vllm.renderers import ReasoningEffort

        found["reasoning_efforts"] = list(get_args(ReasoningEffort))
    except ImportError:
        pass
    try:
        from vllm.v1.kv_cache_interface import KVCacheSpecKind

        found["kv_cache_kinds"] = [kind.value for kind in KVCacheSpecKind]
    except ImportError:
        pass
    try:
        from vllm.config import quantization as q

        for field in ("linear", "moe"):
            found[f"online_{field}"] = [k for k, v in q._ONLINE_SHORTHANDS.items() if getattr(v, field) is not None]
        found["online_shorthands"] = list(q._ONLINE_SHORTHANDS)
        found["quant_keys"] = list(q.QUANT_KEY_NAMES)
    except (ImportError, AttributeError):
        pass
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--vllm-root", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sys.path.insert(0, str(options.oracle))
    import args_oracle

    out = options.out.resolve()
    folder = str(Path(tempfile.gettempdir()) / f"config-classes-{options.version}")
    os.makedirs(folder, exist_ok=True)
    oracle = args_oracle.ArgsOracle(str(options.vllm_root.resolve()), options.version, folder)
    out.write_text(json.dumps(dump(oracle, args_oracle.js), indent=1) + "\n", encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)  # threads that vLLM's imports started would hold the process


if __name__ == "__main__":
    main()
