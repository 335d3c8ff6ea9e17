"""Writes the pages of docs/ that are made from the source: rules.md, topics.md, and the drawing in architecture.md.

python tools/build_docs.py            write them
python tools/build_docs.py --check    exit 1 where a page is not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from house import rooms

from cgplan.report import registry, topics

DOCS = Path(__file__).parent.parent / "docs"


def pages() -> dict[Path, str]:
    """What each page should hold."""
    return {
        DOCS / "rules.md": registry.pages(registry.select()),
        DOCS / "topics.md": topics.page(),
        rooms.PAGE: rooms.page(),
    }


def main(argv: list[str]) -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if argv == ["--check"]:
        for path in stale:
            print(f"{path.name} is not up to date: run python tools/build_docs.py", file=sys.stderr)
        return int(bool(stale))
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
