#!/usr/bin/env python3
"""Build planner/releases/env_variables.json.gz: the environment variables of vLLM by release, and how each is read.

    python tools/build_env_variables.py --sources DIR

DIR holds the unpacked sources of the releases, vllm-RELEASE/. vllm/envs.py imports the standard library alone; it is
run by itself, and each of its readers is asked what it makes of a few values. Names that other files read are searched
for in the text.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cgplan.releases import SUPPORTED

OUT = Path(__file__).parent.parent / "planner" / "releases" / "env_variables.json.gz"
PROBES = ("0", "1", "2", "true", "True", "TRUE", "false", "False", "FALSE", "yes", "no", "on", "off", "")
READ_ELSEWHERE = re.compile(
    r"(?:getenv|environ(?:\.get|\.pop|\.setdefault)?|env::var(?:_os)?|env!)\s*[(\[]\s*\"(VLLM_[A-Z0-9_]+)\""
)
ELSEWHERE = ("vllm/**/*.py", "csrc/**/*.c*", "csrc/**/*.h*", "rust/**/*.rs", "setup.py", "cmake/**/*.cmake")
IN_CMAKE = re.compile(r"ENV\{(VLLM_[A-Z0-9_]+)\}")
FAILS = object()


def readers_of(source: Path) -> dict[str, Callable[[], Any]]:
    """The readers of one release's envs.py, by variable."""
    path = source / "vllm" / "envs.py"
    names: dict[str, Any] = {"__name__": "envs"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    found: dict[str, Callable[[], Any]] = names["environment_variables"]
    return found


def probed(name: str, reader: Callable[[], Any], value: str) -> Any:
    """What the reader makes of a value; FAILS where it raises a ValueError."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        return reader()
    except ValueError:
        return FAILS
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("urllib3"):  # VLLM_PORT looks at a value that is no number
            return FAILS
        raise
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def choices_of(reader: Any) -> list[str] | None:
    """The values that a reader checks against, where it does."""
    names = getattr(getattr(reader, "__code__", None), "co_freevars", ())
    if "choices" not in names:
        return None
    cells = dict(zip(names, (cell.cell_contents for cell in reader.__closure__), strict=True))
    choices = cells["choices"]
    try:
        return sorted(choices() if callable(choices) else choices)
    except ImportError:
        return None


def row_of(name: str, reader: Callable[[], Any]) -> dict[str, Any]:
    """How a variable is read: `kind` is bool, int, float, choice or text."""
    try:
        results = {value: probed(name, reader, value) for value in PROBES}
    except Exception:  # a reader that imports the rest of vLLM, or wants a file
        return {"kind": "text"}
    choices = choices_of(reader)
    if choices is not None:
        many = results["1"] is FAILS and results[""] is not FAILS
        folds = all(probed(name, reader, choice.swapcase()) is not FAILS for choice in choices)
        return {"kind": "choice", "choices": choices, "many": many, "folds": folds}
    kinds = {type(result) for result in results.values() if result is not FAILS and result is not None}
    on = [value for value in PROBES if results[value] is True]
    if kinds == {bool} and on:
        row: dict[str, Any] = {"kind": "bool", "on": on}
        fails = [value for value in PROBES if results[value] is FAILS]
        return {**row, "fails": fails, "number": probed(name, reader, "abc") is FAILS} if fails else row
    if kinds in ({int}, {float}) and results["true"] is FAILS:
        return {"kind": kinds.pop().__name__, "empty": results[""] is not FAILS}
    return {"kind": "text"}


def read_elsewhere(source: Path) -> list[str]:
    """Names that other files of the release read from the environment."""
    found: set[str] = set()
    for pattern in ELSEWHERE:
        for path in source.glob(pattern):
            text = path.read_text(encoding="utf-8", errors="replace")
            found.update(READ_ELSEWHERE.findall(text), IN_CMAKE.findall(text))
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    folder = parser.parse_args().sources
    logging.disable()
    warnings.simplefilter("ignore")  # of variables that are deprecated
    rows: dict[str, int] = {}
    releases: dict[str, dict[str, Any]] = {}
    for release in SUPPORTED:
        source = folder / f"vllm-{release}"
        readers = readers_of(source)
        known = {}
        for name, reader in sorted(readers.items()):
            text = json.dumps(row_of(name, reader), separators=(",", ":"))
            known[name] = rows.setdefault(text, len(rows))
        elsewhere = [name for name in read_elsewhere(source) if name not in readers]
        releases[release] = {"known": known, "elsewhere": elsewhere}
    data = {"rows": [json.loads(text) for text in rows], "releases": releases}
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    OUT.write_bytes(packed)
    print(f"{OUT.name}: {len(packed)} bytes, {len(rows)} ways of reading")


if __name__ == "__main__":
    main()
