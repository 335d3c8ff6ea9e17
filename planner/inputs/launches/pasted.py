"""A command that was passed as words: `cgplan check -- vllm serve ...`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from .launch import EnvVariable, Launch, LaunchToken, Source
from .places import Places


def launch_of(words: Sequence[str]) -> Launch:
    """The launch of these words; NAME=VALUE in front are its environment.

    The source is the line as a shell would take it.
    """
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
    return Launch(source, "line", "", tuple(tokens), tuple(env))
