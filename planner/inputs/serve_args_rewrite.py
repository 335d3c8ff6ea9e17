"""What vLLM does to the tokens before argparse sees them (vllm/utils/argparse_utils.py at 0.33.0, parse_args).

In order: `--model` becomes the positional, `--config FILE` is replaced by the file's settings, underscores become
dashes, `-O3` is spelled out, and dotted keys are gathered into one JSON text for each spelling of their option,
behind all other tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..errors import shorten
from ..releases import holds
from .serve_args_errors import ArgumentRefused, uncaught
from .serve_args_numbers import human_int
from .serve_args_tokens import Note, Place, Token

ReadConfig = Callable[[Token], list[Token]]

_UNTIL_DOT = re.compile(r"(?<=--)[^\.]*")
_MODEL_FLAG = re.compile(r"--model(=.+|$)")
_CONFIG_FLAG = re.compile(r"--config(=.+|$)")
_SERVED_NAME = re.compile(r"--served[-_]model[-_]name(=.+|$)")
_LEVELS = ("0", "1", "2", "3")
HUMAN_KEYS_SINCE = "0.20.2"
"""First release that reads 1k as the value of a dotted key."""


class Rewriter:
    """Rewrites the tokens of one command line; `notes` says what was done."""

    def __init__(self, release: str, read_config: ReadConfig) -> None:
        self.release = release
        self.read_config = read_config
        self.notes: list[Note] = []

    def rewrite(self, tokens: list[Token]) -> list[Token]:
        """The tokens that argparse sees.

        Raises:
            ArgumentRefused: vLLM fails before argparse does anything.
        """
        if tokens and tokens[0].text == "serve":
            tokens = self._move_model(tokens)
            self._check_served_name(tokens)
        tokens = self._insert_config(tokens)
        tokens = self._spell_out(tokens)
        try:
            return self._gather_keys(tokens)
        except RecursionError:
            raise uncaught("a dotted key is nested too deeply", "RecursionError", fix="give a shorter key") from None

    def note(self, kind: str, message: str, option: str, place: Place, lost: Place | None = None) -> None:
        self.notes.append(Note(kind, message, option, place, lost))

    def _move_model(self, tokens: list[Token]) -> list[Token]:
        index = next((i for i, token in enumerate(tokens) if _MODEL_FLAG.match(token.text)), None)
        if index is None:
            return tokens
        flag = tokens[index]
        if flag.text == "--model":
            if index + 1 == len(tokens):
                raise uncaught(
                    "--model is the last token; vLLM ends with an IndexError",
                    "IndexError",
                    flag.place,
                    "write the model behind `vllm serve`",
                )
            model, after = tokens[index + 1], index + 2
        else:
            model, after = Token(flag.text.removeprefix("--model="), flag.place), index + 1
        self.note("model_flag", "`vllm serve` moves --model to the front; write the model there", "--model", flag.place)
        return [tokens[0], model, *tokens[1:index], *tokens[after:]]

    def _check_served_name(self, tokens: list[Token]) -> None:
        if len(tokens) < 2 or not tokens[1].text.startswith("-"):
            return
        if any(_CONFIG_FLAG.match(token.text) for token in tokens):
            return
        named = next((token for token in tokens if _SERVED_NAME.match(token.text)), None)
        if named is not None:
            raise ArgumentRefused(
                "--served-model-name is given, and the model is not the first token behind `vllm serve`",
                "no_model",
                raised_as="ValueError",
                place=named.place,
                fix="write `vllm serve MODEL --served-model-name NAME`",
            )

    def _insert_config(self, tokens: list[Token]) -> list[Token]:
        self._note_unread_config(tokens)
        found = [i for i, token in enumerate(tokens) if token.text == "--config"]
        if not found:
            return tokens
        if len(found) > 1:
            raise uncaught(
                "--config is given twice; vLLM reads one file",
                "AssertionError",
                tokens[found[1]].place,
                "put all settings into one file",
            )
        index = found[0]
        if index == len(tokens) - 1:
            raise ArgumentRefused(
                "--config names no file",
                "config_file",
                raised_as="ValueError",
                place=tokens[index].place,
                fix="write --config FILE.yaml",
            )
        settings = self.read_config(tokens[index + 1])
        before, after = tokens[:index], tokens[index + 2 :]
        head = self._head(tokens, settings, index)
        # A head that reaches past --config keeps it, as vLLM's slices do.
        return [*tokens[:head], *settings, *before[head:], *after]

    def _head(self, tokens: list[Token], settings: list[Token], index: int) -> int:
        """How many tokens stand before the file's settings."""
        if tokens[0].text.startswith("-"):
            return 0
        if tokens[0].text != "serve":
            return 1
        if len(tokens) > 1 and not tokens[1].text.startswith("-"):
            return 2
        if any(setting.text == "--model" for setting in settings):
            return 1
        raise ArgumentRefused(
            "no model: with --config it has to be the first token behind `vllm serve`, or `model:` in the file",
            "no_model",
            raised_as="ValueError",
            place=tokens[index].place,
            fix="write `vllm serve MODEL --config FILE.yaml`",
        )

    def _note_unread_config(self, tokens: list[Token]) -> None:
        for token in tokens:
            key = token.text.partition("=")[0].replace("_", "-")
            if "=" in token.text and key == "--config":
                self.note("config_unread", "--config=FILE is never read; write --config FILE", "--config", token.place)

    def _spell_out(self, tokens: list[Token]) -> list[Token]:
        found: list[Token] = []
        for index, (text, place) in enumerate(tokens):
            if text.startswith("--help="):
                found.append(Token("--help", place))
            elif text.startswith("--"):
                key, equals, value = text.partition("=")
                key = _UNTIL_DOT.sub(lambda part: part[0].replace("_", "-"), key, count=1)
                found.append(Token(f"{key}{equals}{value}", place))
            elif text.startswith("-O") and text != "-O":
                level = text[3:] if text[2] == "=" else text[2:]
                if level not in _LEVELS:
                    self._note_level(text, level, place)
                found += [Token("--optimization-level", place), Token(level, place)]
            elif text == "-O" and index + 1 < len(tokens) and tokens[index + 1].text in _LEVELS:
                found.append(Token("--optimization-level", place))
            else:
                found.append(Token(text, place))
        return found

    def _note_level(self, text: str, level: str, place: Place) -> None:
        hint = "; -cc.KEY sets a key of the compilation config" if level.startswith(".") else ""
        message = f"{shorten(text, 40)} is taken as an optimisation level named {shorten(level, 40)!r}{hint}"
        self.note("odd_level", message, "--optimization-level", place)

    def _gather_keys(self, tokens: list[Token]) -> list[Token]:
        kept: list[Token] = []
        buckets: dict[str, tuple[dict[str, Any], Place]] = {}
        taken: set[int] = set()
        for index, (text, place) in enumerate(tokens):
            if index in taken:
                continue
            if text.startswith("--") and "." not in text:
                kept.append(tokens[index])
                continue
            key, equals, value = text.partition("=")
            if not text.startswith("-") or "." not in key:
                kept.append(tokens[index])
                continue
            if not equals:
                value = self._value_behind(tokens, index)
                taken.add(index + 1)
            self._put(buckets, key, value, place)
        for option, (document, place) in buckets.items():
            kept += [Token(option, place), Token(json.dumps(document), place)]
        return kept

    def _value_behind(self, tokens: list[Token], index: int) -> str:
        text, place = tokens[index]
        if index + 1 == len(tokens):
            raise uncaught(
                f"{shorten(text, 60)} is the last token, and a dotted key takes a value; vLLM ends with an IndexError",
                "IndexError",
                place,
                f"write {shorten(text, 60)}=VALUE",
            )
        if not text.startswith("--") and text[1:2].isdigit():
            message = (
                f"{shorten(text, 40)} is taken as a dotted key, and {shorten(tokens[index + 1].text, 40)} as its value"
            )
            self.note("value_is_key", message, text, place)
        return tokens[index + 1].text

    def _put(self, buckets: dict[str, tuple[dict[str, Any], Place]], text: str, value: str, place: Place) -> None:
        if text.endswith("+"):
            text, value = text[:-1], json.dumps(value.split(","))
        option, *keys = text.split(".")
        nested: Any = self._read(value, place)
        for key in reversed(keys):
            nested = {key: nested}
        document, first = buckets.get(option, ({}, place))
        for lost in sorted(merge(document, nested)):
            name = f"{option}.{lost}"
            self.note("duplicate_key", f"{shorten(name, 80)} is given more than once; the last one counts", name, place)
        buckets[option] = document, first

    def _read(self, text: str, place: Place) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            pass
        except RecursionError:
            raise uncaught("the value is nested too deeply", "RecursionError", place) from None
        except ValueError as error:
            raise uncaught(f"the value cannot be read: {_first(error)}", "ValueError", place) from None
        if not holds(self.release, HUMAN_KEYS_SINCE):
            return text
        try:
            return human_int(text)
        except ValueError:
            return text
        except OverflowError:
            raise uncaught(f"{shorten(text, 40)} is too large for vLLM", "OverflowError", place) from None


def merge(into: dict[str, Any], new: dict[str, Any]) -> set[str]:
    """Merge `new` into `into`: objects key by key, lists end to end, and of anything else the last. Returns the
    dotted names of what was replaced."""
    lost = set()
    for key, value in new.items():
        before = into.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            lost |= {f"{key}.{name}" for name in merge(before, value)}
        elif isinstance(value, list) and isinstance(before, list):
            before += value
        else:
            if key in into:
                lost.add(key)
            into[key] = value
    return lost


def _first(error: Exception) -> str:
    return str(error).partition(";")[0]
