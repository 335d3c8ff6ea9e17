"""vLLM's spellings on the command line, turned into the plain ones that typer reads.

`--max_num_seqs` is `--max-num-seqs`; `-O3`, `-O 3` and `-O=3` are `--optimization-level=3`; several values after one
list flag become one, comma separated; `-cc.mode=3` becomes `--compilation-config={"mode": 3}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from cgplan.errors import InputError

LIST_FLAGS = frozenset({"--cudagraph-capture-sizes", "--batch"})
CONFIG_FLAGS = {
    "-cc": "--compilation-config",
    "--compilation-config": "--compilation-config",
    "-ac": "--attention-config",
    "--attention-config": "--attention-config",
    "-sc": "--speculative-config",
    "--speculative-config": "--speculative-config",
    "--kv-transfer-config": "--kv-transfer-config",
}
"""Flags that take JSON, and dotted keys into it."""

MAX_DEPTH = 8
"""Most keys in a dotted flag; vLLM has three."""

_LEVEL = re.compile(r"-O([0-9]*)$")
_UNDOTTED = re.compile(r"-(cc|ac|sc)([a-z_][a-z_.+]*)$")
_NEGATIVE = re.compile(r"-[0-9]")
_NAME = re.compile(r"[A-Za-z_./~].*[./]")
"""Of a file or a model: no number, so it belongs to no list."""
_BETWEEN = re.compile(r"\s*,\s*|\s+")


OF_EXPLAIN = ("--json", "--help", "-h")


def normalise(argv: Sequence[str]) -> list[str]:
    """`argv` in the spelling that typer reads; what is after `--` stays as it is."""
    if argv[:1] == ["explain"]:
        # A question may speak of options: `explain --enable-lora slow`.
        return [word if word in OF_EXPLAIN else word.lstrip("-") for word in argv]
    rest = list(argv)
    out: list[str] = []
    while rest:
        token = rest.pop(0)
        if token == "--":
            return [*out, token, *rest]
        if not token.startswith("-") or _NEGATIVE.match(token):
            out.append(token)
            continue
        flag, equals, value = token.partition("=")
        flag = _dashed(flag)
        level = _LEVEL.match(flag)
        if level is not None and not (level[1] and equals):
            out += _level(level[1], value if equals else None, rest)
        elif "." in flag and flag.partition(".")[0] in CONFIG_FLAGS:
            out += _dotted(flag, value if equals else None, rest)
        elif _UNDOTTED.match(flag):
            raise _without_dot(flag)
        elif flag in LIST_FLAGS:
            out += _listed(flag, value if equals else None, rest)
        else:
            out.append(flag + equals + value)
    return out


def _dashed(flag: str) -> str:
    """vLLM takes `_` for `-` in the names of long flags, not in the keys after a dot."""
    if not flag.startswith("--"):
        return flag
    name, dot, keys = flag.partition(".")
    return name.replace("_", "-") + dot + keys


def _level(attached: str, value: str | None, rest: list[str]) -> list[str]:
    if attached or value is not None:
        return [f"--optimization-level={attached or value}"]
    return [f"--optimization-level={rest.pop(0)}"] if rest else ["--optimization-level"]


def _listed(flag: str, value: str | None, rest: list[str]) -> list[str]:
    if value is not None:
        return [f"{flag}={value}"]
    values = []
    while rest and (not rest[0].startswith("-") or _NEGATIVE.match(rest[0])) and not _NAME.match(rest[0]):
        values.append(rest.pop(0))
    return [f"{flag}={_BETWEEN.sub(',', ' '.join(values).strip())}"] if values else [flag]


def _without_dot(flag: str) -> InputError:
    config, key = flag[:3], flag[3:]
    return InputError(
        f"unknown option {flag[:60]}", code="CG905", where=config, fix=f"did you mean {config}.{key[:60]}?"
    )


def _dotted(flag: str, value: str | None, rest: list[str]) -> list[str]:
    """`-cc.a.b=V` as JSON. The key of `-cc.a+=1,2` keeps its `+`: `values.merged` appends there, as vLLM does."""
    if value is None:
        if not rest or rest[0].startswith("--"):
            raise InputError(
                f"{flag[:60]} has no value",
                code="CG905",
                where=flag[:60],
                fix=f"give it after =, as in {flag[:60]}=VALUE",
            )
        value = rest.pop(0)
    if not value.strip():
        raise InputError(
            f"the value of {flag[:60]} is empty", code="CG906", where=flag[:60], fix=f"give one, or drop {flag[:60]}"
        )
    head, _, path = flag.partition(".")
    keys = path.split(".")
    if len(keys) > MAX_DEPTH:
        raise InputError(
            f"{head} has {len(keys)} nested keys",
            code="CG906",
            where=head,
            fix="write the key as vLLM names it, for example -cc.pass_config.fuse_norm_quant=true",
        )
    document: Any = [_literal(item) for item in value.split(",")] if path.endswith("+") else _literal(value)
    for key in reversed(keys):
        document = {key: document}
    return [f"{CONFIG_FLAGS[head]}={json.dumps(document)}"]


def _literal(text: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
