"""Errors speak of fields and classes; these functions make them speak of the options that the user typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cgplan import Deployment
from cgplan.errors import CgplanError

from .options import DeploymentOptions

SHORT = {
    "compilation_config": "-cc",
    "attention_config": "-ac",
    "speculative_config": "-sc",
    "kv_transfer_config": "--kv-transfer-config",
}
CLASSES = {
    "CompilationConfig": "compilation_config",
    "AttentionConfig": "attention_config",
    "SpeculativeConfig": "speculative_config",
    "KVTransferConfig": "kv_transfer_config",
}
"""vLLM's class behind each JSON option."""

TWO_WAYS = {
    "--cudagraph-mode": ("compilation_config", "cudagraph_mode"),
    "--cudagraph-capture-sizes": ("compilation_config", "cudagraph_capture_sizes"),
    "--max-cudagraph-capture-size": ("compilation_config", "max_cudagraph_capture_size"),
    "--attention-backend": ("attention_config", "backend"),
    "--spec-method": ("speculative_config", "method"),
    "--spec-tokens": ("speculative_config", "num_speculative_tokens"),
    "--spec-model": ("speculative_config", "model"),
}
"""Settings that have a flag of their own beside their key in a JSON option."""

_VARIABLE = re.compile(r"(VLLM|TORCH)_[A-Z0-9_]+")


def flag(name: str) -> str:
    """The long flag of a field."""
    return "--" + name.replace("_", "-")


def as_typed(error: CgplanError, options: DeploymentOptions) -> CgplanError:
    """The same error; what it names is written as the option that was typed, or with its place in the file."""
    if options.asked is None:
        return _named(error, options)
    if getattr(error, "is_placed", False):
        return error
    error = _named(error, options)
    if _is_typed(error.where, options):
        return error
    from .launched import placed

    return placed(error, options.asked)


def _is_typed(where: str | None, options: DeploymentOptions) -> bool:
    """Whether `where` names an option of the command itself."""
    head = (where or "").partition(" ")[0].partition(".")[0]
    names = {short: name for name, short in SHORT.items()}
    name = names.get(head) or head.removeprefix("--").replace("-", "_")
    return getattr(options, name, None) is not None


def _named(error: CgplanError, options: DeploymentOptions) -> CgplanError:
    where = error.where or ""
    section, _, key = where.partition(".")
    if where in Deployment.model_fields:
        error.where = flag(where)
    elif _VARIABLE.fullmatch(where):
        error.where = f"--env {where}"
    elif section in CLASSES:
        path = _path(options, CLASSES[section], key)
        error.where = f"{SHORT[CLASSES[section]]}.{path}"
        error.message = f"{error.where.rpartition('.')[0]} has no field {key}"
    elif section in SHORT and key:
        error.where = f"{SHORT[section]}.{key}"
    if error.where != where:
        error.message = error.message.removeprefix(f"{where}: ")
    error.where = _of_two_ways(error.where, options)
    return error


def _of_two_ways(where: str | None, options: DeploymentOptions) -> str | None:
    for own, (section, key) in TWO_WAYS.items():
        dotted = f"{SHORT[section]}.{key}"
        if where in (own, dotted):
            name = {"method": "spec_method", "num_speculative_tokens": "spec_tokens", "model": "spec_model"}.get(key)
            name = name or own[2:].replace("-", "_")
            if getattr(options, name) is not None:
                return own
            return dotted if any(key in document for document in _documents(options, section)) else own
    return where


def _path(options: DeploymentOptions, section: str, key: str) -> str:
    """Where `key` stands in the JSON that was given."""
    for document in _documents(options, section):
        if key not in document:
            for name, inner in document.items():
                if isinstance(inner, dict) and key in inner:
                    return f"{name}.{key}"
    return key


def _documents(options: DeploymentOptions, section: str) -> Iterator[dict[str, Any]]:
    for text in getattr(options, section) or ():
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document
