"""Dynamic speculative decoding: the number of draft tokens depends on the batch size.

Source: vllm/v1/spec_decode/dynamic/utils.py @ 0.33.0. A schedule is a list of (first batch size, last batch size,
tokens) rows; it is kept as steps, (last batch size, tokens), so that no table as long as max_num_seqs is made.
"""

from __future__ import annotations

from collections.abc import Sequence

Steps = tuple[tuple[int, int], ...]


class ScheduleError(ValueError):
    """The schedule is not one; the text says why."""


def steps(schedule: Sequence[Sequence[int]], max_num_seqs: int, num_speculative_tokens: int) -> Steps:
    """(last batch size, draft tokens) rows that cover 1 to `max_num_seqs`, ascending.

    A gap, and the batches after the last row, keep the tokens of the row before; no row exceeds
    `num_speculative_tokens`.

    Raises:
        ScheduleError: a row is no triple, a range is not positive or runs backwards, tokens are negative, ranges
            overlap, or the first does not start at 1.
    """
    rows = _checked(schedule)
    found: list[tuple[int, int]] = []
    for index, (_, _, tokens) in enumerate(rows):
        last = rows[index + 1][0] - 1 if index + 1 < len(rows) else max_num_seqs
        last = min(last, max_num_seqs)
        tokens = min(tokens, num_speculative_tokens)
        if found and found[-1][0] >= last:
            break
        if found and found[-1][1] == tokens:
            found[-1] = (last, tokens)
        else:
            found.append((last, tokens))
    return tuple(found)


def tokens_at(schedule: Steps, num_reqs: int) -> int:
    """Draft tokens of a batch of `num_reqs` requests."""
    return next((tokens for last, tokens in schedule if num_reqs <= last), schedule[-1][1])


def _checked(schedule: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    if not schedule:
        raise ScheduleError("the schedule is empty")
    rows = []
    for row in schedule:
        if len(row) != 3:
            raise ScheduleError("each row must be (first batch size, last batch size, tokens)")
        first, last, tokens = row
        if first <= 0 or last <= 0:
            raise ScheduleError(f"batch sizes {first} to {last} are not positive")
        if first > last:
            raise ScheduleError(f"batch sizes {first} to {last} run backwards")
        if tokens < 0:
            raise ScheduleError(f"{tokens} draft tokens are negative")
        rows.append((first, last, tokens))
    rows.sort(key=lambda row: row[0])
    end = 0
    for first, last, _ in rows:
        if first <= end:
            raise ScheduleError("ranges of batch sizes overlap")
        end = last
    if rows[0][0] != 1:
        raise ScheduleError("the first range of batch sizes must start at 1")
    return rows
