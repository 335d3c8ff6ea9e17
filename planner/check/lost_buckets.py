"""Options whose JSON and dotted keys vLLM does not merge: all but the last of them are lost without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import shorten
from ..inputs.serve_args import Given
from ..trace import Rule
from .diagnostic import Hit, Related, TokenEdit
from .occurrences import Occurrence, compact, document, drop, edits_of, flag_text, leaves, occurrences
from .registry import check
from .subject import Subject
from .trial import breaks

PARSER = "vllm/utils/argparse_utils.py"
"""Where vLLM's own parser stands."""

JSON_AND_KEYS = Rule(
    "CG920",
    title="The JSON of an option and dotted keys of it do not merge, nor do two JSON texts: the last one counts alone.",
    why="vLLM gathers dotted keys into one JSON text, puts it behind all other tokens, and argparse keeps the last "
    "value of an option. Nothing is said.",
    example="-cc '{\"mode\": 3}' -cc.cudagraph_mode=FULL: the mode is not set.",
    instead="Write all keys in one JSON text, or all of them as dotted keys.",
    source=f"{PARSER}:497-500",
)
TWO_SPELLINGS = Rule(
    "CG921",
    title="Dotted keys behind two spellings of an option do not merge: those of the last spelling count alone.",
    why="vLLM gathers dotted keys by the spelling of the option, -cc and --compilation-config apart, and argparse "
    "keeps the last value of an option. Nothing is said.",
    example="-cc.mode=3 --compilation-config.cudagraph_mode=FULL: the mode is not set.",
    instead="Use one spelling of the option.",
    source=f"{PARSER}:442-489",
)
FILE_BLOCK_LOST = Rule(
    "CG922",
    title="A block of the file of --config is lost when the command line sets one key of the same option.",
    why="The block becomes one JSON text; an option of the command line takes its place, it is not merged into it.",
    example="compilation-config: {mode: 3} in the file, and -cc.cudagraph_mode=FULL behind it: the mode is not set.",
    instead="Set all keys of the option in the file, or all of them on the command line.",
    source=f"{PARSER}:586-592",
)


class Lost(NamedTuple):
    """An option whose earlier values are lost, with the code of the way in which they are."""

    code: str
    hit: Hit


@check(JSON_AND_KEYS, "error")
def find_json_and_keys(subject: Subject) -> Iterator[Hit]:
    return _lost_by("CG920", subject)


@check(TWO_SPELLINGS, "error")
def find_two_spellings(subject: Subject) -> Iterator[Hit]:
    return _lost_by("CG921", subject)


@check(FILE_BLOCK_LOST, "error")
def find_file_block_lost(subject: Subject) -> Iterator[Hit]:
    return _lost_by("CG922", subject)


def _lost_by(code: str, subject: Subject) -> Iterator[Hit]:
    if "lost" not in subject.cache:
        subject.cache["lost"] = list(_lost_settings(subject))
    return (lost.hit for lost in subject.cache["lost"] if lost.code == code)


def _lost_settings(subject: Subject) -> Iterator[Lost]:
    """Every JSON option of which something is lost, once an option."""
    for option in dict.fromkeys(note.option for note in subject.notes if note.kind == "bucket_lost"):
        dest = subject.flags.by_option[option].dest
        given = list(subject.given(dest))
        documents = [document(subject, one) for one in given]
        yield from _lost_setting(subject, given, documents)


def _lost_setting(subject: Subject, given: list[Given], documents: list[dict[str, Any] | None]) -> Iterator[Lost]:
    *before, last = given
    counts = documents[-1]
    missing: list[str] = []
    for one in documents[:-1]:
        # What cannot be read as an object is lost whole.
        names = list(leaves(one)) if one is not None else [""]
        missing += [name for name in names if counts is None or not _is_set_again(name, leaves(counts))]
    if not missing:
        return  # each key is set again: see GIVEN_TWICE, FILE_OVERRIDDEN
    first = next(one for one, doc in zip(before, documents, strict=False) if doc is None or misses(doc, counts))
    code = _way(subject, first, last)
    edits, flag, safe = _joined(subject, given, documents)
    lost = ", ".join(dict.fromkeys(name for name in missing if name)) or "its value"
    loser, winner = _named(subject, first), _named(subject, last)
    winner = winner if winner != loser else winner.replace("the JSON", "the later JSON")
    message = f"{loser} does not count: {shorten(lost, 100)} is lost to {winner}"
    yield Lost(
        code,
        Hit(
            message,
            _FIXES[code],
            subject.asked.located(first.place),
            flag,
            edits,
            # What was lost may be what vLLM would refuse.
            safe and not breaks(subject, edits),
            related(subject, last, "this one counts alone"),
        ),
    )


_FIXES = {
    "CG920": "write all keys in one JSON text",
    "CG921": "use one spelling of the option",
    "CG922": "write all keys in one place, the file or the command line",
}


def misses(document: dict[str, Any], counts: dict[str, Any] | None) -> bool:
    """Whether some setting of an object is not set again in the one that counts."""
    return counts is None or not all(_is_set_again(name, leaves(counts)) for name in leaves(document))


def _is_set_again(name: str, counts: dict[str, Any]) -> bool:
    """Whether a setting has another value in its place: of itself, of what it is in, or of what is in it."""
    if name in counts:
        return True
    outer = name
    while "." in outer:
        outer = outer.rpartition(".")[0]
        if outer in counts:
            return True
    return any(other.startswith(f"{name}.") for other in counts)


def _way(subject: Subject, lost: Given, last: Given) -> str:
    if lost.place.line:
        return "CG922"
    keyed = [any(one.keys for one in occurrences(subject, given)) for given in (lost, last)]
    return "CG921" if all(keyed) else "CG920"


def _named(subject: Subject, one: Given) -> str:
    if one.place.line:
        return f"line {one.place.line} of the file of --config"
    found = occurrences(subject, one)
    if found and found[0].keys:
        return ", ".join(f"{each.head}.{each.keys}" for each in found[:3]) + (", ..." if len(found) > 3 else "")
    return f"the JSON of {found[0].head if found else one.option}"


def _joined(
    subject: Subject, given: list[Given], documents: list[dict[str, Any] | None]
) -> tuple[tuple[TokenEdit, ...], str | None, bool]:
    """One option that says all of them: the edits, the flag, and whether nothing contradicts."""
    found = [occurrences(subject, one) for one in given]
    written = [each for one in found for each in one]
    if None in documents or not written:
        return (), None, False
    all_leaves = [leaves(one) for one in documents if one is not None]
    clash = any(
        name in later
        for index, earlier in enumerate(all_leaves)
        for later in all_leaves[index + 1 :]
        for name in earlier
        # The command line is meant to go before the file.
        if not given[index].place.line
    )
    if all(each.keys for each in written) and not any(one.place.line for one in given):
        head = min(written, key=lambda each: each.start).head
        renamed = [TokenEdit(each.start, each.start + 1, each.texts(head)[:1]) for each in written if each.head != head]
        texts = [text for each in sorted(written) for text in each.texts(head)]
        return edits_of(subject, renamed), flag_text(texts), not clash
    merged: dict[str, Any] = {}
    for one in documents:
        _merge(merged, one or {})
    first, *rest = sorted(written)
    texts = list(with_value(first, compact(merged)))
    edits = [TokenEdit(first.start, first.end, tuple(texts)), *drop(rest)]
    return edits_of(subject, edits), flag_text(texts), not clash


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        before = into.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            into[key] = {**before}
            _merge(into[key], value)
        else:
            into[key] = value


def with_value(one: Occurrence, value: str) -> tuple[str, ...]:
    """The tokens of an option with another value, in the same form."""
    return (f"{one.head}={value}",) if one.attached is not None and not one.keys else (one.head, value)


def related(subject: Subject, one: Given, message: str) -> tuple[Related, ...]:
    """The place of another option."""
    at = subject.asked.located(one.place)
    return (Related(at, message),) if at is not None else ()
