"""Golden records on disk: one JSON document a line, plain or compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read(path: Path) -> Iterator[Record]:
    """The records of a file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def write(path: Path, records: Iterable[Record]) -> int:
    """Write records; how many. The same records always give the same bytes, so that a diff means a change."""
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in records]
    data = "".join(lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
    return len(lines)


def family(record: Record) -> str:
    """What the record is about: the words of its id before the number."""
    return "-".join(word for word in str(record["id"]).split("-") if not word.isdigit())


def harness_error(record: Record) -> str | None:
    """The text of an error that is the oracle's own, not vLLM's."""
    output = record["output"]
    answers = [output, *output.get("resolve", {}).values()]
    for answer in answers:
        error = answer.get("error")
        if error is not None and error["stage"] == "harness":
            return f"{error['type']}: {error['message']}"
    return None


def by_capability(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by the compute capability of their GPU, "9.0", in an order that changes the process's state least."""
    found: dict[str, list[Record]] = {}
    for record in records:
        major, minor = record["input"]["device"]["capability"]
        found.setdefault(f"{major}.{minor}", []).append(record)
    for group in found.values():
        group.sort(key=_state)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _state(record: Record) -> str:
    asked = record["input"]
    version = ((asked.get("args") or {}).get("attention_config") or {}).get("flash_attn_version")
    return json.dumps([version, asked.get("env") or {}, asked["device"]], sort_keys=True)
