"""No two places share six lines of logic; no module is longer than 400 lines."""

from __future__ import annotations

import textwrap

import pytest
from conftest import ROOT
from house import twins

REASONS = {
    ("planner/resolve/resolution.py", "planner/resolve/resolution.py"): (
        "self.dispatch_batch,",
        "two questions about the same graphs and limits, each with one argument of its own",
    ),
}
"""Runs that may stand in two places: the two files, the first line, and why."""
MOST_LINES = 400


def _is_excused(twin: twins.Twin) -> bool:
    files = tuple(sorted(place.rpartition(":")[0] for place in (twin.one, twin.other)))
    return files in REASONS and REASONS[files][0] == twin.lines[0]


def test_nothing_stands_in_two_places() -> None:
    found = [twin for twin in twins.twins(twins.sources()) if not _is_excused(twin)]
    assert not found, "python tools/house/twins.py shows them"


def test_every_excuse_is_needed() -> None:
    found = [twin for twin in twins.twins(twins.sources()) if _is_excused(twin)]
    assert len(found) == len(REASONS)


def test_no_module_is_long() -> None:
    long = {path: size for path, text in twins.sources().items() if (size := text.count("\n")) > MOST_LINES}
    assert long == {}


BODY = """\
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
"""
OTHER_NAMES = BODY.replace("low", "left").replace("high", "right").replace("most", "limit")
OTHER_CALL = BODY.replace("holds(", "fits(")


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (f"def two(most, holds):\n{BODY}", 1),
        (f'def two(\n    most,\n    holds,\n):\n    """Says something else."""\n\n    # and more\n{BODY}', 1),
        ("class Two:\n" + textwrap.indent(f"def two(limit, holds):\n{OTHER_NAMES}", "    "), 1),
        (f"def two(most, fits):\n{OTHER_CALL}", 0),
        ("def two():\n    return 1\n", 0),
        ("LOW = [\n" + "    1,\n" * 9 + "]\n", 0),
    ],
)
def test_reader_of_twins(other: str, count: int) -> None:
    found = twins.twins({"one.py": f"def one(most, holds):\n{BODY}", "two.py": other})
    assert [len(twin.lines) for twin in found] == [8] * count


def test_a_run_of_five_lines_is_none() -> None:
    five = "".join(BODY.splitlines(keepends=True)[:3]) + "        yield middle\n        break\n"
    texts = {"one.py": f"def one():\n{five}    one(1)\n", "two.py": f"def two():\n{five}    two(2)\n"}
    assert twins.twins(texts) == []
    assert len(twins.twins(texts, 5)) == 1


@pytest.mark.parametrize(
    ("line", "worn"),
    [
        ("low = middle", "_ = _"),
        ("self.low = given.sizes.head_size", "self.low = _.sizes.head_size"),
        ("for name in names(text):", "for _ in names(_):"),
        ("return Budget(bytes=1, 'low')", "return Budget(_=1, 'low')"),
    ],
)
def test_variables_are_worn_off(line: str, worn: str) -> None:
    assert twins.worn(line) == worn


def test_names_of_test_files_are_unique() -> None:
    """pytest takes two files of one name, in folders without __init__.py, for one module, and stops."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []
