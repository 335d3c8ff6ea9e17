"""Settings that are given more than once, of which vLLM takes the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..errors import shorten
from ..inputs.serve_args import Given
from ..inputs.serve_args_tokens import Note
from ..trace import Rule
from .diagnostic import ConfigEdit, Hit, Related, TokenEdit
from .lost_buckets import PARSER, misses, related, with_value
from .occurrences import (
    JSON_KINDS,
    Occurrence,
    at_token,
    compact,
    config_drop,
    document,
    dotted,
    drop,
    edits_of,
    flag_text,
    is_secret,
    occurrences,
)
from .registry import check
from .subject import Subject

LIST_REPLACED = Rule(
    "CG923",
    title="A list that is given twice is replaced, not extended.",
    why="argparse keeps the last value of an option, lists included.",
    example="--served-model-name a --served-model-name b: the server answers to b alone.",
    instead="Give all values behind one option.",
    source=f"{PARSER}:502",
)
GIVEN_TWICE = Rule(
    "CG924",
    title="An option is given twice; the last one counts.",
    why="argparse keeps the last value of an option; so it does with two spellings of it and with --no-x behind --x.",
    example="--max-num-seqs 64 --max-num-seqs 256: 256 counts.",
    instead="Drop the ones that do not count.",
    source=f"{PARSER}:445-454",
)
KEY_TWICE = Rule(
    "CG925",
    title="A dotted key is given twice; the last one counts.",
    why="vLLM merges dotted keys of one spelling; of the same key it keeps the last value, and logs its name.",
    example="-cc.mode=3 -cc.mode=0: the mode is 0.",
    instead="Drop the ones that do not count.",
    source=f"{PARSER}:489-495",
)
FILE_OVERRIDDEN = Rule(
    "CG931",
    title="The command line takes the place of a setting of the file of --config.",
    why="vLLM puts the settings of the file in front of the command line's options, and the last one counts.",
    example="max-num-seqs: 64 in the file, and --max-num-seqs 256: 256 counts.",
    instead="Nothing, where it is meant; else drop one of the two.",
    source=f"{PARSER}:568-600",
)
JSON_KEY_TWICE = Rule(
    "CG939",
    title="A key stands twice in one JSON text; the last one counts.",
    why="Readers of JSON keep the last value of a key, without a word.",
    example='--compilation-config \'{"mode": 3, "mode": 0}\': the mode is 0.',
    instead="Drop the ones that do not count.",
    source="vllm/engine/arg_utils.py:185",
)


@check(LIST_REPLACED, "error")
def find_list_replaced(subject: Subject) -> Iterator[Hit]:
    dests = dict.fromkeys(note.option for note in subject.notes if note.kind == "list_replaced")
    for option in dests:
        flag = subject.flags.by_option[option]
        given = [one for one in subject.given(flag.dest) if not one.place.line]
        if len(given) < 2:
            continue  # a list of the file: see FILE_OVERRIDDEN
        *before, last = given
        values = [value for one in before for value in _items(one) if value not in _items(last)]
        if not values:
            continue
        found = [each for one in given for each in occurrences(subject, one)]
        first, *rest = sorted(found)
        items = [item for each in (first, *rest) for item in ((each.attached,) if each.attached else each.values)]
        texts = (first.head, *dict.fromkeys(items))
        lost = "its list" if is_secret(last.option) else shorten(", ".join(map(str, values)), 80)
        verb = "is" if len(values) == 1 or is_secret(last.option) else "are"
        yield Hit(
            f"the first {before[0].option} does not count: {lost} {verb} lost",
            "give all values behind one option",
            subject.asked.located(before[0].place),
            flag_text(texts),
            edits_of(subject, [TokenEdit(first.start, first.end, texts), *drop(rest)]),
            False,  # which of the values are meant is a guess
            related(subject, last, "this list counts alone"),
        )


def _items(one: Given) -> list[Any]:
    return one.value if isinstance(one.value, list) else [one.value]


@check(GIVEN_TWICE, "warning")
def find_given_twice(subject: Subject) -> Iterator[Hit]:
    """Once an option, where all of them stand in one place: the command line, or the file."""
    for dest in dict.fromkeys(one.dest for one in subject.given()):
        flag = subject.flags.by_dest.get(dest)
        given = list(subject.given(dest))
        if flag is None or flag.action == "_AppendAction":
            continue
        for group in (
            [one for one in given if not one.place.line],
            [one for one in given if one.place.line],
        ):
            if len(group) > 1 and not _says_more(subject, flag.kind, group):
                yield _given_twice(subject, group)


def _says_more(subject: Subject, kind: str, group: list[Given]) -> bool:
    """Another rule speaks of it: something is lost that the last one does not set."""
    *before, last = group
    if kind in JSON_KINDS:
        documents = [document(subject, one) for one in group]
        return any(one is None or misses(one, documents[-1]) for one in documents[:-1])
    return kind == "list" and any(item not in _items(last) for one in before for item in _items(one))


def _given_twice(subject: Subject, group: list[Given]) -> Hit:
    *before, last = group
    same = all(one.value == last.value for one in before)
    edits: tuple[TokenEdit | ConfigEdit, ...]
    if last.place.line:
        edits = tuple(edit for one in before for edit in config_drop(subject, one.place.line))
    else:
        edits = edits_of(subject, drop([each for one in before for each in occurrences(subject, one)]))
    names = dict.fromkeys(one.option for one in group)
    message = " and ".join(names) if len(names) > 1 else f"{last.option} is given {len(group)} times"
    what = (
        "each time with the same value"
        if same
        else f"{last.option} counts, the last one"
        if len(names) > 1
        else "the last counts"
    )
    return Hit(
        f"{message}; {what}",
        "drop the others",
        subject.asked.located(before[0].place),
        None,
        edits,
        True,
        related(subject, last, "this one counts"),
        "info" if same else None,
    )


@check(KEY_TWICE, "warning")
def find_key_twice(subject: Subject) -> Iterator[Hit]:
    by_key: dict[tuple[str, str], list[Occurrence]] = {}
    for one in dotted(subject):
        by_key.setdefault((one.bucket, one.keys), []).append(one)
    for note in dict.fromkeys(note for note in subject.notes if note.kind == "duplicate_key"):
        yield _key_twice(subject, note, by_key)


def _key_twice(subject: Subject, note: Note, by_key: dict[tuple[str, str], list[Occurrence]]) -> Hit:
    bucket, _, keys = note.option.partition(".")
    found = by_key.pop((bucket, keys), [])
    if len(found) < 2:
        return Hit(note.message, "give it once", subject.asked.located(note.place))
    *before, last = found
    same = all(one.value == last.value for one in before)
    return Hit(
        f"{bucket}.{keys} is given {len(found)} times; "
        + ("each time with the same value" if same else "the last counts"),
        "drop the others",
        at_token(subject, before[0].start),
        flag_text(last.texts(last.head)),
        edits_of(subject, drop(before)),
        True,
        (Related(at_token(subject, last.start), "this one counts"),),
        "info" if same else None,
    )


@check(FILE_OVERRIDDEN, "info")
def find_file_overridden(subject: Subject) -> Iterator[Hit]:
    for dest in dict.fromkeys(one.dest for one in subject.given()):
        given = list(subject.given(dest))
        in_file = [one for one in given if one.place.line]
        on_line = [one for one in given if not one.place.line]
        flag = subject.flags.by_dest.get(dest)
        if not in_file or not on_line or flag is None or flag.action == "_AppendAction":
            continue
        if flag.kind in JSON_KINDS and _says_more(subject, flag.kind, [in_file[-1], on_line[-1]]):
            continue
        lost, counts = in_file[-1], on_line[-1]
        yield Hit(
            f"{counts.option} of the command line counts, not line {lost.place.line} of the file of --config",
            None,
            subject.asked.located(lost.place),
            related=related(subject, counts, "this one counts"),
        )


@check(JSON_KEY_TWICE, "warning")
def find_json_key_twice(subject: Subject) -> Iterator[Hit]:
    for one in subject.given():
        flag = subject.flags.by_dest.get(one.dest)
        found = occurrences(subject, one) if flag is not None and flag.kind in JSON_KINDS else []
        if len(found) != 1 or found[0].keys or found[0].value is None:
            continue
        twice = _keys_twice(found[0].value)
        merged = document(subject, one)
        if not twice or merged is None:
            continue
        texts = with_value(found[0], compact(merged))
        yield Hit(
            f"{', '.join(twice[:3])} stands twice in the JSON of {found[0].head}; the last one counts",
            "drop the others",
            at_token(subject, found[0].end - 1),
            flag_text(texts),
            edits_of(subject, [TokenEdit(found[0].start, found[0].end, texts)]),
        )


def _keys_twice(text: str) -> list[str]:
    twice: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice.append(shorten(key, 40))
            seen.add(key)

    if text.count('"') < 4:
        return twice
    try:
        json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(twice))
