"""The processor time and memory that a test takes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

SECONDS = 2.0
"""Of the processor, for what takes some tenths of one."""


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"


class Watch:
    """Fails where more time of the processor is taken than SECONDS."""

    def __enter__(self) -> None:
        self.start = time.process_time()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            assert time.process_time() - self.start < SECONDS


def written(path: Path, data: bytes) -> threading.Thread:
    writer = threading.Thread(target=lambda: path.write_bytes(data), daemon=True)
    writer.start()
    return writer
