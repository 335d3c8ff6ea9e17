"""Launches that do not start: what the parser, the configuration or the reader refuses, under the code of its rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import CgplanError, shorten
from ..inputs.launches.asked import Located
from ..inputs.serve_args_errors import ArgumentRefused
from ..inputs.serve_args_ranges import out_of_range
from .diagnostic import Diagnostic, Hit, TokenEdit
from .flags import REFUSED_BY_RESOLVE, both_given
from .models_named import SAY_MODEL, model_place
from .occurrences import at_token, edits_of
from .parallel import smaller_size
from .parser_traps import MODEL_BEHIND, TWO_MODELS, VALUE_IS_KEY, value_is_key
from .places import drop, place_of
from .refused_options import hit_of, model_to_front
from .registry import diagnostic
from .subject import Subject

LEVEL = "--optimization-level"
VOCABULARY = "CG615"
MORE_RANKS_THAN_GPUS = "CG605"
OTHER_METHOD = "CG141"
SAID_TWICE = "CG125"
"""The rule of `resolve` on a flag beside the key that says the same."""


def refusals(subject: Subject) -> Iterator[Diagnostic]:
    """Why vLLM does not start."""
    asked = subject.asked
    refused = [(error, at, token_of(subject, at)) for error, at in zip(asked.refused, asked.refused_at, strict=True)]
    taken = {index for error, _, index in refused if index is not None and _is_key(error) is not None}
    for error, at, index in refused:
        if index is not None and index + 1 in taken and _kind(error) == "missing_value":
            continue  # its value is the one that was taken for a key
        if at is not None and any(one.kind == "cut_off" and one.span == at.span for one in subject.launch.remarks):
            continue  # CG943 says what the token is
        yield _refusal(subject, error, at, index)
    if subject.problem is not None:
        yield from _problem(subject, subject.problem)
        yield from _out_of_range(subject, subject.problem)


def _out_of_range(subject: Subject, problem: CgplanError) -> Iterator[Diagnostic]:
    """The numbers that the configuration refuses beside the one that ended it."""
    for error in out_of_range(subject.args) if subject.args is not None else ():
        if error.where != problem.where:
            yield from _problem(subject, error)


OF_MODEL = ("CG910", "CG911", "CG912", "CG913", "CG914")
"""What is wrong with a model's files."""
TO_BLAME = {"CG303": ("attention_backend", "kv_cache_dtype", "block_size", "dtype")}
"""Settings by the code of a refusal that names none."""
NOT_MODELLED = ("CG329", "CG913")
"""What cgplan cannot answer for; vLLM may well start."""


def is_open(subject: Subject) -> bool:
    """Whether nothing can be said of the start: what refuses is what stands in for the model, or cgplan itself."""
    problem = subject.problem
    return problem is not None and not subject.asked.refused and (
        subject.rests_on_model or problem.code in NOT_MODELLED
    )  # fmt: skip


def _problem(subject: Subject, error: CgplanError) -> Iterator[Diagnostic]:
    if error.where == LEVEL and any(note.kind == "odd_level" for note in subject.notes):
        return  # the parser trap says more
    at = _settings_place(subject, error)
    named = subject.asked.served.model if subject.asked.served is not None else None
    if subject.rests_on_model and named is not None:
        message = f"of {named.stand_in}, assumed: {error.message}; {shorten(named.name, 60)} is not known here"
        yield diagnostic(error.code, "info", Hit(message, SAY_MODEL, at))
        return
    if error.code in NOT_MODELLED:
        yield diagnostic(error.code, "info", Hit(error.message, error.fix, at))
        return
    hit = Hit(error.message, error.fix, at)
    if error.code in (VOCABULARY, MORE_RANKS_THAN_GPUS):
        hit = smaller_size(subject, error)
    if error.code == OTHER_METHOD:
        hit = replace(hit, edits=drop(subject, "quantization"), safe=False)
    if error.code == SAID_TWICE:
        for twin in REFUSED_BY_RESOLVE:
            if error.where in (f"--{twin.dest.replace('_', '-')}", twin.dest):
                hit = both_given(subject, twin, error.message)
    yield diagnostic(error.code, "error", hit)


def _settings_place(subject: Subject, error: CgplanError) -> Located | None:
    """The place of what is refused; where no setting is named, the first given of those that can be to blame."""
    if error.code in OF_MODEL:
        return model_place(subject)
    places = [subject.asked.where_is(dest) for dest in TO_BLAME.get(error.code, ())]
    return next((at for at in places if at is not None), None) or place_of(subject, error.where)


def _refusal(subject: Subject, error: CgplanError, at: Located | None, index: int | None) -> Diagnostic:
    key = _is_key(error)
    if key is not None and index is not None:
        return diagnostic(VALUE_IS_KEY.code, "error", value_is_key(subject, key, index))
    if _kind(error) == "no_model":
        return _no_model(subject, error, at)
    if index is not None and _kind(error) == "unrecognized" and _is_second_model(subject, error, index):
        return diagnostic(TWO_MODELS.code, "error", _two_models(subject, index))
    hit = hit_of(subject, error, index)
    if hit.at is None:
        hit = replace(hit, message=error.message, at=at or place_of(subject, error.where))
    return diagnostic(error.code, "error", hit)


def _kind(error: CgplanError) -> str:
    return error.kind if isinstance(error, ArgumentRefused) else ""


def _is_key(error: CgplanError) -> str | None:
    """What the parser noted of the token that it refuses, where it took it for a dotted key."""
    if isinstance(error, ArgumentRefused) and error.kind == "unrecognized":
        for note in error.notes:
            if note.kind == "value_is_key" and note.place == error.place:
                return note.message
    return None


def _no_model(subject: Subject, error: CgplanError, at: Located | None) -> Diagnostic:
    with_config = "--config" in subject.launch.texts
    edits = model_to_front(subject)
    at = at or place_of(subject, error.where)
    code = MODEL_BEHIND.code if with_config else error.code
    return diagnostic(code, "error", Hit(error.message, error.fix, at, None, edits))


def _is_second_model(subject: Subject, error: CgplanError, index: int) -> bool:
    moved = isinstance(error, ArgumentRefused) and any(note.kind == "model_flag" for note in error.notes)
    texts = subject.launch.texts
    return moved and "serve" in texts and index == texts.index("serve") + 1 and not texts[index].startswith("-")


def _two_models(subject: Subject, index: int) -> Hit:
    texts = subject.launch.texts
    flag = next((i for i, text in enumerate(texts) if text == "--model" or text.startswith("--model=")), None)
    if flag is None or flag in subject.asked.joined or (texts[flag] == "--model" and flag + 1 == len(texts)):
        message = f"the model is given twice: {shorten(texts[index], 60)} in front, and another by --model"
        return Hit(message, "give it once, as the first token behind `vllm serve`", at_token(subject, index))
    attached = texts[flag].startswith("--model=")
    name = texts[flag].removeprefix("--model=") if attached else texts[flag + 1]
    same = name == texts[index]
    edits = edits_of(subject, [TokenEdit(flag, flag + (1 if attached else 2))]) if same else ()
    return Hit(
        f"the model is given twice: {shorten(texts[index], 60)} in front and {shorten(name, 60)} by --model",
        "give it once, as the first token behind `vllm serve`",
        at_token(subject, index),
        None,
        edits,
    )


def token_of(subject: Subject, at: Located | None) -> int | None:
    """Index of the launch's token that stands there, or None."""
    if at is None or at.source is not subject.launch.source:
        return None
    tokens = subject.launch.tokens
    return next((i for i, token in enumerate(tokens) if token.span == at.span and token.style != "made"), None)
