"""Notes on options that vLLM takes without a word: given twice, abbreviated, overridden, deprecated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..errors import shorten
from ..releases import SUPPORTED
from .serve_args_flags import FlagTable, flag_table
from .serve_args_grammar import Found
from .serve_args_tokens import Note, Token

_LOST = {
    "config_json": ("bucket_lost", "do not merge; all of the earlier one is lost"),
    "json": ("bucket_lost", "do not merge; all of the earlier one is lost"),
    "json_object_or_str": ("bucket_lost", "do not merge; all of the earlier one is lost"),
    "list": ("list_replaced", "are not joined; the earlier list is lost"),
}


def given_notes(table: FlagTable, found: Sequence[Found], style: str, model_tag: Token | None) -> list[Note]:
    """Notes on the options found, in order, and on a model that does not count."""
    notes = [note for one in found for note in _on_one(table, one)]
    notes += _on_repeats(found)
    if style == "module" and model_tag is not None:
        message = f"the model {shorten(model_tag.text, 60)} is ignored; `python -m` takes it from --model"
        notes.append(Note("model_ignored", message, "--model", model_tag.place))
    return notes


def _on_one(table: FlagTable, found: Found) -> list[Note]:
    flag, place = found.flag, found.token.place
    notes = []
    typed = found.token.text.partition("=")[0]
    if typed != found.option and found.option.startswith(typed):
        message = f"{typed} is taken for {found.option}{_ambiguous_later(typed, table.release)}"
        notes.append(Note("abbreviation", message, found.option, place))
    if flag.deprecated or "deprecated" in flag.advice.lower():
        advice = flag.advice or f"{flag.long} is deprecated"
        notes.append(Note("deprecated", shorten(advice, 200), flag.long, place))
    return notes


@lru_cache(maxsize=256)
def _ambiguous_later(typed: str, release: str) -> str:
    for later in SUPPORTED[SUPPORTED.index(release) + 1 :]:
        meant = {flag.dest for option, flag in flag_table(later).by_option.items() if option.startswith(typed)}
        options = [option for option in flag_table(later).by_option if option.startswith(typed)]
        if not meant:
            return f"; {later} has no such option"
        if len(options) > 1 and typed not in options:
            return f"; {later} finds it ambiguous"
    return ""


def _on_repeats(found: Sequence[Found]) -> list[Note]:
    notes = []
    last: dict[str, Found] = {}
    for one in found:
        before = last.get(one.flag.dest)
        last[one.flag.dest] = one
        if before is not None and one.flag.action != "_AppendAction":
            notes.append(_on_repeat(before, one))
    return notes


def _on_repeat(before: Found, after: Found) -> Note:
    option, lost = after.flag.long, before.token.place
    kind, what = _LOST.get(after.flag.kind, ("repeated", "are given; the last one counts"))
    if lost.line and not after.token.place.line:
        where = f"line {lost.line} of the file of --config"
        if kind == "repeated":
            message = f"{after.option} of the command line counts, not {where}"
            return Note("yaml_overridden", message, option, after.token.place, lost)
        return Note(kind, f"{after.option} and {where} {what}", option, after.token.place, lost)
    names = f"{before.option} and {after.option}" if before.option != after.option else f"two {after.option}"
    return Note(kind, f"{names} {what}", option, after.token.place, lost)
