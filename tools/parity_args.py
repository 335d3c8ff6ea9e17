"""Argument records: what vLLM's own command-line parser made of a line, against `cgplan.inputs.serve_args`.

Compared are acceptance, stage, type and kind of a rejection and its option, the model, and every value that is not
the default. Texts of errors are vLLM's and are not compared.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import PurePosixPath
from typing import Any

from cgplan.inputs.serve_args import ServeArgs, parse_serve
from cgplan.inputs.serve_args_errors import ArgumentRefused
from cgplan.inputs.serve_args_flags import Flag, config_class, flag_table
from cgplan.inputs.serve_args_values import LORA_3D_SINCE
from cgplan.releases import holds

LORA_DEFAULTS = {"base_model_name": None, "is_3d_lora_weight": False}
LORA_SINCE = {"base_model_name": None, "is_3d_lora_weight": LORA_3D_SINCE}


def is_argument_record(record: dict[str, Any]) -> bool:
    return "argv" in record["input"]


def compare_arguments(record: dict[str, Any]) -> str | None:
    """The first difference, or None."""
    asked, output = record["input"], record["output"]
    files = {} if asked.get("yaml") is None else {"config.yaml": asked["yaml"]}
    try:
        found = parse_serve(asked["argv"], record["vllm_version"], files=files)
    except ArgumentRefused as error:
        return _compare_refusal(error, output)
    if not output["ok"]:
        expected = output["error"]
        return f"ok: vLLM refuses ({output['stage']}, {expected['type']}: {expected['message'][:120]}), cgplan does not"
    return _compare_model(found, output) or _compare_values(found, output["args"])


def _compare_refusal(error: ArgumentRefused, output: dict[str, Any]) -> str | None:
    shown = f"({error.kind}: {error})"
    if output["ok"]:
        return f"ok: cgplan refuses {shown}, vLLM does not"
    expected = output["error"]
    pairs = [("stage", error.stage, output["stage"]), ("error.type", error.raised_as, expected["type"])]
    if "printed" in output and expected["type"] == "SystemExit":
        pairs.append(("printed", error.kind, output["printed"]))
    elif expected["type"] == "SystemExit" and "kind" in expected:
        pairs.append(("error.kind", error.kind, expected["kind"]))
        if "option" in expected:
            # The records cut a name at its first blank.
            pairs.append(("error.option", re.split(r"\s", error.option or "")[0], expected["option"]))
    for name, mine, theirs in pairs:
        if mine != theirs:
            return f"{name}: {mine} {shown}, vLLM {theirs}: {expected['message'][:120]}"
    return None


def _compare_model(found: ServeArgs, output: dict[str, Any]) -> str | None:
    pairs = [
        ("model_tag", found.model_tag, output["model_tag"]),
        ("model_flag", found.model_flag, output["model_flag"]),
        ("given", [one.dest for one in found.given], output["given"]),
    ]
    if "model" in output and "engine_error" not in output:
        pairs.append(("model", found.model if found.model is not None else found.get("model"), output["model"]))
    for name, mine, theirs in pairs:
        if mine != theirs:
            return f"{name}: {mine!r}, vLLM {theirs!r}"
    return None


def _compare_values(found: ServeArgs, expected: dict[str, Any]) -> str | None:
    table = flag_table(found.release)
    mine = {}
    for dest, value in found.values.items():
        flag = table.by_dest[dest]
        if not _same(_as_record(flag, value, found.release), flag.default):
            mine[dest] = _as_record(flag, value, found.release)
            if flag.kind == "config_json" and isinstance(value, dict):
                mine[dest] = _changed(value, flag.config_class, config_class(found.release, flag.config_class).defaults)
                if not mine[dest] and isinstance(flag.default, dict):
                    del mine[dest]
    for dest in [*expected, *mine]:
        theirs = expected.get(dest, "not given")
        if dest in mine:
            mine[dest] = _portable(dest, _portable_json(mine[dest]))
        if dest not in mine or not _same(mine[dest], _portable(dest, theirs)):
            return f"args.{dest}: {_short(mine.get(dest, 'default'))}, vLLM {_short(theirs)}"
        if dest not in expected:
            return f"args.{dest}: {_short(mine[dest])}, vLLM default"
    return None


def _as_record(flag: Flag, value: Any, release: str) -> Any:
    if flag.action == "LoRAParserAction":
        defaults = {name: value for name, value in LORA_DEFAULTS.items() if holds(release, LORA_SINCE[name])}
        return [{**defaults, **module} for module in value]
    return _portable_json(value)


def _portable_json(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.loads(json.dumps(value), parse_constant=_constant)
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _constant(text: str) -> str:
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[text]


def _changed(values: dict[str, Any], cls: str, defaults: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The fields that differ from a fresh object of the class, as the records hold them."""
    own = defaults.get(cls, {})
    found = {}
    for key, value in values.items():
        default = own.get(key)
        inner = default.get("<class>") if isinstance(default, dict) else None
        if inner is not None and isinstance(value, dict):
            value = _changed(value, inner, defaults)
            if value:
                found[key] = value
        elif not _same(_portable_json(value), default):
            found[key] = value
    return found


def _portable(dest: str, theirs: Any) -> Any:
    """A value without the folder that the record was made in, and without what a quantisation name stands for."""
    if not isinstance(theirs, dict):
        return theirs
    if dest == "profiler_config":
        return {k: PurePosixPath(v).name if k.endswith("_dir") else v for k, v in theirs.items()}
    if dest == "quantization_config":
        return {k: "given" if k in ("linear", "moe") else v for k, v in theirs.items()}
    return theirs


def _same(mine: Any, theirs: Any) -> bool:
    return json.dumps(mine, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
