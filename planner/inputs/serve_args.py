"""A `vllm serve` command line, read as vLLM of one release reads it.

`parse_serve` gives typed values by vLLM's names, where each came from, and what the parser did in silence; a line
that vLLM does not accept is an ArgumentRefused. `launches` stands before it, `to_deployment` behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError, shorten
from ..releases import canonical
from .serve_args_checks import check_settings
from .serve_args_errors import ArgumentRefused
from .serve_args_flags import UNSET, Flag, FlagTable, flag_table
from .serve_args_grammar import Found, Grammar
from .serve_args_history import Unknown, explain_unknown
from .serve_args_notes import given_notes
from .serve_args_rewrite import Rewriter
from .serve_args_tokens import Note, Place, Token, tokens_of
from .serve_args_values import value_of
from .serve_args_yaml import ConfigFile

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
MAIN_MODULE = "vllm.entrypoints.cli.main"
MAX_TOKEN = 131_071
"""Longest argument that Linux passes to a program, bytes."""
MAX_TOKENS = 5_000
MAX_TOTAL = 2 * 2**20
"""Most bytes of all arguments that Linux passes to a program by default."""


class Given(NamedTuple):
    """One option as it was given.

    Attributes:
        dest: name of the setting.
        option: the spelling that it was taken for, "--max-num-seqs".
        value: its value.
        place: where the option stands.
        values: where its values stand; of `--x=y`, `--x` itself.
    """

    dest: str
    option: str
    value: Any
    place: Place
    values: tuple[Place, ...]


class ServeArgs(NamedTuple):
    """A command line that vLLM accepts.

    Attributes:
        release: of vLLM.
        style: "serve", or "module" for `python -m vllm.entrypoints.openai.api_server`.
        values: typed value of each setting given, by vLLM's name. Of a config class only the keys given are in it,
            enums by name.
        given: every option, in the order in which vLLM takes them.
        model: the model that is served; None: vLLM's default.
        model_tag: the model given by position, or None.
        model_flag: the model given by --model where the parser saw that one, or None.
        notes: what the parser did in silence.
        model_place: where the model given by position stands.
    """

    release: str
    style: str
    values: dict[str, Any]
    given: tuple[Given, ...]
    model: str | None
    model_tag: str | None
    model_flag: str | None
    notes: tuple[Note, ...]
    model_place: Place | None = None

    def get(self, dest: str) -> Any:
        """The value of a setting: the one given, else vLLM's default; that of a config class is {}."""
        if dest in self.values:
            return self.values[dest]
        return _default(flag_table(self.release), dest)

    def place_of(self, dest: str) -> Place | None:
        """Where the setting stands that counts, the last one."""
        return next((given.place for given in reversed(self.given) if given.dest == dest), None)


def parse_serve(
    tokens: Sequence[str],
    release: str,
    *,
    files: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> ServeArgs:
    """Read a command line as vLLM does.

    Args:
        tokens: as the shell passes them, program included: `vllm serve ...` or `python -m vllm... ...`.
        release: of vLLM.
        files: content of all files there are, by the name that the line uses. None: the file of --config is read
            from disk, and whether other files exist is not looked at.
        configs: content of the files of --config alone, by the name that the line uses; of the others nothing is known.
        env: environment variables of the command.

    Raises:
        InputError: this is no vLLM server, the release is unknown, or the line is beyond what a system passes on.
        ArgumentRefused: vLLM does not accept it, or ends without a server.
    """
    release = canonical(release)
    check_length(tokens)
    style, start = _style(tokens)
    try:
        return _Parse(flag_table(release), style, files, configs, env or {}).run(tokens_of(tokens[start:], start))
    except ArgumentRefused as error:
        error.where = error.where or _word_at(tokens, error.place)
        raise


def _word_at(tokens: Sequence[str], place: Place | None) -> str:
    """The word that a refusal points at, as an error shows it."""
    if place is None or place.line or not 0 <= place.token < len(tokens):
        return "--config" if place is not None and place.line else "vllm serve"
    word = " ".join(tokens[place.token].split())
    return shorten(word, 60) if word else repr(tokens[place.token][:20])


def check_length(tokens: Sequence[str]) -> None:
    """Refuse what no system passes to a program."""
    total = sum(map(len, tokens))
    if len(tokens) > MAX_TOKENS or total > MAX_TOTAL or any(len(token) > MAX_TOKEN for token in tokens):
        raise InputError(
            "the command line is longer than a system passes to a program",
            code="CG914",
            where="the line",
            fix="put long settings into the file of --config",
        )


def _style(tokens: Sequence[str]) -> tuple[str, int]:
    """How the server is started, and the index of the first token behind the program."""
    program = tokens[0].rpartition("/")[2] if tokens else ""
    if program == "vllm":
        return "serve", 1
    if re.fullmatch(r"python[0-9.]*", program):
        at = 1
        while at < len(tokens) and re.fullmatch(r"-[bBdEiIOPqsSuvx]+", tokens[at]):
            at += 1
        module = tokens[at + 1] if tokens[at : at + 1] == ["-m"] and at + 1 < len(tokens) else ""
        if module in (SERVER_MODULE, MAIN_MODULE):
            return ("module" if module == SERVER_MODULE else "serve"), at + 2
    raise InputError(
        f"{shorten(' '.join(tokens[:3]) or 'an empty line', 60)!r} does not start a vLLM server",
        code="CG905",
        where="the line",
        fix=f"write `vllm serve MODEL ...` or `python -m {SERVER_MODULE} --model MODEL ...`",
    )


class _Parse:
    """One command line on its way through vLLM's parsers."""

    def __init__(
        self,
        table: FlagTable,
        style: str,
        files: Mapping[str, str] | None,
        configs: Mapping[str, str] | None,
        env: Mapping[str, str],
    ) -> None:
        self.table = table
        self.style = style
        self.files = files
        self.env = env
        self.config = ConfigFile(table, style, files if configs is None else configs)
        self.rewriter = Rewriter(table.release, self.config.tokens)
        self.values: dict[str, Any] = {}
        self.given: list[Given] = []
        self.found: list[Found] = []
        self.model_tag: Token | None = None
        self.entered = False
        self.extras: list[Token] = []

    def run(self, tokens: list[Token]) -> ServeArgs:
        try:
            self._parse(self.rewriter.rewrite(tokens))
        except ArgumentRefused as error:
            error.notes = self._notes()
            raise
        return self._result(self._notes())

    def _parse(self, tokens: list[Token]) -> None:
        if self.style == "module":
            self.extras = self._grammar().parse(tokens)
        else:
            self._enter(tokens)
        if self.extras:
            raise self._unrecognized()
        check_settings(self._get, self.table.release, self.style, self.files, self.env)

    def _notes(self) -> tuple[Note, ...]:
        found = given_notes(self.table, self.found, self.style, self.model_tag)
        return (*self.rewriter.notes, *self.config.notes, *found)

    def _grammar(self) -> Grammar:
        options = self.table.by_option
        if self.style == "module" and self.table.only_serve:
            options = {option: flag for option, flag in options.items() if option not in self.table.only_serve}
        return Grammar(options, self.table.by_dest["model_tag"], self._take)

    def _enter(self, tokens: list[Token]) -> None:
        """The parser of `vllm`, which hands everything behind `serve` to that of `vllm serve`."""
        top = Grammar(_TOP_OPTIONS, _SUBCOMMAND, self._take_top)
        before = top.parse(tokens)
        self.extras = [*before, *self.extras]
        if not self.entered and not self.extras:
            raise _ends("no_subcommand", "`vllm` alone prints its help", "NoSubcommand", None, stage="main")

    def _take_top(self, found: Found) -> None:
        if found.flag is not _SUBCOMMAND:
            raise self._prints(found)
        name = found.values[0]
        if name.text not in self.table.subcommands:
            raise ArgumentRefused(
                f"vllm has no command {shorten(name.text, 40)!r}",
                "invalid_choice",
                option="subparser",
                place=name.place,
                fix="write `vllm serve MODEL`",
            )
        if name.text != "serve":
            message = f"`vllm {name.text}` starts no server"
            raise _ends("other_subcommand", message, "OtherSubcommand", name.place, stage="main")
        self.entered = True
        self.extras = self._grammar().parse(found.values[1:])

    def _take(self, found: Found) -> None:
        flag = found.flag
        if flag.kind == "help":
            raise self._prints(found)
        if flag.dest == "model_tag":
            self.model_tag = found.values[0]
            return
        value = value_of(found, self.table.release)
        if flag.action == "_AppendAction":
            value = [*self.values.get(flag.dest, flag.default or ()), value]
        self.values[flag.dest] = value
        self.found.append(found)
        places = tuple(token.place for token in found.values)
        self.given.append(Given(flag.dest, found.option, value, found.token.place, places))

    def _prints(self, found: Found) -> ArgumentRefused:
        return _ends(found.flag.kind, f"{found.option} prints and ends", "SystemExit", found.token.place)

    def _unrecognized(self) -> ArgumentRefused:
        first = next((token for token in self.extras if token.text.startswith("-")), self.extras[0])
        unknown = explain_unknown(first.text, self.table)
        for note in self.rewriter.notes:
            if note.kind == "value_is_key" and note.place == first.place:
                unknown = Unknown(
                    note.message, "write OPTION=VALUE, without a blank, where the value starts with a dash"
                )
        more_tokens = len(self.extras) - 1
        more = f" (and {more_tokens} more token{'s' if more_tokens > 1 else ''})" if more_tokens else ""
        refused = ArgumentRefused(f"{unknown.message}{more}", "unrecognized", place=first.place, fix=unknown.fix)
        refused.where = shorten(first.text, 60)
        return refused

    def _get(self, dest: str) -> Any:
        if dest in self.values:
            return self.values[dest]
        return _default(self.table, dest)

    def _result(self, notes: tuple[Note, ...]) -> ServeArgs:
        tag, place = (None, None) if self.model_tag is None else self.model_tag
        flag = self.values.get("model")
        model = flag if self.style == "module" or tag is None else tag
        return ServeArgs(self.table.release, self.style, self.values, tuple(self.given), model, tag, flag, notes, place)


def _default(table: FlagTable, dest: str) -> Any:
    flag = table.by_dest.get(dest)
    if flag is None or flag.default == UNSET:
        return None
    return {} if isinstance(flag.default, dict) and "<class>" in flag.default else flag.default


def _ends(kind: str, message: str, raised_as: str, place: Place | None, stage: str = "parse") -> ArgumentRefused:
    fix = "write `vllm serve MODEL ...`"
    return ArgumentRefused(message, kind, raised_as=raised_as, place=place, stage=stage, fix=fix)


def _top_flag(dest: str, options: tuple[str, ...], kind: str, nargs: str | None = None) -> Flag:
    return Flag(
        dest,
        options,
        options,
        frozenset(),
        kind,
        "",
        "",
        (),
        (),
        nargs,
        None,
        "",
        None,
        "",
        deprecated=False,
        advice="",
    )


_HELP = _top_flag("help", ("-h", "--help"), "help")
_VERSION = _top_flag("version", ("-v", "--version"), "version")
_SUBCOMMAND = _top_flag("subparser", (), "str", "A...")
_TOP_OPTIONS = {option: flag for flag in (_HELP, _VERSION) for option in flag.options}
