"""Coverage bars."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgplan import CUDAGraphMode, Deployment, resolve
from cgplan.report.bars import Stretch, scale, segments, stretches

MODES = [CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE]


def test_the_default_decode_bar() -> None:
    parts = stretches(resolve(Deployment(max_num_seqs=1024)).uniform_decode_coverage())
    assert [str(part) for part in parts] == ["FULL 1–512", "eager 513–1024"]
    bar = "".join(segment.text for segment in segments(parts, 79))
    assert len(bar) == 79
    assert " FULL " in bar
    assert bar.endswith("░")
    numbers = scale(parts, 79).split()
    assert numbers[0] == "1"
    assert {"512", "1024"} <= set(numbers)


@st.composite
def _parts(draw: st.DrawFn) -> list[Stretch]:
    ends = sorted(draw(st.sets(st.integers(1, 100_000), min_size=1, max_size=6)))
    starts = [1, *(end + 1 for end in ends[:-1])]
    return [Stretch(a, b, MODES[i % 3]) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]


@given(_parts(), st.integers(20, 119))
def test_every_stretch_shows_and_the_width_holds(parts: list[Stretch], width: int) -> None:
    found = segments(parts, width)
    assert sum(len(segment.text) for segment in found) == width
    assert all(segment.text for segment in found)
    line = scale(parts, width)
    assert len(line) <= width
    known = {1, *(p.last for p in parts), *(2**n for n in range(18))}
    assert {int(word) for word in line.split()} <= known
