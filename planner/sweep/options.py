"""The options of a grid by name, and their values as the fields of a Deployment take them.

A name is a field of a Deployment, a key of one of its sections behind a dot (`compilation_config.cudagraph_mode`), or
a flag of memory. `-` and `_` do not count, nor do dashes in front.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..deployment import Deployment
from ..errors import CgplanError, InputError, did_you_mean, shorten
from ..inputs.drafts import with_draft
from ..inputs.launches.secret_names import is_secret_name
from ..inputs.secret_shapes import HIDDEN, hidden
from ..inputs.serve_args_numbers import human_int, human_int_or_auto
from ..model_shape import ModelShape
from ..releases import SUPPORTED, stand_in, table
from ..releases.env_variables import readers
from ..releases.gpus import gpu
from ..sections import Gpu
from .grid import Value

MEMORY = ("gpu_memory_utilization", "kv_cache_memory_bytes", "kv_bytes")
"""Options of memory, which leave the graphs as they are."""
LIMITS = (
    "max_model_len",
    "num_gpu_blocks_override",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_cudagraph_capture_size",
    "cudagraph_capture_sizes",
)
"""Options that leave the layers of the model as they are."""
SECTIONS = ("compilation_config", "attention_config", "speculative_config", "kv_transfer_config")
TABLES = (*SECTIONS, "env", "software")
"""Options that are tables: each key of theirs is an option."""
HUMAN = ("max_num_seqs", "max_num_batched_tokens", "max_num_scheduled_tokens", "max_model_len", *MEMORY[1:])
"""Options that take 8k and 16G, as vLLM's parser does."""
SHORT = {
    "cudagraph_mode": "compilation_config.cudagraph_mode",
    "spec_method": "speculative_config.method",
    "spec_tokens": "speculative_config.num_speculative_tokens",
    "spec_model": "speculative_config.model",
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
}
"""Short names, as `cgplan plan` has them."""
NOT_GIVEN = "default"
"""A value of [grid] that stands for leaving the option out."""

Load = Callable[[str], ModelShape]
"""Gives the shape of a model by name or path."""


def names() -> list[str]:
    """Every option but the keys of tables."""
    return [*MEMORY, *Deployment.model_fields, *SHORT]


def canonical_name(text: str, where: str) -> str:
    """The name of the option `text`; a key of a table stands behind a dot.

    Raises:
        InputError: CG901, there is no such option.
    """
    head, dot, key = text.partition(".")
    name = head.strip().lstrip("-").replace("-", "_").casefold()
    name = SHORT.get(name, name)
    if name not in (*MEMORY, *Deployment.model_fields) and name not in SHORT.values():
        fix = did_you_mean(name, names()) or "name an option of `cgplan plan --help`, for example max_num_seqs"
        raise InputError(f"unknown option {shorten(text, 40)!r}", code="CG901", where=where, fix=fix)
    if not dot:
        return name
    if name not in TABLES:
        raise InputError(f"{name} has no keys", code="CG901", where=where, fix=f"give {name} a value")
    return f"{name}.{key}"


def read_value(name: str, raw: Any, where: str, load: Load) -> Value:
    """A value of the option of that name.

    Raises:
        InputError: it is none that the option takes. What vLLM itself refuses is a value.
    """
    try:
        json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        kind = "is no number" if isinstance(raw, float) else "is neither text nor a number, nor a list or table of them"
        raise InputError(
            f"{_said(raw)} {kind}", code="CG903", where=where, fix="give text, a number, true or false"
        ) from None
    try:
        content = _content(name, raw, load)
    except CgplanError as error:
        error.where = where
        raise
    return _shown_without_secrets(name, _value(name, raw, content))


def _value(name: str, raw: Any, content: Any) -> Value:
    if name in ("gpu", "model") or isinstance(content, (Gpu, ModelShape)):
        # Not pydantic's own JSON, which refuses half a character in a name.
        return Value(str(raw), json.dumps(content.model_dump(mode="json"), separators=(",", ":")), content)
    if isinstance(content, dict) and any(isinstance(part, ModelShape) for part in content.values()):
        shapes = {key: part.model_dump(mode="json") for key, part in content.items() if isinstance(part, ModelShape)}
        return Value(_text(raw), _text({**content, **shapes}), content)
    if content is None:  # a draft that is a method and no model
        return Value(str(raw), _text(raw), None)
    if name in HUMAN:
        return Value(content, _text(content), content)
    return Value(content if isinstance(content, (str, int, float)) else _text(content), _text(content), content)


def _shown_without_secrets(name: str, value: Value) -> Value:
    """The value as records show it; two that differ in a key alone still have each an identity of its own."""
    key = name.rpartition(".")[2]
    if value.content is not None and is_secret_name(key) and not isinstance(value.content, (bool, int, float)):
        return value._replace(shown=HIDDEN)
    if isinstance(value.content, dict) and (clean := _clean(value.content)) != value.content:
        return value._replace(shown=_text(clean))
    return value._replace(shown=hidden(value.shown)) if isinstance(value.shown, str) else value


def _clean(content: Any) -> Any:
    """A table without the texts under the name of a secret."""
    if not isinstance(content, dict):
        return content
    return {
        key: HIDDEN if isinstance(own, str) and is_secret_name(key) else _clean(own) for key, own in content.items()
    }


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _content(name: str, raw: Any, load: Load) -> Any:
    if name == "gpu":
        return gpu(_word(raw))
    if name == "model":
        return load(_word(raw))
    if name == "vllm":
        return _release(_word(raw))
    if name == "gpu_memory_utilization":
        return _share(raw)
    if name in HUMAN:
        return _human(name, raw)
    head, dot, key = name.partition(".")
    if head in TABLES:
        found = _table({key: raw} if dot else raw, head, load)
        return found[key] if dot else found
    if name == "cudagraph_capture_sizes" and isinstance(raw, str):
        raw = _sizes(raw)
    _try({name: raw})
    return raw


def _said(raw: Any) -> str:
    """A value as an error shows it."""
    return repr(shorten(raw, 40)) if isinstance(raw, str) else shorten(raw, 40)


def _word(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise InputError(f"{_said(raw)} is no name", code="CG903", fix="give text in quotes")
    return raw


def _release(text: str) -> str:
    try:
        return stand_in(text)[0]
    except InputError as error:
        error.where = None
        error.fix = f"give one of {', '.join(SUPPORTED)}"
        raise


def _share(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not 0 < raw <= 1:
        raise InputError(f"{_said(raw)} is no share of a GPU", code="CG903", fix="give a number above 0 to 1")
    return float(raw)


def _human(name: str, raw: Any) -> int:
    """A whole number, in full or with a unit; of max_model_len also auto, which is -1."""
    is_length = name == "max_model_len"
    try:
        found = (human_int_or_auto if is_length else human_int)(raw) if isinstance(raw, str) else raw
    except (ValueError, OverflowError):
        found = None
    if type(found) is not int or (found < 1 and not (is_length and found == -1)):
        raise InputError(f"{_said(raw)} is no whole number above 0", code="CG903", fix="give one, or 8k")
    if name not in MEMORY and found != -1:
        _try({name: found})
    return found


def _sizes(text: str) -> list[int]:
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"{shorten(text, 40)!r} is no list of sizes", code="CG903", fix='write "1 2 4", or a list')
    return [int(part) for part in parts]


def _table(raw: Any, head: str, load: Load) -> dict[str, Any]:
    """A table of an option, or one key of it."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{head} is a table, not {_said(raw)}", code="CG903", fix=f"write {head}.KEY = VALUE")
    given = dict(raw)
    if head == "env":
        return {_variable(key): _of_environment(value) for key, value in given.items()}
    if head == "software":
        _try({head: given})
        return given
    known = {key: value for key, value in given.items() if not is_ignored(f"{head}.{key}")}
    if head == "speculative_config":
        known = with_draft(known, load)
    _try({head: known})
    return {**given, **known}


def is_ignored(name: str) -> bool:
    """Whether vLLM takes that key of a section, and it is not modelled."""
    head, _, key = name.partition(".")
    return head in SECTIONS and key in table("config_fields")[head]["fields"]


def _variable(name: str) -> str:
    known = {"TORCH_COMPILE_DISABLE"}.union(*(readers(release) for release in SUPPORTED))
    if name not in known:
        fix = did_you_mean(name, known) or "name a variable that vLLM reads"
        raise InputError(f"vLLM reads no variable {shorten(name, 60)}", code="CG901", fix=fix)
    return name


def _of_environment(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{_said(value)} is no value of a variable", code="CG903", fix="give text")
    return str(value)


def _try(fields: dict[str, Any]) -> None:
    """Refuse fields that a Deployment does not take.

    Raises:
        InputError: a key is unknown, or a value has the wrong type. What vLLM alone refuses is refused later, with the
            rest of the deployment.
    """
    try:
        Deployment(**fields)
    except InputError:
        raise
    except CgplanError as error:
        if error.code == "CG901":
            raise InputError(error.message, code=error.code, fix=error.fix) from None
