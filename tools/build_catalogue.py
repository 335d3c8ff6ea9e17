"""Makes planner/releases/models.json.gz out of a folder of published config.json files.

    python tools/build_catalogue.py FOLDER [OUTPUT]

FOLDER holds one folder ORG__NAME a model with its config.json, and an INDEX.md whose table has a row a model with
these columns: id, architecture, params, weights, dtype, attention, KV bytes a token, source, confidence. The output is
the same bytes for the same input.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

COLUMNS = ("id", "architecture", "params", "weights", "dtype", "attention", "kv_bytes", "source", "confidence")
KEPT = ("params", "weights", "dtype", "attention", "confidence", "source")
DEFAULT_OUTPUT = Path(__file__).parent.parent / "planner" / "releases" / "models.json.gz"


def table_rows(index: str) -> dict[str, dict[str, str]]:
    """The rows of INDEX.md's model table by id."""
    rows = {}
    for line in index.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(COLUMNS) and "/" in cells[0]:
            rows[cells[0]] = dict(zip(COLUMNS, cells, strict=True))
    return rows


def build(folder: Path) -> bytes:
    rows = table_rows((folder / "INDEX.md").read_text(encoding="utf-8"))
    models = {}
    for path in sorted(folder.glob("*/config.json"), key=lambda p: p.parent.name.casefold()):
        model_id = path.parent.name.replace("__", "/", 1)
        row = rows.get(model_id, {})
        if not row:
            print(f"{model_id}: no row in INDEX.md", file=sys.stderr)
        config = json.loads(path.read_text(encoding="utf-8"))
        models[model_id] = {key: row.get(key, "") for key in KEPT} | {"config": config}
    document = json.dumps({"format": 1, "models": models}, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(document.encode("utf-8"), compresslevel=9, mtime=0)


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    output = Path(sys.argv[2]) if len(sys.argv) == 3 else DEFAULT_OUTPUT
    packed = build(Path(sys.argv[1]))
    output.write_bytes(packed)
    print(f"{output}: {len(packed)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
