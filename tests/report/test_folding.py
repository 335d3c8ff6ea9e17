"""Many sizes in few words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, resolve
from cgplan.report.folding import fold


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 2, 4], "1 2 4"),
        ([1, 2, 3, 4], "1–4"),
        ([1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)], "1 2 4, 8–248 by 8, 256–512 by 16"),
        ([1, 2, 4, 8, 16, 24, 32, 33], "1 2 4, 8–32 by 8, 33"),
        ([5, 10, 15, 20, 100], "5–20 by 5, 100"),
    ],
)
def test_examples(sizes: list[int], expected: str) -> None:
    assert fold(sizes) == expected


def test_the_default_grid() -> None:
    assert fold(resolve(Deployment()).capture_sizes) == "1 2 4, 8–248 by 8, 256–512 by 16"


@given(st.sets(st.integers(1, 200), max_size=60))
def test_nothing_is_lost(sizes: set[int]) -> None:
    assert unfold(fold(sorted(sizes))) == sorted(sizes)


def unfold(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(", ")):
        run = re.fullmatch(r"(\d+)–(\d+)(?: by (\d+))?", part)
        if run:
            found += range(int(run[1]), int(run[2]) + 1, int(run[3] or 1))
        else:
            found += [int(word) for word in part.split()]
    return found
