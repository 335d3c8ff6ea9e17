"""Many sizes in few words: 1 2 4, 8–248 by 8, 256–512 by 16."""

from __future__ import annotations

from collections.abc import Sequence

SHORTEST_RUN = 4


def fold(sizes: Sequence[int]) -> str:
    """Ascending `sizes` with each long run of equal steps written as a range."""
    runs = _runs(sizes)
    words: list[str] = []
    singles: list[str] = []
    for run in runs:
        if len(run) < SHORTEST_RUN:
            singles += [str(size) for size in run]
            continue
        if singles:
            words.append(" ".join(singles))
            singles = []
        step = run[1] - run[0]
        words.append(f"{run[0]}–{run[-1]}" + (f" by {step}" if step > 1 else ""))
    if singles:
        words.append(" ".join(singles))
    return ", ".join(words)


def _runs(sizes: Sequence[int]) -> list[list[int]]:
    """Cut where the step changes; the size between two long runs goes to the coarser one, as vLLM writes its grid."""
    runs: list[list[int]] = []
    index = 0
    while index < len(sizes):
        end = _end(sizes, index)
        run = list(sizes[index:end])
        if end - index < SHORTEST_RUN:
            run = [sizes[index]]
        elif end < len(sizes) and _end(sizes, end - 1) - (end - 1) >= SHORTEST_RUN and len(run) > SHORTEST_RUN:
            run = run[:-1]
        runs.append(run)
        index += len(run)
    return runs


def _end(sizes: Sequence[int], start: int) -> int:
    """The index after the longest run of equal steps from `start`."""
    if start + 1 >= len(sizes):
        return len(sizes)
    step = sizes[start + 1] - sizes[start]
    end = start + 2
    while end < len(sizes) and sizes[end] - sizes[end - 1] == step:
        end += 1
    return end
