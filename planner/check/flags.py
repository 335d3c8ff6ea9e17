"""Options that are deprecated, or say what another option says as well, and values that vLLM changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import shorten
from ..inputs.serve_args import Given
from ..inputs.serve_args_config import defaults
from ..inputs.serve_args_tokens import Note
from ..trace import Rule
from .diagnostic import Hit, Related, TokenEdit
from .lost_buckets import PARSER
from .occurrences import (
    at_token,
    compact,
    config_drop,
    document,
    drop,
    edits_of,
    flag_text,
    given_at,
    occurrences,
)
from .registry import check
from .subject import Subject
from .trial import breaks

DEPRECATED = Rule(
    "CG937",
    title="An option is deprecated.",
    why="A later release drops it, and then does not start with it.",
    example="--disable-cascade-attn at 0.33.0: accepted, and without effect.",
    instead="Use what takes its place, or leave it out.",
    source=f"{PARSER}:202-207",
)
CHANGED_VALUE = Rule(
    "CG938",
    title="vLLM switches off a fusion that the platform lacks.",
    why="Some passes exist on ROCm alone; the configuration sets them to false, with a warning.",
    example="-cc.pass_config.fuse_act_padding=true on a CUDA GPU: it is off.",
    instead="Leave it out.",
    source="vllm/config/compilation.py:256-275",
)
FLAG_AND_KEY = Rule(
    "CG940",
    title="--enable-flashinfer-autotune and the same key of --kernel-config exclude each other.",
    why="vLLM does not guess which one is meant.",
    example="--enable-flashinfer-autotune --kernel-config.enable_flashinfer_autotune=false does not start.",
    instead="Drop one of the two.",
    source="vllm/engine/arg_utils.py:2789-2796",
)
FLAG_OVER_KEY = Rule(
    "CG941",
    title="A flag takes the place of the key of the same name in --kernel-config.",
    why="vLLM writes the flag over the config without a word, unless the flag is auto.",
    example="--moe-backend triton --kernel-config.moe_backend=cutlass: triton counts.",
    instead="Drop one of the two.",
    source="vllm/engine/arg_utils.py:2800-2805",
)

_OF_ITSELF = re.compile(r"\bis deprecated\b|^Deprecated:", re.IGNORECASE)
"""Some help texts speak of the deprecation of something else."""
_WITHOUT_EFFECT = re.compile(r"\bno effect\b", re.IGNORECASE)
_INSTEAD = re.compile(r"\bUse (--[a-z][\w.-]*[a-z0-9])\b")


class Twin(NamedTuple):
    """A flag, and the key of a config that says the same."""

    dest: str
    config: str
    key: str


EXCLUSIVE = (Twin("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune"),)
"""Pairs that vLLM refuses; those of the compilation and attention configs are rules of `resolve`."""
OVERRIDING = (
    Twin("moe_backend", "kernel_config", "moe_backend"),
    Twin("linear_backend", "kernel_config", "linear_backend"),
    Twin("sparse_indexer_topk_backend", "kernel_config", "sparse_indexer_topk_backend"),
)
REFUSED_BY_RESOLVE = (
    Twin("attention_backend", "attention_config", "backend"),
    Twin("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    Twin("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
)


@check(DEPRECATED, "warning")
def find_deprecated(subject: Subject) -> Iterator[Hit]:
    for note in subject.notes:
        if note.kind == "deprecated" and _speaks_of_itself(subject, note):
            yield _deprecated(subject, note)


def _speaks_of_itself(subject: Subject, note: Note) -> bool:
    flag = subject.flags.by_option.get(note.option)
    return flag is None or flag.deprecated or bool(_OF_ITSELF.search(note.message))


def _deprecated(subject: Subject, note: Note) -> Hit:
    at = subject.asked.located(note.place)
    one = given_at(subject, note.place)
    found = occurrences(subject, one) if one is not None else []
    edits: tuple[TokenEdit, ...] = ()
    flag = None
    if _WITHOUT_EFFECT.search(note.message):
        gone = config_drop(subject, note.place.line) if note.place.line else edits_of(subject, drop(found))
        return Hit(f"{note.option} is deprecated and has no effect", "leave it out", at, None, gone)
    instead = _INSTEAD.search(note.message)
    new = instead[1] if instead and _is_option(subject, instead[1]) else None
    if new is not None and found and not _is_set(subject, new):
        edits = edits_of(subject, [TokenEdit(each.start, each.start + 1, each.texts(new)[:1]) for each in found])
        flag = flag_text(text for each in found for text in each.texts(new))
    fix = f"use {new}" if new else "leave it out"
    return Hit(f"{note.option} is deprecated", fix, at, flag, edits, not breaks(subject, edits))


def _is_option(subject: Subject, text: str) -> bool:
    return text.partition(".")[0] in subject.flags.by_option


def _is_set(subject: Subject, text: str) -> bool:
    """Whether the option is given already: a second one would take its place."""
    return subject.is_given(subject.flags.by_option[text.partition(".")[0]].dest)


@check(CHANGED_VALUE, "warning")
def find_changed_value(subject: Subject) -> Iterator[Hit]:
    if subject.deployment is not None and subject.deployment.gpu.platform != "cuda":
        return
    given = list(subject.given("compilation_config"))
    written = document(subject, given[-1]) if given else None
    asked = written.get("pass_config") if written is not None else None
    taken = given[-1].value.get("pass_config") if given and isinstance(given[-1].value, dict) else None
    if not isinstance(asked, dict) or not isinstance(taken, dict):
        return
    for key, value in asked.items():
        if value is True and taken.get(key) is False:
            yield _switched_off(subject, given[-1], key)


def _switched_off(subject: Subject, one: Given, key: str) -> Hit:
    found = occurrences(subject, one)
    own = [each for each in found if each.keys == f"pass_config.{key}"]
    at = at_token(subject, own[0].start) if own else subject.asked.located(one.place)
    edits = drop(own)
    if not own and len(found) == 1 and not found[0].keys:
        left = document(subject, one) or {}
        left = {**left, "pass_config": {k: v for k, v in left["pass_config"].items() if k != key}}
        edits = [TokenEdit(found[0].end - 1, found[0].end, (_rewritten(subject, found[0].end - 1, left),))]
    message = f"pass_config.{shorten(key, 60)} is switched off: CUDA lacks it"
    return Hit(message, "leave it out", at, None, edits_of(subject, edits))


def _rewritten(subject: Subject, index: int, value: Any) -> str:
    name, equals, _ = subject.launch.texts[index].partition("=")
    return f"{name}={compact(value)}" if equals and name.startswith("-") else compact(value)


@check(FLAG_AND_KEY, "error")
def find_flag_and_key(subject: Subject) -> Iterator[Hit]:
    for twin in EXCLUSIVE:
        if subject.get(twin.dest) is not None and _key(subject, twin) is not None:
            yield both_given(subject, twin, f"{_flag(subject, twin)} and {_dotted(subject, twin)} exclude each other")


@check(FLAG_OVER_KEY, "warning")
def find_flag_over_key(subject: Subject) -> Iterator[Hit]:
    for twin in OVERRIDING:
        flag, key = subject.get(twin.dest), _key(subject, twin)
        if twin.dest not in subject.flags.by_dest or key is None or not _is_key(subject, twin):
            continue
        if subject.is_given(twin.dest) and flag != "auto" and flag != key:
            message = f"{_flag(subject, twin)} {shorten(str(flag), 40)} counts, not {_dotted(subject, twin)}"
            yield both_given(subject, twin, message, counts=True)


def both_given(subject: Subject, twin: Twin, message: str, *, counts: bool = False) -> Hit:
    """The hit of a flag beside the key that says the same; `counts`: the flag does, and the key goes."""
    flags = list(subject.given(twin.dest))
    configs = list(subject.given(twin.config))
    same = subject.get(twin.dest) == _key(subject, twin)
    at = subject.asked.located(flags[-1].place) if flags else subject.start
    there = subject.asked.located(configs[-1].place) if configs else None
    own = [one for given in configs[-1:] for one in occurrences(subject, given) if one.keys == twin.key]
    gone = own if own and counts else [one for given in flags for one in occurrences(subject, given)]
    edits = edits_of(subject, drop(gone)) if own or not counts else ()
    related = (Related(there, "here as well"),) if there is not None else ()
    return Hit(message, "drop one of the two", at, None, edits, same or counts, related)


def _key(subject: Subject, twin: Twin) -> Any:
    config = subject.get(twin.config)
    return config.get(twin.key) if isinstance(config, dict) else None


def _is_key(subject: Subject, twin: Twin) -> bool:
    flag = subject.flags.by_dest.get(twin.config)
    return flag is not None and twin.key in defaults(subject.release, flag.config_class)[flag.config_class]


def _flag(subject: Subject, twin: Twin) -> str:
    flag = subject.flags.by_dest.get(twin.dest)
    return flag.long if flag is not None else f"--{twin.dest}"


def _dotted(subject: Subject, twin: Twin) -> str:
    return f"--{twin.config.replace('_', '-')}.{twin.key}"
