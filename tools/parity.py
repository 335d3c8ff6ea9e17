#!/usr/bin/env python3
"""Replay golden records of vLLM through cgplan's public API and compare.

    python tools/parity.py FILE.jsonl[.gz] ...

Prints `FILE: matched/total`, then each mismatch with the first field that differs. Exit status 0 only when every
record of every file matches; 2 when a file cannot be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from parity_args import compare_arguments, is_argument_record
from parity_config import compare_configuration
from parity_kv import compare_kv, is_kv_record


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file, gzip or plain."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def compare(record: dict[str, Any]) -> str | None:
    """The first difference between cgplan's answer and the record's, or None. Record kinds go by their fields."""
    if {"args", "device"} <= record["input"].keys():
        return compare_configuration(record)
    if is_argument_record(record):
        return compare_arguments(record)
    if is_kv_record(record):
        return compare_kv(record)
    raise ValueError(f"records with {', '.join(sorted(record['input']))[:80]} are of no known kind")


def replay(path: Path, limit: int) -> bool:
    """Replay one file and print the outcome; whether everything matched."""
    total = matched = 0
    mismatches: list[str] = []
    for record in records(path):
        total += 1
        difference = compare(record)
        if difference is None:
            matched += 1
        else:
            mismatches.append(f"  {record.get('id', total)}: {difference}")
    print(f"{path}: {matched}/{total}")
    print("\n".join(mismatches[:limit]), end="\n" if mismatches else "")
    if len(mismatches) > limit:
        print(f"  ... and {len(mismatches) - limit} more")
    return not mismatches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--limit", type=int, default=10**9, help="print at most this many mismatches a file")
    options = parser.parse_args()
    try:
        outcomes = [replay(path, options.limit) for path in options.files]
    except (OSError, EOFError, ValueError, KeyError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
