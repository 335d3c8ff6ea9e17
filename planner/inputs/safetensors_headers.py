"""The tensors of a local folder's safetensors files, read from their headers: no weight is read.

The format: 8 bytes with the length of the header, the header as a JSON object, then the data.
https://github.com/huggingface/safetensors/blob/main/README.md
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from ..errors import InputError, cannot_read, shorten
from ..weight_shape import Tensor
from .safe_json import parse_object, read_object, shown

MAX_HEADER = 64 * 2**20
"""Longest header that is read; the longest published ones are under 20 MiB."""
MAX_FILES = 2000
MAX_TENSORS = 2_000_000
INDEX = "model.safetensors.index.json"

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def read_tensors(folder: Path | str) -> tuple[Tensor, ...]:
    """Every tensor of the safetensors files in `folder`, or of the one file that it names.

    Where the folder has an index, only the files and tensors of the index count.

    Raises:
        InputError: CG910 unreadable or no such files, CG911 a file is not what its header says, CG914 a header is too
            large, or there are too many.
    """
    place = Path(folder)
    files, wanted = _files(place)
    found: list[Tensor] = []
    seen: set[str] = set()
    for file in files:
        for tensor in _of_file(file):
            if wanted is not None and tensor.name not in wanted:
                continue
            if tensor.name in seen:
                raise _bad(file, f"tensor {shorten(tensor.name)} is in two files")
            seen.add(tensor.name)
            found.append(tensor)
            if len(found) > MAX_TENSORS:
                raise _too_large(file, f"more than {MAX_TENSORS} tensors")
    if wanted is not None and len(seen) < len(wanted):
        missing = next(name for name in wanted if name not in seen)
        raise _bad(place / INDEX, f"tensor {shorten(missing)} of the index is in none of its files")
    return tuple(found)


def _files(place: Path) -> tuple[list[Path], set[str] | None]:
    """The files to read, and the tensors that count; None: all."""
    try:
        if not place.is_dir():
            _check_alone(place)
            return [place], None
        names = sorted(entry for entry in os.listdir(place) if entry.endswith(".safetensors"))
    except (OSError, ValueError) as error:
        raise _unreadable(place, error) from None
    if INDEX in _listed(place):
        return _indexed(place)
    # A second copy in one file beside the parts is Mistral's own format.
    parts = [name for name in names if not name.startswith("consolidated")] or names
    if not parts:
        raise InputError(
            f"{shown(place)} holds no safetensors files",
            code="CG910",
            where=shown(place),
            fix="give the folder of the model's weights, or --weights-bytes",
        )
    if len(parts) > MAX_FILES:
        raise _too_large(place, f"more than {MAX_FILES} files")
    _check_complete(place, parts)
    return [place / name for name in parts], None


def _check_complete(place: Path, names: Sequence[str]) -> None:
    """Refuses parts of a set that is not whole: a download that has not ended.

    Raises:
        InputError: CG910.
    """
    sets: dict[tuple[str, int], set[int]] = {}
    for name in names:
        part = _PART.fullmatch(name)
        if part is not None:
            sets.setdefault((part[1], int(part[3])), set()).add(int(part[2]))
    for (stem, count), numbers in sets.items():
        missing = next((number for number in range(1, count + 1) if number not in numbers), None)
        if missing is not None:
            raise InputError(
                f"{shown(place)} holds {len(numbers)} of {count} parts: {shorten(stem, 40)}-{missing:05}-of-{count:05}"
                ".safetensors is missing",
                code="CG910",
                where=shown(place),
                fix="give a folder with all of them, or --weights-bytes",
            )


def _check_alone(file: Path) -> None:
    part = _PART.fullmatch(file.name)
    if part is not None and int(part[3]) > 1 and file.is_file():
        raise InputError(
            f"{shown(file)} is one of {int(part[3])} parts",
            code="CG910",
            where=shown(file),
            fix="give the folder that holds all of them, or --weights-bytes",
        )


def _listed(place: Path) -> set[str]:
    return set(os.listdir(place))


def _indexed(place: Path) -> tuple[list[Path], set[str]]:
    index = place / INDEX
    table = read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise _bad(index, "weight_map is no object of file names")
    names = sorted(set(table.values()))
    if len(names) > MAX_FILES:
        raise _too_large(index, f"more than {MAX_FILES} files")
    for name in names:
        # Only files of the folder itself: an index from anywhere may name any path.
        if not name.endswith(".safetensors") or Path(name).name != name:
            raise _bad(index, f"{shorten(name)} is not the name of a safetensors file of this folder")
    return [place / name for name in names], set(table)


def _of_file(file: Path) -> Iterator[Tensor]:
    header, size = _header(file)
    for name, entry in header.items():
        if name != "__metadata__":
            yield _tensor(file, name, entry, size)


def _header(file: Path) -> tuple[dict[str, Any], int]:
    """The header, and the bytes of data after it."""
    try:
        # Not to hang on a FIFO.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _bad(file, "not a regular file", code="CG910")
            start = stream.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length < 2:
                raise _bad(file, "too short for a safetensors file")
            if length > status.st_size - 8:
                raise _bad(file, "the header is longer than the file; was it cut off, or is it a Git LFS pointer?")
            if length > MAX_HEADER:
                raise _too_large(file, f"a header of more than {MAX_HEADER >> 20} MiB")
            data = stream.read(length)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    return parse_object(data, where=shown(file)), status.st_size - 8 - length


def _tensor(file: Path, name: str, entry: Any, size: int) -> Tensor:
    """One entry of a header, checked.

    Raises:
        InputError: CG911.
    """
    if not isinstance(entry, dict):
        raise _bad(file, f"{shorten(name)} is no object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _bad(file, f"{shorten(name)}: dtype {shorten(dtype, 20)} is not known")
    if not _are_numbers(shape) or len(shape) > 16 or not _are_numbers(offsets) or len(offsets) != 2:
        raise _bad(file, f"{shorten(name)}: shape and data_offsets must be lists of numbers")
    begin, end = offsets
    if not 0 <= begin <= end <= size:
        raise _bad(file, f"{shorten(name)}: its data lies outside the file; was the file cut off?")
    elements = 1
    for number in shape:
        elements *= number
        if elements > 1 << 60:
            raise _bad(file, f"{shorten(name)}: the shape is larger than any file")
    if -(-elements * _BITS[dtype] // 8) != end - begin:
        raise _bad(file, f"{shorten(name)}: {end - begin} bytes do not fit its shape and dtype")
    return Tensor(name, dtype, tuple(shape), end - begin)


def _are_numbers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _bad(file: Path, message: str, *, code: str = "CG911") -> InputError:
    where = shown(file)
    return InputError(f"{where}: {message}", code=code, where=where, fix="give the files as published, in full")


def _too_large(file: Path, what: str) -> InputError:
    where = shown(file)
    return InputError(f"{where}: {what}", code="CG914", where=where, fix="give --weights-bytes instead")


def _unreadable(file: Path, error: Exception) -> InputError:
    return cannot_read(error, shown(file), "give a folder that can be read")
