"""Screens of the tour: run each command of screens.toml, draw what it prints, and put it into the README.

python tools/screens            writes docs/screens/*.svg and README's blocks
python tools/screens --check    exit status 1 where they are not what the commands print now
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draw import as_svg
from pages import with_blocks
from run import Screen, load, printed

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FOLDER = ROOT / "docs" / "screens"


def files() -> dict[Path, str]:
    """Everything that is generated, by path."""
    screens: dict[str, tuple[Screen, str]] = {}
    found: dict[Path, str] = {}
    for screen in load():
        text = printed(screen)
        screens[screen.name] = (screen, text)
        found[FOLDER / f"{screen.name}.svg"] = as_svg(text, screen.line, screen.name)
    found[README] = with_blocks(README.read_text(), screens)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something has drifted")
    check = parser.parse_args().check
    made = files()
    drifted = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    unknown = [path for path in FOLDER.glob("*.svg") if path not in made]
    for path in drifted:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path])
        print(f"{'drifted' if check else 'written'}: {path.relative_to(ROOT)}")
    for path in unknown:
        print(f"of no screen: {path.relative_to(ROOT)}")
    if check and (drifted or unknown):
        print("run: python tools/screens")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
