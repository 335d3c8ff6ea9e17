"""What the shell offers where the user presses TAB. The scripts of `cgplan completion` call it; nothing is fetched.

They run `cgplan WORD...` with VARIABLE set to the name of the shell; the last word is the one to be completed, and
may be empty. Each candidate is a line: the word, a tab, and what it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from . import pasted
from .candidate import Candidate

MOST_FILES = 2_000
"""Entries of a folder that are looked at."""

WIDEST = 80

_SPECIAL = re.compile(r"([^\w@%+=:,./~^-])")


def answer(shell: str, words: Sequence[str]) -> int:
    """Print the candidates. Returns the exit status: 0, whatever happens, since a shell has no use for an error."""
    try:
        for one in candidates(words, shell == "bash"):
            word = _SPECIAL.sub(r"\\\1", one.word) if shell == "bash" else one.word
            text = " ".join("".join(c if c.isprintable() else " " for c in one.text).split())
            print(f"{word}\t{text[:WIDEST]}")
    except Exception:
        return 0
    return 0


def candidates(words: Sequence[str], apart: bool = False) -> list[Candidate]:
    """What the last of `words` may become.

    Args:
        words: of the line, without the program.
        apart: the shell may hand over `--x=y` as three words, and then takes y back alone.
    """
    before, current = list(words[:-1]), words[-1] if words else ""
    split = apart and "=" in words
    if split:
        before, current = _joined(before, current)
    kept, value = _value_part(before, current)
    found = _of(before, current, value)
    if split and kept.startswith("-"):
        kept = kept.partition("=")[2]
    wanted = (current if value is None else value).casefold()
    return [Candidate(kept + one.word, one.text) for one in found if one.word.casefold().startswith(wanted)]


def _joined(before: list[str], current: str) -> tuple[list[str], str]:
    """The words, with an option, a lone = and the value behind it put together."""
    words: list[str] = []
    for word in [*before, current]:
        if words and words[-1].startswith("-") and (word == "=" or words[-1].endswith("=")):
            words[-1] += word
        else:
            words.append(word)
    return words[:-1], words[-1]


def _value_part(before: Sequence[str], current: str) -> tuple[str, str | None]:
    """What of the current word stays as it is, and the part that is a value of an option; None: it is none."""
    option, equals, value = current.partition("=")
    if current.startswith("--") and equals:
        kept, comma, last = value.rpartition(",")
        return option + equals + kept + comma, last
    kept, comma, last = current.rpartition(",")
    if comma and before and before[-1].startswith("--"):
        return kept + comma, last
    return "", None


def _of(before: list[str], current: str, value: str | None) -> Iterable[Candidate]:
    if "--" in before:
        own, line = pasted.split(before)
        return _of_line(own, list(line.words or ()), current, value)
    from .app import COMMANDS

    if not before:
        return [*map(Candidate, COMMANDS), Candidate("--help"), Candidate("--version")]
    if before[0] not in COMMANDS:
        return ()
    params = _params(before[0])
    if value is not None and current.startswith("--"):
        return _values(_dashed(current.partition("=")[0]), params, value)
    last = _dashed(before[-1])
    if any(last in names(param) and takes_value(param) for param in params):
        return _values(last, params, current if value is None else value)
    if current.startswith("-") and current != "-":
        return _options(params, before, current)
    return _arguments(before[0], params, current)


def _params(command: str) -> list[Any]:
    import typer

    from .app import build

    group: Any = typer.main.get_command(build([command]))
    params: list[Any] = group.commands[command].params
    return params


def names(param: Any) -> tuple[str, ...]:
    """Every spelling of a parameter."""
    return (*param.opts, *param.secondary_opts) if param.param_type_name == "option" else ()


def takes_value(param: Any) -> bool:
    return not getattr(param, "is_flag", False)


def _options(params: Iterable[Any], before: Iterable[str], current: str) -> Iterator[Candidate]:
    given = {_dashed(word.partition("=")[0]) for word in before}
    for param in params:
        if getattr(param, "hidden", False):
            continue
        if not getattr(param, "multiple", False) and given & set(names(param)):
            continue
        for name in names(param):
            if name.startswith("--") or (not current.startswith("--") and len(current) > 0):
                yield Candidate(name, param.help or "")
    yield Candidate("--help", "Show this message and exit.")


def _values(option: str, params: Iterable[Any], current: str) -> Iterable[Candidate]:
    from .complete_values import FILES, values_of

    same = next((names(param) for param in params if option in names(param)), (option,))
    for name in same:
        if name in FILES:
            return files(current)
        found = values_of(name)
        if found:
            return found
    return ()


def _arguments(command: str, params: Iterable[Any], current: str) -> Iterable[Candidate]:
    from .complete_values import ARGUMENTS

    makers = ARGUMENTS.get(command)
    found: list[Candidate] = list(makers()) if makers is not None else []
    if any(param.param_type_name == "argument" and "FILE" in (param.metavar or "") for param in params):
        found += files(current)
    return found


def _of_line(own: list[str], line: list[str], current: str, value: str | None) -> Iterable[Candidate]:
    """Behind `--`: the words of a `vllm serve` line of the release that --vllm names."""
    while line and "=" in line[0] and not line[0].startswith("-"):
        del line[0]
    if line in ([], ["vllm"]):
        return [Candidate("serve" if line else "vllm")]
    if line[:2] != ["vllm", "serve"]:
        return ()
    from .complete_values import ARGUMENTS, flag_choices, flags_of

    release = next((after for word, after in pairwise(own) if word in ("--vllm", "--from")), None)
    if value is not None and current.startswith("--"):
        return flag_choices(_dashed(current.partition("=")[0]), release)
    if current.startswith("-"):
        return flags_of(release)
    if line[-1].startswith("-") and "=" not in line[-1]:
        return flag_choices(_dashed(line[-1]), release)
    models: Callable[[], Iterable[Candidate]] = ARGUMENTS["models"]
    return models() if len(line) == 2 else ()


def _dashed(name: str) -> str:
    return name.replace("_", "-") if name.startswith("--") else name


def files(current: str) -> list[Candidate]:
    """Files and folders that begin with `current`; a folder ends in a slash."""
    folder, slash, last = current.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            found = [
                folder + slash + entry.name + ("/" if entry.is_dir() else "")
                for entry, _ in zip(entries, range(MOST_FILES), strict=False)
                if entry.name.startswith(last) and (last or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return []
    return [Candidate(name) for name in sorted(found) if name.isprintable()]
