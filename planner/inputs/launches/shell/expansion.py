"""What words of a script stand for, as far as the script itself says it: variables, arrays, defaults.

A variable whose value is not in the text stays as it is written, and is named as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .arithmetic import calculated
from .grammar import Piece, ShellWord
from .values import MAX_FIELDS, MAX_RUNS, MAX_TEXT, UNKNOWN, Field, Run, Scope, Value, element, split_at_blanks
from .word_lexer import WordLexer

MAX_DEPTH = 5
"""Defaults within defaults."""

_PARAMETER = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*|[0-9@*#])(?P<index>\[[^\]]*\])?(?P<rest>.*)\}", re.DOTALL)
_ARITHMETIC = re.compile(r"\$\(\((.{1,100})\)\)", re.DOTALL)
_BLANK = re.compile(r"\s")


def fields_of(words: Iterable[ShellWord], scope: Scope) -> list[Field]:
    """What the words become: split, with the values put in."""
    found: list[Field] = []
    for word in words:
        found.extend(_fields(word, scope))
        if len(found) > MAX_FIELDS:
            break
    return found[:MAX_FIELDS]


def value_of(word: ShellWord, scope: Scope, skip: int = 0) -> Value:
    """The value that an assignment gives; `skip` characters of the word are its name."""
    scope.maybe.clear()
    if word.array is not None:
        fields = tuple(fields_of(word.array, scope))
        return Value(fields, True, True, tuple(dict.fromkeys(scope.maybe)))
    first = word.pieces[0]
    rest = first._replace(text=first.text[skip:], start=first.start + skip)
    pieces = ((rest,) if rest.text else ()) + word.pieces[1:]
    builder = _Builder(scope, split=False)
    for piece in pieces:
        builder.add(piece)
    start = word.start + skip
    done = builder.done(start, word.end, literal=all(piece.kind == "text" for piece in pieces))
    field = done[0] if done else Field("", start, word.end, True)
    maybe = tuple(dict.fromkeys(scope.maybe))
    wholly_unknown = len(pieces) == 1 and pieces[0].kind != "text" and field.unknown == (field.text,)
    return Value((field,), False, not wholly_unknown, maybe)


def _fields(word: ShellWord, scope: Scope) -> list[Field]:
    pieces = word.pieces
    if word.array is not None:
        return [Field(word.raw, word.start, word.end, False)]
    builder = _Builder(scope, split=True)
    for piece in pieces:
        builder.add(piece)
    if all(piece.kind == "text" for piece in pieces):
        return builder.done(word.start, word.end, literal=True)
    found = builder.done(word.start, word.end, literal=False)
    if len(pieces) == 1 and (len(found) > 1 or (found and builder.from_array)):
        return [_where_defined(field, original, word) for field, original in zip(found, builder.originals, strict=True)]
    return found


def _where_defined(field: Field, original: Field | None, word: ShellWord) -> Field:
    """Words out of one variable: each is where the variable got it."""
    if original is not None and original.text == field.text and not original.unknown:
        return original._replace(several=field.several)
    if field.runs and field.runs[0].at == 0 and field.runs[0].length == len(field.text):
        start = field.runs[0].start
        return field._replace(start=start, end=start + len(field.text))
    return field


class _Builder:
    """Puts the pieces of one word together."""

    def __init__(self, scope: Scope, split: bool) -> None:
        self.scope = scope
        self.split = split
        self.depth = 0
        self.finished: list[Field] = []
        self.originals: list[Field | None] = []
        self.original: Field | None = None
        self.from_array = False
        self._clear()

    def _clear(self) -> None:
        self.texts: list[str] = []
        self.length = 0
        self.runs: list[Run] = []
        self.unknown: list[str] = []
        self.several: list[str] = []
        self.there = False

    def add(self, piece: Piece) -> None:
        if piece.kind == "text":
            self.there = self.there or bool(piece.text or piece.quote)
            if piece.text and piece.end - piece.start == len(piece.text):
                self.runs.append(Run(self.length, piece.start, len(piece.text)))
            self._text(piece.text)
        elif piece.kind == "command":
            self._command(piece)
        else:
            self._variable(piece)

    def done(self, start: int, end: int, *, literal: bool) -> list[Field]:
        self._break()
        return [field._replace(start=start, end=end, literal=literal) for field in self.finished]

    def _text(self, text: str) -> None:
        self.texts.append(text)
        self.length += len(text)

    def _break(self) -> None:
        if self.there and len(self.finished) < MAX_FIELDS:
            text = "".join(self.texts)
            several, unknown = tuple(dict.fromkeys(self.several)), tuple(dict.fromkeys(self.unknown))
            self.finished.append(Field(text, runs=tuple(self.runs), unknown=unknown, several=several))
            self.originals.append(self.original)
        self.original = None
        self._clear()

    def _command(self, piece: Piece) -> None:
        found = _ARITHMETIC.fullmatch(piece.text)
        number = calculated(found[1], self.scope) if found else None
        self.there = True
        if number is None:
            self._unknown(piece.text)
        else:
            self._text(str(number))

    def _unknown(self, written: str) -> None:
        shown = written if len(written) <= 60 and not _BLANK.search(written) else f"{written.split()[0][:40]}…"
        self.there = True
        self.unknown.append(shown)
        self._text(shown)

    def _variable(self, piece: Piece) -> None:
        if self.scope.work < 0:
            self._unknown("…")
            return
        name, index, rest = _parts(piece.text)
        quoted = bool(piece.quote) or not self.split
        value = self.scope.find(name) if name else None
        if rest:
            value, rest = self._operation(piece, name, rest, value, quoted)
        if value is None or not value.known or rest:
            if name in ("@", "*") and value is not None:
                return
            self._unknown(piece.text if rest or not name or name == "@" else f"${name}")
            return
        fields = value.fields
        if value.array and index not in ("[@]", "[*]") and name not in ("@", "*"):
            fields = element(fields, index)
        as_many = value.array and (index == "[@]" or name == "@" or not quoted) and self.split
        if as_many:
            self.from_array = self.from_array or value.array
            self._many(fields, quoted)
        elif quoted:
            self.there = True
            for number, field in enumerate(fields):
                if number:
                    self._text(" ")
                self._whole(field)
        else:
            self._many(fields, False)

    def _whole(self, field: Field) -> None:
        self.scope.work -= 20 + len(field.text) + 10 * len(field.runs)
        if self.length + len(field.text) > MAX_TEXT or self.scope.work < 0:
            self._unknown("…")
            return
        if len(self.runs) < MAX_RUNS:
            self.runs.extend(run._replace(at=run.at + self.length) for run in field.runs)
        self.unknown.extend(field.unknown)
        self.several.extend(field.several)
        self._text(field.text)
        self.there = True

    def _many(self, fields: Sequence[Field], quoted: bool) -> None:
        first = True
        for field in fields:
            for part, is_whole in ((field, True),) if quoted else split_at_blanks(field):
                if not first:
                    self._break()
                self._whole(part)
                self.original = field if is_whole and self.from_array else None
                first = False

    def _operation(
        self, piece: Piece, name: str, rest: str, value: Value | None, quoted: bool
    ) -> tuple[Value | None, str]:
        """`${X:-word}` and its like: the value, and what could not be read of it."""
        found = re.match(r":?[-=+?]", rest)
        if found is None:
            return value, rest
        sign, start = found[0], piece.end - 1 - len(rest) + len(found[0])
        is_set = value is not None and (not value.known or bool(value.text) or sign[0] != ":" or value.array)
        if sign[-1] == "?" or (is_set and sign[-1] in "-="):
            return value, ""
        if sign[-1] == "+" and not is_set:
            return Value((Field(""),)) if quoted else Value((), True), ""
        word = self._default(piece.text[len(piece.text) - 1 - len(rest) + len(sign) : -1], start, quoted)
        if sign[-1] == "=" and name.isidentifier():
            self.scope.variables[name] = word
        return word, ""

    def _default(self, text: str, start: int, quoted: bool) -> Value:
        """A default as a value; its offsets are those of the script."""
        if self.depth >= MAX_DEPTH or len(text) > MAX_TEXT:
            return UNKNOWN
        pieces = _pieces_of(text, start, quoted)
        if pieces is None:
            return UNKNOWN
        builder = _Builder(self.scope, split=False)
        builder.depth = self.depth + 1
        for piece in pieces:
            builder.add(piece)
        fields = builder.done(start, start + len(text), literal=False)
        if len(pieces) == 1 and pieces[0].kind != "text" and fields and fields[0].unknown == (fields[0].text,):
            return UNKNOWN
        return Value((fields[0] if fields else Field(""),))


def _pieces_of(text: str, start: int, quoted: bool) -> list[Piece] | None:
    """The pieces of a text within ${...}, blanks included; None where it is no shell."""
    lexer = WordLexer(text)
    pieces = lexer.free_text(quoted)
    if lexer.fault is not None:
        return None
    return [piece._replace(start=piece.start + start, end=piece.end + start) for piece in pieces]


def _parts(written: str) -> tuple[str, str, str]:
    """Name, index and operation of a variable as it is written."""
    if not written.startswith("${"):
        return written[1:], "", ""
    found = _PARAMETER.fullmatch(written)
    if found is None:
        return "", "", written
    return found["name"], found["index"] or "", found["rest"]
