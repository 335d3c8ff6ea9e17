"""The grammar of argparse, as far as vLLM's parsers use it, over a table of options instead of a parser object.

Follows CPython 3.11: what is an option, what may be abbreviated, how many tokens an option takes. Nothing is
converted here: each option found is given, with the tokens it took, to the caller.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..errors import shorten
from .serve_args_errors import ArgumentRefused
from .serve_args_flags import Flag
from .serve_args_history import explain_removed
from .serve_args_tokens import Token

_NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
_EXPECTED = {None: "one argument", "?": "at most one argument", "+": "at least one argument"}


class Found(NamedTuple):
    """An option, or a positional, with its tokens.

    Attributes:
        flag: which.
        option: the spelling that it was taken for; "" for a positional.
        values: the tokens it took.
        token: where the option stands; a positional's first value.
    """

    flag: Flag
    option: str
    values: list[Token]
    token: Token


class _Candidate(NamedTuple):
    """How a token may be read: as `flag`, spelled `option`, with `explicit` behind its `=`."""

    flag: Flag | None
    option: str
    explicit: str | None


Take = Callable[[Found], None]


class Grammar:
    """One parser: its options and its one positional."""

    def __init__(self, by_option: Mapping[str, Flag], positional: Flag, take: Take) -> None:
        self.by_option = by_option
        self.positional = positional
        self.take = take
        self.sorted: list[str] = []

    def parse(self, tokens: Sequence[Token]) -> list[Token]:
        """Read the tokens; `take` is called for each option in order. Returns the tokens that nothing took.

        Raises:
            ArgumentRefused: ambiguous, or the number of values is wrong.
        """
        return _Run(self, tokens).run()

    def candidate(self, token: Token) -> _Candidate | None:
        """How argparse reads one token: as an option, or, if None, as a value."""
        text = token.text
        if not text.startswith("-"):
            return None
        if text in self.by_option:
            return _Candidate(self.by_option[text], text, None)
        if len(text) == 1:
            return None
        option, equals, explicit = text.partition("=")
        if equals and option in self.by_option:
            return _Candidate(self.by_option[option], option, explicit)
        matches = self._long_matches(text) if text.startswith("--") else self._short_matches(text)
        if len(matches) > 1:
            raise self._ambiguous(token, matches)
        if matches:
            return matches[0]
        if _NEGATIVE_NUMBER.match(text) or " " in text:
            return None
        return _Candidate(None, text, None)

    def _long_matches(self, text: str) -> list[_Candidate]:
        prefix, equals, explicit = text.partition("=")
        value = explicit if equals else None
        return [_Candidate(self.by_option[option], option, value) for option in self._beginning(prefix)]

    def _short_matches(self, text: str) -> list[_Candidate]:
        spelled: dict[str, str | None] = dict.fromkeys(self._beginning(text))
        if text[:2] in self.by_option:
            spelled[text[:2]] = text[2:]
        options = spelled if len(spelled) < 2 else [option for option in self.by_option if option in spelled]
        return [_Candidate(self.by_option[option], option, spelled[option]) for option in options]

    def _beginning(self, prefix: str) -> list[str]:
        """The options that begin so, in the order of the parser."""
        if not self.sorted:
            self.sorted = sorted(self.by_option)
        first = last = bisect_left(self.sorted, prefix)
        while last < len(self.sorted) and self.sorted[last].startswith(prefix):
            last += 1
        found = self.sorted[first:last]
        return found if len(found) < 2 else [option for option in self.by_option if option in found]

    def _ambiguous(self, token: Token, matches: list[_Candidate]) -> ArgumentRefused:
        names = [match.option for match in matches]
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        short_for = f"short for {', '.join(names[:6])}{more}"
        gone = explain_removed(token.text.partition("=")[0])
        return ArgumentRefused(
            f"{gone.message}, and is {short_for} today" if gone else f"{shorten(token.text, 60)} is {short_for}",
            "ambiguous",
            option=token.text,
            place=token.place,
            fix="write the option in full" if gone is None else gone.fix,
        )


class _Run:
    """One pass over the tokens."""

    def __init__(self, grammar: Grammar, tokens: Sequence[Token]) -> None:
        self.grammar = grammar
        self.tokens = tokens
        self.options: dict[int, _Candidate] = {}
        self.pattern = self._classify()
        self.positional: Flag | None = grammar.positional
        self.extras: list[Token] = []

    def _classify(self) -> str:
        """A letter for each token: O an option, A a value, - the token `--`, behind which all is a value."""
        letters = []
        for index, token in enumerate(self.tokens):
            if token.text == "--":
                letters.append("-" + "A" * (len(self.tokens) - index - 1))
                break
            candidate = self.grammar.candidate(token)
            if candidate is not None:
                self.options[index] = candidate
            letters.append("A" if candidate is None else "O")
        return "".join(letters)

    def run(self) -> list[Token]:
        at = 0
        for option in self.options:
            if option < at:
                continue  # a positional took it
            while at < option:
                taken = self._take_positional(at)
                if taken == at:
                    self.extras += self.tokens[at:option]
                    taken = option
                at = taken
            if at == option:
                at = self._take_option(at)
        at = self._take_positional(at)
        self.extras += self.tokens[at:]
        return self.extras

    def _take_positional(self, at: int) -> int:
        flag = self.positional
        if flag is None:
            return at
        pattern = r"-*A[-AO]*" if flag.nargs == "A..." else r"-*A?-*"
        matched = re.compile(pattern).match(self.pattern, at)
        if matched is None:
            return at
        self.positional = None
        values = list(self.tokens[at : matched.end()])
        if flag.nargs != "A...":
            values = without_dashes(values)
        if values:
            self.grammar.take(Found(flag, "", values, values[0]))
        return matched.end()

    def _take_option(self, at: int) -> int:
        token = self.tokens[at]
        flag, option, explicit = self.options[at]
        if flag is None:
            self.extras.append(token)
            return at + 1
        if explicit is None:
            count = self._count(flag, at + 1, token)
            self.grammar.take(Found(flag, option, list(self.tokens[at + 1 : at + 1 + count]), token))
            return at + 1 + count
        if flag.takes_value:
            self.grammar.take(Found(flag, option, [Token(explicit, token.place)], token))
            return at + 1
        return self._take_cluster(flag, option, explicit, at)

    def _count(self, flag: Flag, start: int, token: Token) -> int:
        """How many values stand behind an option."""
        if not flag.takes_value:
            return 0
        run = 0
        while start + run < len(self.pattern) and self.pattern[start + run] == "A":
            run += 1
            if flag.nargs != "+":
                break
        if run == 0 and flag.nargs != "?":
            raise ArgumentRefused(
                f"{flag.name} needs {_EXPECTED.get(flag.nargs, 'a value')}",
                "missing_value",
                option=flag.name,
                place=token.place,
                fix=f"write {flag.long} VALUE; a value that starts with a dash needs {flag.long}=VALUE",
            )
        return run

    def _take_cluster(self, flag: Flag, option: str, explicit: str, at: int) -> int:
        """`-hv` is -h and -v where -h takes no value; anything else behind such an option is refused."""
        token = self.tokens[at]
        found: list[Found] = []
        rest: str | None = explicit
        while rest is not None and not flag.takes_value:
            short = f"-{rest[:1]}"
            if option.startswith("--") or not rest or short not in self.grammar.by_option:
                raise ArgumentRefused(
                    f"{flag.name} takes no value, but has {shorten(rest, 40)!r}",
                    "flag_takes_no_value",
                    option=flag.name,
                    place=token.place,
                    fix=_without_value(flag, option),
                )
            found.append(Found(flag, option, [], token))
            flag, option, rest = self.grammar.by_option[short], short, rest[1:] or None
        count = self._count(flag, at + 1, token) if rest is None else 0
        values = list(self.tokens[at + 1 : at + 1 + count]) if rest is None else [Token(rest, token.place)]
        for one in [*found, Found(flag, option, values, token)]:
            self.grammar.take(one)
        return at + 1 + count


def without_dashes(values: list[Token]) -> list[Token]:
    """The tokens without their first `--`."""
    for index, token in enumerate(values):
        if token.text == "--":
            return values[:index] + values[index + 1 :]
    return values


def _without_value(flag: Flag, option: str) -> str:
    off = next((name for name in flag.shown if name in flag.negative or name.startswith("--no-")), None)
    return f"write {option}, or {off} for the opposite" if off and off != option else f"write {option} alone"
