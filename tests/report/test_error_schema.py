"""The schema of the error document holds for the errors that there are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cgplan.cli.app import run


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """As much of JSON Schema as the document uses."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "const" in schema:
        return bool(value == schema["const"])
    kind = {"string": str, "object": dict, "null": type(None)}[schema["type"]]
    if not isinstance(value, kind):
        return False
    if kind is not dict:
        return re.search(schema.get("pattern", ""), value or "") is not None
    known = schema["properties"]
    needed = {other for key in value for other in schema.get("dependentRequired", {}).get(key, ())}
    return (
        {*schema["required"], *needed} <= value.keys() <= known.keys()
        and not schema["additionalProperties"]
        and all(fits(item, known[key]) for key, item in value.items())
    )


@pytest.mark.parametrize(
    "line",
    [
        "resolve --json --gpu x",
        "resolve --json --bogus",
        "resolve --json --cudagraph-mode FULL --attention-support NEVER",
        "explain --json CG000",
        "backends --json --backend x",
        "diff --json --from 0.1",
    ],
)
def test_errors_fit(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "error"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert run(line.split()) == 2
    document = json.loads(capsys.readouterr().out)
    assert fits(document, schema)
    assert not fits({**document, "more": 1}, schema)
    assert not fits({"schema_version": 1}, schema)
    partly = {**document["error"], "stage": "x"}
    partly.pop("raised_as", None)
    assert not fits({**document, "error": partly}, schema)
