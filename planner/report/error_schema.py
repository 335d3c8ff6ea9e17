"""The form of the document that `--json` prints on an error."""

from __future__ import annotations

from typing import Any

VLLM_REFUSES = ("stage", "raised_as", "raised_in")
"""Keys of an error that vLLM itself would raise."""


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    text = {"type": "string"}
    maybe = {"anyOf": [text, {"type": "null"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ErrorDocument",
        "description": "What every command prints on stdout with --json where the exit status is 2.",
        "type": "object",
        "additionalProperties": False,
        "required": ["schema_version", "error"],
        "properties": {
            "schema_version": {"const": 1},
            "error": {
                "type": "object",
                "additionalProperties": False,
                "required": ["code", "message", "where", "fix"],
                "properties": {
                    "code": {"type": "string", "pattern": "^CG[0-9]{3}$"},
                    "message": text,
                    "where": maybe,
                    "fix": maybe,
                    **dict.fromkeys(VLLM_REFUSES, text),
                },
                "dependentRequired": {key: list(VLLM_REFUSES) for key in VLLM_REFUSES},
            },
        },
    }
