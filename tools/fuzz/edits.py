"""What must hold of what `cgplan check` says of a text: its places, its fixes, and what it prints."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import random
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from cgplan.check.diagnostic import ConfigEdit, TokenEdit
from cgplan.cli import check_fixes
from cgplan.cli.check_output import Form, show
from cgplan.inputs.launches import Launch, Source, Span, launch_of, read
from cgplan.inputs.launches.edit.kinds import CannotEdit
from cgplan.inputs.launches.edit.rewrite import rewritten
from cgplan.inputs.launches.edit.tokens import texts_after
from cgplan.report.check_results import LINE, FileResult

from .kind import Wrong

WORDS = ("--alpha", "300", '{"a": 1}', "it's", 'a "b" $c', "x: y", "")
"""What edits at random put in."""


def check_mended(found: FileResult) -> None:
    """What --fix says that it mends reads back as mended."""
    for unsafe in (False, True):
        for one in check_fixes.mend([found], unsafe):
            made = [id(each) for each in one.made]
            edits = [
                (result.launch, [edit for each in result.diagnostics if id(each) in made for edit in each.edits])
                for result in found.launches
            ]
            check_text(one.source, one.text, edits)


def check_edited(found: FileResult, dice: random.Random) -> None:
    """Edits at random are made as asked, or skipped."""
    if found.source is None or not found.launches:
        return
    launches = [result.launch for result in found.launches]
    wanted = [(launch, _edits(dice, launch)) for launch in dice.sample(launches, min(2, len(launches)))]
    result = rewritten(found.source, wanted)
    skipped = [(id(one.launch), one.edit) for one in result.skipped]
    made = [(launch, [edit for edit in edits if (id(launch), edit) not in skipped]) for launch, edits in wanted]
    others: list[tuple[Launch, list[Any]]] = [
        (one, []) for one in launches if all(one is not each for each, _ in wanted)
    ]
    check_text(found.source, result.text, [*made, *others])


def _edits(dice: random.Random, launch: Launch) -> list[TokenEdit | ConfigEdit]:
    found: list[TokenEdit | ConfigEdit] = []
    at = 2
    for _ in range(dice.randint(1, 3)):
        if at > len(launch.tokens):
            break
        start = dice.randint(at, len(launch.tokens))
        end = min(len(launch.tokens), start + dice.choice((0, 1, 1, 2, 3)))
        texts = tuple(dice.choices(WORDS, k=dice.randint(0, 2)))
        found.append(TokenEdit(start, end, texts))
        at = end + 1
    return found


def check_text(source: Source, text: str, edits: Sequence[tuple[Launch, Sequence[Any]]]) -> None:
    """A new text holds the tokens promised, and the same around the servers that are changed."""
    if text == source.text:
        return
    again = _read(source._replace(text=text))
    before = _read(source)
    if len(again) != len(before):
        raise Wrong(f"{len(before)} servers are {len(again)} after a fix: {text!r}")
    promised: dict[tuple[str, ...], int] = collections.Counter()
    places: list[Span] = []
    for launch, own in edits:
        tokens = list(dict.fromkeys(edit for edit in own if isinstance(edit, TokenEdit)))
        if launch.source.text != source.text:
            return
        try:
            promised[tuple(texts_after(launch, tokens))] += 1
        except CannotEdit as error:
            raise Wrong(f"made, and cannot be made: {error}") from None
        places += [token.span for token in launch.tokens if token.style != "made"] if own else []
        places += [Span(0, len(source.text), 1, 1)] if any(isinstance(edit, ConfigEdit) for edit in own) else []
    if promised != collections.Counter(tuple(launch.texts) for launch in again):
        raise Wrong(f"a fix reads as {[launch.texts for launch in again]}, not {list(promised)}: {text!r}")
    first, last = min(one.start for one in places), max(one.end for one in places)
    if source.text[:first].rstrip(" \t,\\\r\n-") != text[: len(source.text[:first].rstrip(" \t,\\\r\n-"))]:
        raise Wrong(f"text in front of a fix has changed: {text!r}")
    tail = source.text[last:].partition("\n")[2]
    if not text.endswith(tail):
        raise Wrong(f"text behind a fix has changed: {text!r}")


def _read(source: Source) -> list[Launch]:
    if source.name != LINE:
        return list(read(source).launches)
    return [launch_of(shlex.split(source.text))]


def misplaced(found: FileResult) -> Iterator[str]:
    """Places that are not in their text, or whose line and column are not those of their offset."""
    source = found.source
    if source is None:
        return
    spans: list[tuple[str, str, Span]] = []
    for result in found.launches:
        launch = result.launch
        own = launch.source.text
        spans += [(f"token {token.text[:40]!r}", own, token.span) for token in launch.tokens]
        spans += [(f"variable {one.name[:40]}", own, one.span) for one in launch.env if one.span is not None]
        spans += [("remark", own, one.span) for one in launch.remarks if one.span is not None]
    spans += [("remark", source.text, one.span) for one in found.remarks if one.span is not None]
    spans += [(one.code, one.at.source.text, one.at.span) for one in found.all() if one.at is not None]
    for what, text, span in dict.fromkeys(spans):
        if not 0 <= span.start <= span.end <= len(text):
            yield f"{what}: {span} is not in a text of {len(text)} characters"
        elif Source("", text).span(span.start, span.end) != span:
            yield f"{what}: {span} should be {Source('', text).span(span.start, span.end)}"


def shown(found: FileResult, output: str) -> str:
    """Printed as it would be; JSON must be JSON, and all of it must be UTF-8."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        show([found], Form(output, "error", False, True))
    text = out.getvalue()
    if output in ("json", "sarif"):
        json.loads(text)
    (text + err.getvalue()).encode("utf-8")
    if len(err.getvalue().splitlines()) > 1:
        raise Wrong(f"more than one line of error: {err.getvalue()!r}")
    return text
