"""A command that was passed as words or as one text: `cgplan check -- vllm serve ...`, `cgplan.check("...")`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import InputError, shorten
from .config_beside import with_files
from .launch import EnvVariable, Launch, LaunchToken, Source
from .places import Places

if TYPE_CHECKING:
    from .shell.commands import Found

_PROGRAM = re.compile(r"(?:.*/)?(?:vllm|python[0-9.]*)")
SHOWN = 60
"""Characters of a line that an error repeats."""


def launch_of(words: Sequence[str]) -> Launch:
    """The launch of these words; NAME=VALUE in front are its environment.

    The source is the line as a shell would take it. Programs in front that start another one, such as `nohup` and
    `docker run`, are read as in a script; so is one word that is a whole command. A file of --config is read if it is
    here.

    Raises:
        InputError: several servers are started, or a script within cannot be read.
    """
    if len(words) == 1 and re.search(r"\s", words[0]) and "vllm" in words[0].lower():
        return launch_of_text(words[0])
    written = [shlex.quote(word) if word else "''" for word in words]
    source = Source("", " ".join(written))
    places = Places(source)
    tokens: list[LaunchToken] = []
    env: list[EnvVariable] = []
    at = 0
    for word, as_written in zip(words, written, strict=True):
        span = places.span(at, at + len(as_written))
        at = span.end + 1
        name, equals, value = word.partition("=")
        if not tokens and equals and name.isidentifier():
            env.append(EnvVariable(name, value, span))
        elif tokens or word != "env":
            tokens.append(LaunchToken(word, span))
    if tokens and not _PROGRAM.fullmatch(tokens[0].text):
        found = _wrapped(tokens)
        if found is not None:
            return _launch(source, found, () if found.apart else tuple(env))
    return with_files(Launch(source, "line", "", tuple(tokens), tuple(env)))


def launch_of_text(text: str) -> Launch:
    """The launch of a command line as a shell takes it.

    Raises:
        InputError: CG905 it starts no server, or several; CG906 a quote is not closed, CG914 it is too long.
    """
    from .shell.commands import in_script

    source = Source("", text)
    found = _only(in_script(text, Places(source).span, {}), text)
    if found is None:
        raise InputError(
            f"{shorten(' '.join(text[: 2 * SHOWN].split()) or 'an empty line', SHOWN)!r} does not start a vLLM server",
            code="CG905",
            where="the line",
            fix="write `vllm serve MODEL ...`",
        )
    return _launch(source, found, ())


def _wrapped(tokens: Sequence[LaunchToken]) -> Found | None:
    from .shell.commands import Word, in_words

    words = [Word(token.text, token.span) for token in tokens]
    return _only(in_words(words, {}), " ".join(token.text for token in tokens[:8]))


def _only(found: Sequence[Found], text: str) -> Found | None:
    if len(found) > 1:
        raise InputError(
            f"{shorten(' '.join(text[: 2 * SHOWN].split()), SHOWN)!r} starts {len(found)} vLLM servers",
            code="CG905",
            where="the line",
            fix="pass it as a file, or on stdin: cgplan check -",
        )
    return found[0] if found else None


def _launch(source: Source, found: Found, env: tuple[EnvVariable, ...]) -> Launch:
    kind = "shell" if found.apart else "line"
    return with_files(
        Launch(source, kind, "", found.tokens, (*env, *found.env), hints=found.hints, remarks=found.remarks)
    )
