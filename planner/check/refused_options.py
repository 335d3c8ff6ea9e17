"""What to write in the place of an option or a value that vLLM's command line refuses: flags and edits."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import CgplanError, InputError, StartupError, clearly_nearest, shorten
from ..inputs.serve_args import parse_serve
from ..inputs.serve_args_errors import ArgumentRefused
from ..inputs.serve_args_flags import Flag, releases_with
from ..inputs.serve_args_history import EARLIER, SHORT_HERE
from ..inputs.serve_args_joined import split_joined, with_plain_dashes
from ..inputs.serve_args_switches import switch_at
from ..inputs.serve_args_values import means_nothing, next_choice
from .diagnostic import ConfigEdit, Hit, TokenEdit
from .occurrences import at_token, config_settings, edits_of, flag_text
from .renamed_keys import OPTION, became, dotted, renewed
from .subject import Subject

MEANS_THE_SAME = frozenset(
    (
        "--speculative-model",
        "--num-speculative-tokens",
        "--speculative-draft-tensor-parallel-size",
        "--speculative-max-model-len",
        "--ngram-prompt-lookup-max",
        "--ngram-prompt-lookup-min",
        "--guided-decoding-backend",
        "--override-pooler-config",
        "--log-config-file",
        *EARLIER,
        *SHORT_HERE,
    )
)
"""Options that are not there whose value means the same behind the option that took their place."""

WITH_ITS_VALUE = {
    "--worker-use-ray": ("--distributed-executor-backend", "ray"),
    "--engine-use-ray": ("--distributed-executor-backend", "ray"),
    "--disable-mm-preprocessor-cache": ("--mm-processor-cache-gb", "0"),
    "--enable-multimodal-encoder-data-parallel": ("--mm-encoder-tp-mode", "data"),
}
"""Removed options without a value, with the option and the value that say the same."""

TASKS = {
    "generate": ("--runner", "generate"),
    "embed": ("--runner", "pooling", "--convert", "embed"),
    "embedding": ("--runner", "pooling", "--convert", "embed"),
    "classify": ("--runner", "pooling", "--convert", "classify"),
    "score": ("--runner", "pooling", "--convert", "classify"),
    "auto": (),
}
"""What --task said, in the words of --runner and --convert."""

WITHOUT_VALUE = frozenset(
    (
        *WITH_ITS_VALUE,
        "--enable-reasoning",
        "--use-v2-block-manager",
        "--guided-decoding-disable-fallback",
        "--guided-decoding-disable-any-whitespace",
        "--disable-async-output-proc",
        "--enable-prompt-adapter",
    )
)
_USE = re.compile(r"use (--?[A-Za-z][\w.-]*)$")
_MEAN = re.compile(r"did you mean (?:one of )?(--?[A-Za-z][\w.-]*)[,?]")
_NUMBER = re.compile(r"write (--[\w-]+) ([0-9.]+)$")
_MORE = re.compile(r" \(and \d+ more tokens?\)$")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
MAX_TRIED = 8
"""Most tokens that are tried as the model."""


class Change(NamedTuple):
    """What to write.

    Attributes:
        texts: the tokens.
        start, end: the tokens of the launch that they take the place of.
        safe: they say the same.
        why: what to do, where the refusal does not say it so.
    """

    texts: tuple[str, ...]
    start: int
    end: int
    safe: bool
    why: str | None = None


def hit_of(subject: Subject, error: CgplanError, index: int | None) -> Hit:
    """A refusal with its flag and edits. `index` is the token of the launch to point at, or None."""
    message = _MORE.sub("", error.message)
    if index is None:
        return Hit(message, error.fix, edits=_in_config(subject, error))
    fix, at = error.fix, at_token(subject, index)
    if not isinstance(error, ArgumentRefused):
        return Hit(message, fix, at)
    joined = error.kind == "joined"
    whole = joined or index not in subject.asked.joined
    change = _change(subject, error, index) if whole else None
    if change is None:
        return Hit(message, fix, at)
    fix = change.why or fix
    wanted = [TokenEdit(change.start, change.end, change.texts)] if change.end > change.start else []
    edits = edits_of(subject, wanted, joined=joined)
    flag = flag_text(change.texts)
    if error.kind != "long_dash" and not subject.launch.texts[index].startswith("-"):
        option = subject.launch.texts[change.start]
        message, fix = f"{option} takes no value, but has {shorten(subject.launch.texts[index], 40)!r}", None
    instead = f"write {shorten(flag, 80)}" if flag else "leave it out" if not change.texts else None
    return Hit(message, fix or instead, at, flag, edits, change.safe)


def _change(subject: Subject, error: ArgumentRefused, index: int) -> Change | None:
    text = subject.launch.texts[index]
    if error.kind == "joined":
        return _taken_apart(subject, index)
    if error.kind == "long_dash":
        plain = with_plain_dashes(text, subject.flags)
        return Change((plain,), index, index + 1, True) if plain is not None else None
    if error.kind == "unrecognized":
        return _unknown_option(subject, error, index) if text.startswith("-") else _extra_value(subject, index)
    if error.kind == "ambiguous" and "leave it out" in (error.fix or ""):
        return _unknown_option(subject, error, index)
    if error.kind == "flag_takes_no_value":
        option, _, value = text.partition("=")
        return _switch(subject, option, value, index, index + 1)
    if error.kind == "invalid_choice":
        return _choice(subject, index)
    if error.kind == "config_invalid":
        return _old_key(subject, error, index)
    if error.kind == "invalid_value":
        return _number(subject, error, index)
    return None


def _in_config(subject: Subject, error: CgplanError) -> tuple[ConfigEdit, ...]:
    """The number, or the switch, that a setting of the file of --config is to have, where the refusal says it."""
    if isinstance(error, ArgumentRefused) and error.kind == "switch_value" and error.place is not None:
        config = next(iter(subject.launch.files.values()))
        switch = switch_at(config.text, error.place.line, subject.flags)
        if switch is None:
            return ()
        return (ConfigEdit(switch.key, switch.line, switch.new_key, True if switch.new_key else None),)
    number = _NUMBER.match(error.fix or "")
    if not isinstance(error, ArgumentRefused) or error.kind != "invalid_value" or error.place is None:
        return ()
    line = error.place.line
    found = config_settings(subject).get(line) if line and number is not None else None
    return (ConfigEdit(found[0], line, found[0], float(number[2])),) if found is not None and number else ()


def _number(subject: Subject, error: ArgumentRefused, index: int) -> Change | None:
    """A number as vLLM reads it, where the refusal says it: 0.9 for 90%."""
    number = _NUMBER.match(error.fix or "")
    name, equals, _ = subject.launch.texts[index].partition("=")
    if number is None:
        return None
    return Change((f"{name}={number[2]}",) if equals else (name, number[2]), index, index + 2 - bool(equals), True)


def _old_key(subject: Subject, error: ArgumentRefused, index: int) -> Change | None:
    """A key of --compilation-config that has another name today."""
    option, _, path = (error.where or "").partition(".")
    why = became(path) if option == OPTION else None
    texts = subject.launch.texts
    name, equals, value = texts[index].partition("=")
    end = index + 1 if equals else index + 2
    if why is None or end > len(texts):
        return None
    value = value if equals else texts[index + 1]
    head, is_dotted, keys = name.partition(".")
    if is_dotted:
        new = dotted(keys, value) if keys == path else None
        if new is None:
            return Change((), index, index, False, why)
        return Change(tuple(f"{head}.{key}={text}" for key, text in new.items()), index, end, True, why)
    document = renewed(value)
    if document is None:
        return Change((), index, index, False, why)
    text, said = document
    written = (f"{head}={text}",) if equals else (head, text)
    return Change(written, index, end, True, f"write {shorten(flag_text(written) or '', 80)}: {', '.join(said)}")


def _taken_apart(subject: Subject, index: int) -> Change | None:
    """An option and its value that are one token, as two; as OPTION=VALUE where that says the same."""
    joined = split_joined(subject.launch.texts[index], subject.flags)
    if joined is None:
        return None
    texts = joined.texts
    if len(texts) == 2 and texts[0].startswith("--") and "=" not in texts[0]:
        texts = (f"{texts[0]}={texts[1]}",)
        return Change(texts, index, index + 1, True, f"write {shorten(flag_text(texts) or texts[0], 80)}, or two words")
    return Change(texts, index, index + 1, True)


def _unknown_option(subject: Subject, error: ArgumentRefused, index: int) -> Change | None:
    text = subject.launch.texts[index]
    if text == "-O":
        return _level(subject, index)
    name, equals, _ = text.partition("=")
    head = name.partition(".")[0]
    option = head.replace("_", "-") if head.startswith("--") else head
    rest = text[len(head) :]
    flag = _elsewhere(option)
    last = index + 1 if equals else _behind(subject, option, flag, index)
    whole = _removed(subject, option, index, last)
    if whole is not None:
        return whole
    fix = error.fix or ""
    use, mean = _USE.match(fix), _MEAN.match(fix)
    if use is not None and not _clashes(subject, use[1]):
        here = subject.flags.by_option.get(use[1].partition(".")[0])
        same = option in MEANS_THE_SAME or (flag is not None and here is not None and flag.dest == here.dest)
        texts = (use[1] + rest, *subject.launch.texts[index + 1 : last])
        if option in SHORT_HERE and len(texts) == 2:
            texts = (f"{texts[0]}={texts[1]}",)
        return Change(texts, index, last, same)
    if mean is not None:
        return Change((mean[1] + rest, *subject.launch.texts[index + 1 : last]), index, last, False)
    if "leave it out" in fix:
        return Change((), index, last, False)
    return None


def _level(subject: Subject, index: int) -> Change | None:
    """-O with JSON behind it, as it was written before it took a level."""
    texts = subject.launch.texts
    behind = texts[index + 1] if index + 1 < len(texts) else ""
    if behind.startswith("{") and not subject.is_given("compilation_config"):
        text, said = renewed(behind) or (behind, ())
        text = text if said else behind
        why = f"write {shorten(flag_text(('-cc', text)) or '', 80)}" + (f": {', '.join(said)}" if said else "")
        return Change(("-cc", text), index, index + 2, True, why)
    return None


def _elsewhere(option: str) -> Flag | None:
    """The option as another release has it."""
    return next((flag for _, flag in releases_with(option)), None)


def _behind(subject: Subject, option: str, flag: Flag | None, index: int) -> int:
    """The token behind the values of an option that the release lacks."""
    texts = subject.launch.texts
    end = index + 1
    if option in WITHOUT_VALUE or (flag is not None and not flag.takes_value):
        return end
    single = flag is not None and flag.nargs is None
    while end < len(texts) and not texts[end].startswith("-") and not (single and end > index + 1):
        end += 1
    return end


def _removed(subject: Subject, option: str, index: int, last: int) -> Change | None:
    """Options whose place other tokens took, value and all."""
    texts = subject.launch.texts
    if option == "--task":
        value = texts[index].partition("=")[2] or (texts[index + 1] if last > index + 1 else "")
        new = TASKS.get(value)
        given = subject.is_given("runner") or subject.is_given("convert")
        usable = new is not None and not given and all(_is_known(subject, text) for text in new)
        return Change(new or (), index, last, True) if usable else None
    if option == "--cuda-graph-sizes":
        return _graph_sizes(subject, index, last)
    if option == "--enable-reasoning" and subject.is_given("reasoning_parser"):
        return Change((), index, last, True)
    new = WITH_ITS_VALUE.get(option)
    if new is not None and new[0] in subject.flags.by_option and not _clashes(subject, new[0]):
        return Change(new, index, index + 1, True)
    return None


def _graph_sizes(subject: Subject, index: int, last: int) -> Change | None:
    """--cuda-graph-sizes: several sizes were the list of them, one the largest of a grid."""
    texts = subject.launch.texts
    attached = texts[index].partition("=")[2]
    sizes = (attached,) if attached else tuple(texts[index + 1 : last])
    option = "--max-cudagraph-capture-size" if len(sizes) == 1 else "--cudagraph-capture-sizes"
    if not sizes or _clashes(subject, option):
        return None
    return Change((option, *sizes), index, last, len(sizes) > 1, f"use {option}")


def _is_known(subject: Subject, text: str) -> bool:
    return not text.startswith("--") or text in subject.flags.by_option


def _clashes(subject: Subject, option: str) -> bool:
    """Whether the option is not there, or is given already, so that a second one would take its place."""
    flag = subject.flags.by_option.get(option.partition(".")[0])
    return flag is None or subject.is_given(flag.dest)


def _extra_value(subject: Subject, index: int) -> Change | None:
    """`--enforce-eager true`: the switch takes no value."""
    before = subject.launch.texts[index - 1] if index else ""
    return _switch(subject, before, subject.launch.texts[index], index - 1, index + 1)


def _switch(subject: Subject, option: str, value: str, start: int, end: int) -> Change | None:
    name = option.replace("_", "-") if option.startswith("--") else option
    flag = subject.flags.by_option.get(name)
    if flag is None or flag.takes_value or not value:
        return None
    if value.lower() in _TRUE:
        return Change((option,), start, end, True)
    if value.lower() not in _FALSE:
        return None
    off = name in flag.negative
    others = [one for one in flag.shown if one.startswith("--") and (one in flag.negative) != off]
    if others:
        return Change((others[0],), start, end, True)
    return Change((), start, end, flag.default is False)


def _choice(subject: Subject, index: int) -> Change | None:
    """The one of the values accepted that is near; of numbers the next one up."""
    texts = subject.launch.texts
    name, equals, attached = texts[index].partition("=")
    flag = subject.flags.by_option.get(name.replace("_", "-") if name.startswith("--") else name)
    value = attached if equals else texts[index + 1] if index + 1 < len(texts) else ""
    if flag is None or not flag.choices or flag.nargs is not None:
        return None
    end = index + (1 if equals else 2)
    if means_nothing(flag, value):
        return Change((), index, end, True)
    if value.isdecimal():
        instead = next_choice(flag, value)
    else:
        instead = clearly_nearest(value, [str(choice) for choice in flag.choices if choice is not None])
    if instead is None:
        return None  # which one is meant, nobody but the user knows
    new = (f"{name}={instead}",) if equals else (name, str(instead))
    return Change(new, index, end, False)


def model_to_front(subject: Subject) -> tuple[TokenEdit, ...]:
    """The edits that put the model behind `vllm serve`, where a token is found that makes the line start; else ()."""
    texts = subject.launch.texts
    if "serve" not in texts:
        return ()
    front = texts.index("serve") + 1
    values = [i for i in range(front, len(texts)) if not texts[i].startswith("-")]
    for index in sorted(values, key=lambda i: "/" not in texts[i])[:MAX_TRIED]:
        moved = [*texts[:front], texts[index], *texts[front:index], *texts[index + 1 :]]
        if _starts(subject, moved, texts[index]):
            return edits_of(subject, [TokenEdit(front, front, (texts[index],)), TokenEdit(index, index + 1)])
    return ()


def _starts(subject: Subject, texts: list[str], model: str) -> bool:
    configs = {name: config.text for name, config in subject.launch.files.items()}
    try:
        args = parse_serve(texts, subject.release, configs=configs, env=subject.launch.environment)
    except (InputError, StartupError):
        return False
    return args.model_tag == model
