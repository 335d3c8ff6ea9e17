from __future__ import annotations

import gzip
import io
import sys
import tracemalloc
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgplan.errors import InputError
from cgplan.inputs.vllm_logs import read_log, streams
from cgplan.inputs.vllm_logs.lines import LIMIT
from cgplan.inputs.vllm_logs.zstd_frames import Frames
from cgplan.startup.record import StartupLog

from . import written
from .written import GIB, bar, line

TEXT = "\n".join(written.v2_start()) + "\n"
MIB = 2**20


def tokens(log: StartupLog) -> int | None:
    (start,) = log.starts
    return start.kv_tokens


class Endless(io.RawIOBase):
    """So many bytes of a pattern, made when they are read."""

    def __init__(self, pattern: bytes, size: int, end: bytes = b"") -> None:
        self.block = pattern * max(1, 2**18 // len(pattern))
        self.left, self.end = size, end

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        if self.left > 0:
            self.left -= len(self.block)
            return self.block
        end, self.end = self.end, b""
        return end


@pytest.mark.parametrize("name", ["server.log", "server.txt.gz", "-"])
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_packing_is_known_by_its_bytes(
    name: str, packed: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = packed(TEXT.encode())
    if name == "-":
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))
        assert tokens(read_log("-")) == 413696
    else:
        (tmp_path / name).write_bytes(data)
        assert tokens(read_log(tmp_path / name)) == 413696
        assert tokens(read_log(str(tmp_path / name))) == 413696


def test_an_open_stream_of_text() -> None:
    assert tokens(read_log(io.StringIO(TEXT))) == 413696


def test_gzip_of_several_members() -> None:
    half = len(TEXT) // 2
    data = gzip.compress(TEXT[:half].encode()) + gzip.compress(TEXT[half:].encode()) + b"\0" * 100
    log = read_log(io.BytesIO(data))
    assert tokens(log) == 413696
    assert log.remarks == ()


def test_gzip_that_ends_early_gives_what_it_holds() -> None:
    plain = (line("Available KV cache memory: 1.0 GiB") + "\n").encode() * 2000
    log = read_log(io.BytesIO(gzip.compress(plain)[:-20]))
    assert log.starts[0].ranks[0].kv_bytes == GIB
    assert log.remarks == ("the gzip data ends early; the log was read up to there",)


def test_damaged_gzip_gives_what_came_before() -> None:
    first = zlib.compressobj(wbits=31)
    data = first.compress((line("Available KV cache memory: 1.0 GiB") + "\n").encode()) + first.flush(zlib.Z_FULL_FLUSH)
    log = read_log(io.BytesIO(data + b"\xff" * 1000))
    assert log.starts[0].ranks[0].kv_bytes == GIB
    assert log.remarks == ("the gzip data is damaged; the log was read up to there",)


def test_a_bomb_is_only_a_long_line() -> None:
    bomb = gzip.compress(b"x" * (64 * MIB))
    tracemalloc.start()
    log = read_log(io.BytesIO(bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (log.starts, log.lines) == ((), 1)
    assert peak < 8 * MIB


def zstd_of() -> types.SimpleNamespace:
    """A stand-in for the package. Its frames are of raw blocks, which hold plain bytes."""

    class Reader:
        def __init__(self, source: io.RawIOBase) -> None:
            whole, plain, at = source.read(), b"", 6
            while at + 3 <= len(whole):
                header = int.from_bytes(whole[at : at + 3], "little")
                plain, at = plain + whole[at + 3 : at + 3 + (header >> 3)], at + 3 + (header >> 3)
            self.plain = io.BytesIO(plain)

        def read(self, size: int) -> bytes:
            piece = self.plain.read(size)
            if piece.endswith(b"DAMAGED"):
                raise ArithmeticError
            return piece

    class Decompressor:
        def __init__(self, max_window_size: int) -> None:
            assert max_window_size == streams.MAX_WINDOW

        def stream_reader(self, source: io.RawIOBase, read_size: int, read_across_frames: bool) -> Reader:
            assert read_across_frames
            return Reader(source)

    return types.SimpleNamespace(ZstdDecompressor=Decompressor, ZstdError=ArithmeticError)


def frame(plain: bytes) -> bytes:
    """A frame of zstd in which nothing is packed: magic, descriptor, window, raw blocks."""
    cut = [plain[at : at + 100_000] for at in range(0, len(plain), 100_000)]
    blocks = [
        ((len(piece) << 3) | (index == len(cut) - 1)).to_bytes(3, "little") + piece for index, piece in enumerate(cut)
    ]
    return streams.ZSTD + b"\0\x50" + b"".join(blocks)


@pytest.fixture
def no_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression", "compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_zstd")
def test_zstd_with_nothing_to_unpack_it() -> None:
    with pytest.raises(InputError, match="zstd") as caught:
        read_log(io.BytesIO(streams.ZSTD + b"rest"))
    assert caught.value.code == "CG988"
    assert "pip install zstandard" in (caught.value.fix or "")


@pytest.mark.usefixtures("no_zstd")
def test_zstd_by_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", zstd_of())
    whole = frame(TEXT.encode())
    log = read_log(io.BytesIO(whole))
    assert (tokens(log), log.remarks) == (413696, ())
    for damaged in (whole[:-100], frame(b"x" * streams.CHUNK + b"DAMAGED")):
        assert read_log(io.BytesIO(damaged)).remarks == (streams.ZSTD_ENDS,)


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("between", [b"", b"\x50\x2a\x4d\x18\x03\0\0\0abc"], ids=["", "a skippable frame"])
def test_frames_end_where_they_say(size: int, between: bytes) -> None:
    whole = frame(b"one" * 1000) + between + frame(b"two")
    ends = {len(frame(b"one" * 1000)), len(frame(b"one" * 1000) + between), len(whole)}
    for end in (*range(4, 30), *ends, len(whole) - 1):
        frames = Frames()
        for piece in pieces(whole[:end], size):
            frames.feed(piece)
        assert frames.is_complete == (end in ends)


@pytest.mark.parametrize("data", [b"BZh91AY", b"\xfd7zXZ\x00\x00", b"PK\x03\x04zip"])
def test_other_packings_are_named(data: bytes) -> None:
    with pytest.raises(InputError, match="is packed with") as caught:
        read_log(io.BytesIO(data + b"rest of it"))
    assert caught.value.code == "CG987"


@pytest.mark.parametrize("path", ["nowhere.log", ".", "/dev/zero", "a\0b"])
def test_what_cannot_be_read_is_one_clear_line(path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_log(path)
    assert caught.value.code == "CG986"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-be"])
def test_encodings_by_their_mark(encoding: str) -> None:
    data = TEXT.encode(encoding)
    assert tokens(read_log(io.BytesIO(b"\xfe\xff" + data if encoding == "utf-16-be" else data))) == 413696


def test_bytes_that_are_no_utf8_are_replaced_and_said() -> None:
    data = b"\xff\xfe WARNING 09-30 12:00:00 [x.py:1] \xe9t\xe9\n" + TEXT.encode()
    log = read_log(io.BytesIO(b"\n" + data))
    assert tokens(log) == 413696
    assert log.remarks == ("1 lines are not UTF-8; what could not be decoded was replaced",)


@pytest.mark.parametrize("data", [b"\x7fELF\0\0" * 1000, bytes(range(256)) * 100])
def test_binary_data_is_no_log(data: bytes) -> None:
    with pytest.raises(InputError, match="binary data") as caught:
        read_log(io.BytesIO(data))
    assert caught.value.code == "CG987"


def test_zero_bytes_between_lines_are_said() -> None:
    log = read_log(io.BytesIO(TEXT.encode() + b"\0" * 50 + b"\n"))
    assert tokens(log) == 413696
    assert log.remarks == ("50 NUL bytes: parts of the log are binary",)


@pytest.mark.parametrize("pattern", [b"GiB x", b"\r", b"(((((", b'{"log":"', b"2026-09-30T12:00:00Z stderr P x\n"])
def test_a_log_without_end_takes_no_more_memory_than_a_short_one(pattern: bytes) -> None:
    tracemalloc.start()
    read_log(Endless(pattern, 8 * MIB, b"\n" + TEXT.encode()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * LIMIT


def test_what_comes_after_a_line_too_long_is_read() -> None:
    log = read_log(Endless(b"GiB x", 4 * MIB, b"\n" + TEXT.encode()))
    assert tokens(log) == 413696
    assert log.remarks == (f"1 lines are longer than {LIMIT} bytes; the rest of them was skipped",)


def test_a_bar_without_end_keeps_its_last_state() -> None:
    states = b"".join(b"\r" + bar("CUDA graphs (FULL)", done, 51).encode() for done in range(52))
    log = read_log(Endless(states, 3 * MIB))
    assert [(item.graphs, item.total) for item in log.starts[0].captured] == [(51, 51)]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_where_pieces_are_cut_does_not_count(size: int, packed: Callable[[bytes], bytes]) -> None:
    made = pieces(packed(TEXT.encode()), size)
    stream = types.SimpleNamespace(read=lambda _: next(made, b""))
    assert read_log(stream) == read_log(io.BytesIO(TEXT.encode()))  # type: ignore[arg-type]
