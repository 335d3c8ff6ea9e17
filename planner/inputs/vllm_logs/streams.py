"""From a file or standard input to bytes of UTF-8 text: unpacked and decoded as they come, never whole in memory."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import os
import shlex
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import InputError, cannot_read, shorten
from ..safe_json import shown
from .zstd_frames import Frames

CHUNK = 2**18
"""Bytes read, and unpacked, at a time."""

MAX_WINDOW = 2**27
"""Largest window of a zstd frame that is unpacked, bytes; `zstd --ultra -22` uses as much."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_ENDS = "the zstd data is damaged or ends early; the log was read up to there"
OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

Source = str | os.PathLike[str] | IO[bytes] | IO[str]


def chunks(source: Source, remarks: list[str]) -> Iterator[bytes]:
    """The text of `source` as UTF-8, in pieces. Compression and UTF-16 are known by their first bytes, not by a name.

    Args:
        source: a path, "-" for standard input, or an open stream.
        remarks: what could not be read is appended here, in words.

    Raises:
        InputError: CG986 cannot be read, CG987 of a compression that is not unpacked, CG988 zstd without a reader.
    """
    with _opened(source) as (stream, name):
        pieces = _read(stream, name)
        head = _head(pieces)
        pieces = _then(head, pieces)
        if head.startswith(GZIP):
            pieces = _gunzipped(pieces, remarks)
        elif head.startswith(ZSTD):
            pieces = _unzstd(pieces, remarks, name)
        else:
            for magic, kind in OTHERS.items():
                if head.startswith(magic):
                    raise InputError(
                        f"{name} is packed with {kind}", code="CG987", where=name, fix="unpack it, or pack it with gzip"
                    )
        yield from _gathered(_as_utf8(pieces))


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[tuple[IO[Any], str]]:
    if isinstance(source, str) and source == "-":
        yield sys.stdin.buffer, "stdin"
        return
    if not isinstance(source, (str, os.PathLike)):
        yield source, str(getattr(source, "name", "the log"))
        return
    path, name = Path(source), shown(Path(source))
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(f"{name} is a directory", code="CG986", where=name, fix="give a log file, or -")
        if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and str(path) != "/dev/stdin"):
            raise InputError(f"{name} is a device", code="CG986", where=name, fix="give a log file, or -")
        stream = path.open("rb", buffering=0)
    except (OSError, ValueError) as error:
        fix = "give a log file, or -"
        if len(name.split()) > 1:
            asked = shlex.quote(shorten(name, 80))
            fix += f", or words of an error that are known; else: cgplan explain {asked}; a serve line: cgplan check"
        raise cannot_read(error, name, fix, code="CG986") from None
    with stream:
        yield stream, name


def _read(stream: IO[Any], name: str) -> Iterator[bytes]:
    try:
        while piece := stream.read(CHUNK):
            yield piece.encode("utf-8", "replace") if isinstance(piece, str) else bytes(piece)
    except OSError as error:
        raise cannot_read(
            error, name, "give a log file, or -, or the words of an error in quotes", code="CG986"
        ) from None


def _head(pieces: Iterator[bytes]) -> bytes:
    """At least the first bytes that tell what a stream is."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= 8:
            break
    return head


def _then(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from pieces


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces together, so that a long line is not copied for each of them."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK // 2:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _gunzipped(pieces: Iterator[bytes], remarks: list[str]) -> Iterator[bytes]:
    """Members one after another, each unpacked a chunk at a time, so that a bomb is only a long log."""
    member = zlib.decompressobj(wbits=31)
    started = False
    for piece in pieces:
        data = piece
        while data:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            started = True
            before = member.copy()
            try:
                plain = member.decompress(data, CHUNK)
            except zlib.error:
                yield from _up_to_damage(before, data)
                remarks.append("the gzip data is damaged; the log was read up to there")
                return
            if plain:
                yield plain
            data = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof and data and not data.startswith(GZIP[: len(data)]):
                # Zeros and the like that some writers put behind the last member.
                return
    if started and not member.eof:
        remarks.append("the gzip data ends early; the log was read up to there")


def _up_to_damage(member: Any, data: bytes) -> Iterator[bytes]:
    """What a piece holds before its first damaged byte."""
    for at in range(len(data)):
        try:
            plain = member.decompress(data[at : at + 1])
        except zlib.error:
            return
        if plain:
            yield plain


def _unzstd(pieces: Iterator[bytes], remarks: list[str], name: str) -> Iterator[bytes]:
    with contextlib.suppress(ImportError):
        yield from _frames(importlib.import_module("compression.zstd"), pieces, remarks)
        return
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        raise InputError(
            f"{name} is packed with zstd, and nothing here unpacks it",
            code="CG988",
            where=name,
            fix="pip install zstandard, or unpack it: zstd -dc FILE | cgplan logs -",
        ) from None
    frames = Frames()
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(
        _Pieces(_seen(pieces, frames)), read_size=CHUNK, read_across_frames=True
    )
    yield from _until_damaged(lambda: reader.read(CHUNK), zstandard.ZstdError, remarks)
    if not remarks and not frames.is_complete:
        remarks.append(ZSTD_ENDS)


def _seen(pieces: Iterator[bytes], frames: Frames) -> Iterator[bytes]:
    for piece in pieces:
        frames.feed(piece)
        yield piece


def _frames(zstd: Any, pieces: Iterator[bytes], remarks: list[str]) -> Iterator[bytes]:
    """zstd of Python's own library, from 3.14."""
    reader = zstd.ZstdFile(_Pieces(pieces), "rb")
    yield from _until_damaged(lambda: reader.read(CHUNK), (zstd.ZstdError, EOFError), remarks)


def _until_damaged(read: Callable[[], bytes], errors: Any, remarks: list[str]) -> Iterator[bytes]:
    while True:
        try:
            plain = read()
        except errors:
            remarks.append(ZSTD_ENDS)
            return
        if not plain:
            return
        yield plain


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a stream that can only be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 with its byte order mark as UTF-8; everything else as it is, less the mark of UTF-8."""
    head = _head(pieces)
    for mark, encoding in UTF16.items():
        if head.startswith(mark):
            decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
            for piece in _then(head[len(mark) :], pieces):
                yield decoder.decode(piece).encode("utf-8", "replace")
            yield decoder.decode(b"", final=True).encode("utf-8", "replace")
            return
    yield from _then(head.removeprefix(codecs.BOM_UTF8), pieces)


def name_of(source: Source) -> str:
    """What a source is called where an error names it."""
    if source == "-":
        return "stdin"
    # A stream without a name is not shown by its address in memory, which differs each time.
    return str(source if isinstance(source, (str, Path)) else getattr(source, "name", "the log"))
