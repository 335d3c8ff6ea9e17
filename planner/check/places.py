"""From the way in which rules name a setting, "--max-num-seqs" or "-cc.cudagraph_mode", to its place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inputs.launches.asked import Located
from ..inputs.serve_args import Given
from .diagnostic import ConfigEdit, Related, TokenEdit
from .subject import Subject

SHORT = {"-cc": "compilation_config", "-ac": "attention_config", "-sc": "speculative_config"}

ALSO = {
    "cudagraph_mode": ("compilation_config",),
    "cudagraph_capture_sizes": ("cudagraph_capture_sizes", "compilation_config"),
    "max_cudagraph_capture_size": ("max_cudagraph_capture_size", "compilation_config"),
    "attention_backend": ("attention_backend", "attention_config"),
    "spec_method": ("spec_method", "speculative_config"),
    "spec_tokens": ("spec_tokens", "speculative_config"),
    "spec_model": ("spec_model", "speculative_config"),
}
"""Settings that may stand in more than one option."""

SPECULATION = ("spec_tokens", "spec_model", "spec_method", "speculative_config")
CAUSES = {
    "all2all_backend": ("enable_dbo", "ubatch_size", "data_parallel_size"),
    **dict.fromkeys(SPECULATION, SPECULATION),
}
"""Settings that make vLLM look at another one, which need not be given."""

SECTION_FLAGS = {
    "speculative_config.num_speculative_tokens": "spec_tokens",
    "speculative_config.model": "spec_model",
    "speculative_config.method": "spec_method",
}
"""Keys of a config that have an option of their own."""

Edits = tuple[TokenEdit | ConfigEdit, ...]


def place_of(subject: Subject, where: str | None) -> Located | None:
    """The place of the setting that `where` names; else the start of the command."""
    return found_place(subject, where) or subject.start


def found_place(subject: Subject, where: str | None) -> Located | None:
    """The place of the setting that `where` names, or of the one that makes vLLM look at it; None: none is given."""
    if not where:
        return None
    first = where.split()[0].removeprefix("--env").strip() or where
    if subject.variable(first) is not None:
        return subject.at_variable(first)
    option = first.partition(".")[0]
    dest = SHORT.get(option) or option.lstrip("-").replace("-", "_")
    key = first.rpartition(".")[2] if "." in first else dest
    own = SECTION_FLAGS.get(f"{dest}.{key}")
    dests = (*ALSO.get(key, ()), *ALSO.get(dest, ()), *((own,) if own else ()), dest)
    flag = subject.flags.by_option.get(option)
    if flag is not None:
        dests = (*dests, flag.dest)
    for name in (*dests, *CAUSES.get(dest, ())):
        at = subject.asked.where_is(name)
        if at is not None:
            return at
    return _written(subject, (option, *(flag.options if flag is not None else ())))


def _written(subject: Subject, options: Sequence[str]) -> Located | None:
    """The last token that is one of these options, for a line that could not be read to its end."""
    for index in reversed(subject.asked.kept):
        token = subject.launch.tokens[index]
        name = token.text.partition("=")[0].partition(".")[0].replace("_", "-")
        if name.startswith("-") and name in options and token.style != "made":
            return Located(subject.launch.source, token.span)
    return None


def related(subject: Subject, message: str, *dests: str) -> tuple[Related, ...]:
    """The first of these settings that is given, as a related place; () where none is."""
    for dest in dests:
        at = subject.asked.where_is(dest)
        if at is not None:
            return (Related(at, message),)
    return ()


def change_value(subject: Subject, dest: str, texts: Sequence[str], config_value: Any = None) -> Edits:
    """The edit that gives setting `dest` these values; () where its text cannot be changed.

    Args:
        texts: values as tokens.
        config_value: the value as JSON, for a setting that stands in a file of --config.
    """
    given = _last(subject, dest)
    if given is None:
        return ()
    if given.place.line:
        key = _config_key(subject, given)
        return (ConfigEdit(key, given.place.line, key, config_value),) if key else ()
    option = _tokens(subject, [given])
    values = [subject.asked.token_index(place) for place in given.values]
    if option is None or not values or None in values:
        return ()
    text = subject.launch.tokens[option.start].text
    if values == [option.start]:
        name, equals, _ = text.partition("=")
        return (TokenEdit(option.start, option.end, (f"{name}={texts[0]}",)),) if equals and len(texts) == 1 else ()
    return (TokenEdit(option.start + 1, option.end, tuple(texts)),)


def drop(subject: Subject, *dests: str) -> Edits:
    """The edits that take these settings out of the text; those that cannot be taken out stay."""
    edits: list[TokenEdit | ConfigEdit] = []
    for given in subject.given(*dests):
        if given.place.line:
            key = _config_key(subject, given)
            edits += [ConfigEdit(key, given.place.line)] if key else []
            continue
        option = _tokens(subject, [given])
        edits += [option] if option is not None and option not in edits else []
    return tuple(edits)


def add(subject: Subject, *texts: str) -> Edits:
    """The edit that puts these tokens behind the last one of the command."""
    tokens = subject.launch.tokens
    if not tokens or tokens[-1].style == "made":
        return ()
    return (TokenEdit(len(tokens), len(tokens), texts),)


def change_dotted(subject: Subject, option: str, key: str, text: str | None) -> Edits:
    """The edit of a dotted key of a config option, `-cc.KEY=VALUE` or `-cc.KEY VALUE`; no text takes it out.

    () where the key is not given just so, or more than once.
    """
    flag = subject.flags.by_option.get(option)
    names = {f"{spelling}.{key}" for spelling in (flag.options if flag is not None else (option,))}
    tokens = subject.launch.tokens
    found = [i for i in subject.asked.kept if tokens[i].text.partition("=")[0].replace("_", "-") in _dashed(names)]
    if len(found) != 1 or not tokens[found[0]].literal:
        return ()
    start = found[0]
    name, equals, _ = tokens[start].text.partition("=")
    if equals:
        return (TokenEdit(start, start + 1, () if text is None else (f"{name}={text}",)),)
    if start + 1 >= len(tokens) or not tokens[start + 1].literal:
        return ()
    return (TokenEdit(start, start + 2, () if text is None else (name, text)),)


def _dashed(names: set[str]) -> set[str]:
    return {name.replace("_", "-") for name in names}


def _last(subject: Subject, dest: str) -> Given | None:
    found = list(subject.given(dest))
    return found[-1] if found else None


def _tokens(subject: Subject, given: Sequence[Given]) -> TokenEdit | None:
    """The stretch of tokens of one option with its values; None where it is not one, or not written just so."""
    places = [place for one in given for place in (one.place, *one.values)]
    indices = [subject.asked.token_index(place) for place in places]
    known = sorted({index for index in indices if index is not None})
    if not known or None in indices or known != list(range(known[0], known[-1] + 1)):
        return None
    tokens = subject.launch.tokens
    if not all(tokens[index].literal and tokens[index].style != "made" for index in known):
        return None
    return TokenEdit(known[0], known[-1] + 1)


def _config_key(subject: Subject, given: Given) -> str:
    """The key as the file of --config spells it, or ""."""
    files = list(subject.launch.files.values())
    lines = files[0].text.splitlines() if len(files) == 1 else []
    if not 0 < given.place.line <= len(lines):
        return ""
    key = lines[given.place.line - 1].partition(":")[0].strip().strip("'\"")
    return key if key.replace("_", "-") == given.option.lstrip("-").replace("_", "-") else ""
