"""Makes planner/releases/models.json.gz out of a folder of published config.json files.

    python tools/build_catalogue.py [--keep] FOLDER [OUTPUT]

FOLDER holds one folder ORG__NAME a model with its config.json, and an INDEX.md whose table has a row a model with
these columns: id, architecture, params, weights, dtype, attention, KV bytes a token, source, confidence. Notes that
only whoever gathered the files can follow are put into words; `params` becomes a number, or null. The output is the
same bytes for the same input. With --keep the models that OUTPUT has and FOLDER has not stay, so that FOLDER may hold
just those that are new.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

COLUMNS = ("id", "architecture", "params", "weights", "dtype", "attention", "kv_bytes", "source", "confidence")
KEPT = ("params", "weights", "dtype", "attention", "confidence", "source")
DEFAULT_OUTPUT = Path(__file__).parent.parent / "planner" / "releases" / "models.json.gz"

REWORDED = (
    (r"\w+_\w+ ids? \d+ \(([^()]*)\), \d+ and \d+ \(([^()]*)\)", r"public source files (\1; \2)"),
    (r"\w+_\w+ id \d+ \(", "a public source file ("),
    (r"\+ id \d+ \(", "+ another public source file ("),
    (r" \(id \d+\)", ""),
    (r"\bid \d+ gives", "a public test fixture gives"),
    (r" \(csv spells the org [^)]*\)", ""),
    (r"\bthe csv log\b|\bthe csv\b", "a log of the model running"),
    (r"\bcsv: vLLM picked\b", "in a log of it vLLM picked"),
    (r"\(csv arch (\w+),", r"(as \1,"),
    (r"; csv arch \w+", ""),
    (r"planner fixture", "test fixture"),
    (r" {2,}", " "),
)
"""What stands in the notes, and what is written instead."""

LEAKS = re.compile(r"\bids? \d{4,}|\bcsv\b")
"""Marks of a note that nobody else can follow."""


def table_rows(index: str) -> dict[str, dict[str, str]]:
    """The rows of INDEX.md's model table by id."""
    rows = {}
    for line in index.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(COLUMNS) and "/" in cells[0]:
            rows[cells[0]] = dict(zip(COLUMNS, cells, strict=True))
    return rows


def note(text: str) -> str:
    """A note as others can read it.

    Raises:
        ValueError: it still says what nobody else can follow.
    """
    for pattern, instead in REWORDED:
        text = re.sub(pattern, instead, text)
    if LEAKS.search(text):
        raise ValueError(f"no wording for the note: {text}")
    return text


def number_of(text: str) -> int | None:
    """The number that `text` begins with; None where it begins with none."""
    found = re.match(r"\d+(,\d{3})*(?![\d.,])", text)
    return int(found[0].replace(",", "")) if found else None


def published(row: dict[str, str]) -> dict[str, str | int | None]:
    """The row as the catalogue keeps it."""
    kept: dict[str, str | int | None] = {key: note(row.get(key, "")) for key in KEPT}
    weights = re.sub(r"([\d.]+) loaded", r"\1 GiB loaded", row.get("weights", ""))
    return kept | {"params": number_of(row.get("params", "")), "weights": weights}


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def build(folder: Path, kept: dict[str, object] | None = None) -> bytes:
    """The catalogue of the models of `folder`, and of those of `kept` that it does not have; packed."""
    rows = table_rows((folder / "INDEX.md").read_text(encoding="utf-8"))
    models = dict(kept or {})
    for path in sorted(folder.glob("*/config.json"), key=lambda p: p.parent.name.casefold()):
        model_id = path.parent.name.replace("__", "/", 1)
        row = rows.get(model_id, {})
        if not row:
            print(f"{model_id}: no row in INDEX.md", file=sys.stderr)
        config = json.loads(path.read_text(encoding="utf-8"))
        models[model_id] = published(row) | {"config": compact(config)}
    models = {model_id: models[model_id] for model_id in sorted(models, key=_place)}
    return gzip.compress(compact({"format": 3, "models": models}).encode("utf-8"), compresslevel=9, mtime=0)


def _place(model_id: str) -> str:
    """Models stand in the order of their folders."""
    return model_id.replace("/", "__", 1).casefold()


def main() -> int:
    arguments = [text for text in sys.argv[1:] if text != "--keep"]
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    output = Path(arguments[1]) if len(arguments) == 2 else DEFAULT_OUTPUT
    kept = None
    if "--keep" in sys.argv[1:] and output.exists():
        kept = json.loads(gzip.decompress(output.read_bytes()))["models"]
    packed = build(Path(arguments[0]), kept)
    output.write_bytes(packed)
    print(f"{output}: {len(packed)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
