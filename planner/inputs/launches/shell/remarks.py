"""Traps that a shell sets: commands cut off, quotes that it takes away, variables that it does not pass on."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from ....errors import shorten
from ..launch import Remark, Span
from .grammar import Item, ShellWord
from .values import Field
from .walk import Walk
from .word import SpanOf

MAX_REMARKS = 20

_BLANK_BEHIND = re.compile(r"\\[ \t]+\r?\n")


def of_cut(text: str, span_of: SpanOf, items: Sequence[Item], index: int) -> Iterator[Remark]:
    """Words that look as if they belonged to command `index`, but the shell takes them for the next command."""
    item = items[index]
    for word in item.words:
        if not word.raw.strip(" \t") and text[word.start : word.start + 1] == "\\":
            yield Remark(
                "cut_off",
                "a blank behind the backslash: the line is not continued, and the blank is an argument of its own",
                span_of(word.start, word.end),
                "remove the blank, so that the backslash is the last character of its line",
            )
    following = items[index + 1] if index + 1 < len(items) else None
    if item.ends != "\n" or following is None or following.kind != "command":
        return
    first, last = following.words[0], following.words[-1]
    if not first.raw.startswith("-"):
        return
    between = text[item.words[-1].end : first.start]
    if "#" in between:
        why, fix = "a comment within the command ends it", "move the comment above the command"
    elif _BLANK_BEHIND.search(text, max(item.words[-1].start - 1, 0), first.start):
        why, fix = "a blank behind the backslash ends the command", "remove the blank"
    elif "\\" in between:
        why, fix = "an empty line ends the command", "remove the empty line"
    else:
        why, fix = "the line before does not end with a backslash", "end it with a backslash"
    written = " ".join(word.raw for word in following.words)
    yield Remark("cut_off", f"{why}; vLLM does not get {shorten(written, 60)}", span_of(first.start, last.end), fix)


def of_word(word: ShellWord, text: str, place: Span) -> Iterator[Remark]:
    """What the shell does to an argument that was written without quotes."""
    bare = [piece for piece in word.pieces if piece.kind == "text" and not piece.quote]
    bare_text = "".join(piece.text for piece in bare)
    value = text.partition("=")[2] if text.startswith("-") else text
    if value.startswith(("{", "[{")) and "{" in bare_text:
        lost = any(piece.quote == '"' for piece in word.pieces)
        if lost or ":" in value:
            yield Remark(
                "quotes_lost",
                f"the shell takes the quotes out of this JSON; vLLM gets {shorten(value, 60)}",
                place,
                "put the JSON in single quotes",
            )
            return
    if re.search(r"\{[^{}]*,[^{}]*\}", bare_text):
        yield Remark("braces", "bash makes several words of {a,b}", place, "put it in single quotes")
    if "*" in bare_text or "?" in bare_text:
        yield Remark("pattern", "the shell looks for files that match * and ?", place, "put it in single quotes")
    quoted_tilde = text.startswith("~/") and bool(word.pieces) and bool(word.pieces[0].quote)
    if quoted_tilde or re.match(r"--?[\w.-]+=~/", text):
        yield Remark("tilde", "the shell does not put a folder in for ~ here; vLLM gets ~", place, "write $HOME for it")


def of_conditions(conditional: Sequence[Field], span_of: SpanOf) -> Iterator[Remark]:
    """Arguments that a script adds only under a condition."""
    for field in conditional[:MAX_REMARKS]:
        if field.start >= 0:
            message = f"the script adds {shorten(field.text.strip(), 60)} only under a condition; it is left out"
            yield Remark("condition", message, span_of(field.start, field.end))


def of_unexported(walk: Walk, front: Container[str], span_of: SpanOf) -> Iterator[Remark]:
    """Variables of vLLM that the script sets but does not export."""
    for name, one in walk.assigned.items():
        if name.startswith("VLLM_") and name not in walk.exported and name not in front and name not in walk.scope.used:
            yield Remark(
                "not_exported",
                f"{name} is set but not exported: vLLM does not see it",
                span_of(one.start, one.end),
                f"write `export {name}=...`",
            )
