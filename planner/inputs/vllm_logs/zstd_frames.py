"""Whether zstd data ends where a frame ends. The package that unpacks it takes a cut stream for a short one."""

from __future__ import annotations

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_DICTIONARY = (0, 1, 2, 4)
_CONTENT = (0, 2, 4, 8)
_RUN = 1
"""Type of a block that is one byte, however long it becomes."""


class Frames:
    """Walks over frames and blocks by their headers (RFC 8878); contents are passed over."""

    def __init__(self) -> None:
        self._wanted = "magic"
        self._held = b""
        self._skip = 0
        self._has_checksum = False

    @property
    def is_complete(self) -> bool:
        return self._wanted == "magic" and not self._held and self._skip == 0

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip, at = self._skip - step, at + step
                continue
            size = {"magic": 4, "descriptor": 1, "block": 3, "length": 4}.get(self._wanted)
            if size is None:
                return  # No frame: what follows is not looked at.
            step = min(size - len(self._held), len(data) - at)
            self._held, at = self._held + data[at : at + step], at + step
            if len(self._held) == size:
                value, self._held = int.from_bytes(self._held, "little"), b""
                self._take(value)

    def _take(self, value: int) -> None:
        if self._wanted == "magic":
            skippable = value & ~0xF == _SKIPPABLE
            self._wanted = "descriptor" if value == _MAGIC else "length" if skippable else "nothing"
        elif self._wanted == "length":
            self._skip, self._wanted = value, "magic"
        elif self._wanted == "descriptor":
            is_single = bool(value >> 5 & 1)
            self._has_checksum = bool(value >> 2 & 1)
            content = _CONTENT[value >> 6] or int(is_single)
            self._skip, self._wanted = int(not is_single) + _DICTIONARY[value & 3] + content, "block"
        else:
            self._skip = 1 if value >> 1 & 3 == _RUN else value >> 3
            if value & 1:
                self._skip += 4 * self._has_checksum
                self._wanted = "magic"
