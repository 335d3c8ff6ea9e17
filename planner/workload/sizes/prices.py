"""What a step costs by what it runs in: the tokens that it computes, or seconds as a profile measured them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...deployment import Deployment
from ...errors import InputError, shorten
from ...memory.budget.measured_record import Profile, fingerprint_of, in_one_line
from ...releases import canonical
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..tune_rules import NO_TIMES

MUST_FIT = ("gpu", "model", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""What the time of a step depends on; the rest of a fingerprint is told where it differs."""

NAMES = {CUDAGraphMode.FULL: "full", CUDAGraphMode.PIECEWISE: "piecewise", CUDAGraphMode.NONE: "eager"}
WHERE = "--profile"
LEAST_SIZES = 3
"""Times of fewer sizes price nothing: through one point goes a flat line, which says that padding costs nothing."""
LONGEST_STEP = 1e6
"""No step takes as long, seconds."""
TO_TIME = (1, 8, 64, 256, 512, 1024, 2048, 4096, 8192)
FURTHEST = 2
"""Sizes up to this many times the largest timed one have a price."""


@dataclass(frozen=True)
class Times:
    """Seconds of a step by its tokens, measured at some sizes. Between two sizes it is a line; they never fall."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, tokens: int) -> float:
        """Below the first size that of the first; above the last the line goes on as between the last two."""
        index = bisect_left(self.sizes, tokens)
        if index == 0:
            return self.seconds[0]
        if len(self.sizes) == 1:
            return self.seconds[0]
        index = min(index, len(self.sizes) - 1)
        (low, high), (first, last) = self.sizes[index - 1 : index + 1], self.seconds[index - 1 : index + 1]
        return first + (last - first) * (tokens - low) / (high - low)


@dataclass(frozen=True)
class Prices:
    """What steps cost.

    Attributes:
        times: by mode; empty: the cost is tokens.
        too_few: sizes of the modes that were timed at too few.
        source: of the times, in words.
        notes: what differs between the deployment and the one that was measured.
    """

    times: Mapping[CUDAGraphMode, Times]
    source: str = ""
    notes: tuple[str, ...] = ()
    too_few: Mapping[CUDAGraphMode, tuple[int, ...]] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return "seconds" if self.times else "tokens"

    def of(self, mode: CUDAGraphMode, tokens: int) -> float:
        """The cost of a step of `tokens` computed tokens.

        Raises:
            InputError: CG723, no step of this mode was timed.
        """
        if not self.times:
            return tokens
        times = self.times.get(mode)
        if times is None:
            raise InputError(
                self.why_none(mode),
                code=NO_TIMES.code,
                where=WHERE,
                fix=NO_TIMES.instead,
            )
        return times.at(tokens)

    def why_none(self, mode: CUDAGraphMode) -> str:
        """Why steps of a mode have no price."""
        if mode in self.too_few:
            return f"the profile timed {NAMES[mode]} steps at {_listed(self.too_few[mode])} alone"
        return f"the profile has no times of {NAMES[mode]} steps"

    def reaching(self, widest: Mapping[CUDAGraphMode, int]) -> Prices:
        """Itself where its times price steps up to these sizes, by mode; else tokens, with a note that says why.

        A list is chosen by the difference between sizes. Where nobody timed them, a line that is drawn through others
        says what it likes, and a list that only pads would look free.

        Raises:
            InputError: CG723, no step of a mode was timed.
        """
        why = []
        for mode, tokens in widest.items():
            if mode in self.too_few:
                why.append(f"{NAMES[mode]} steps were timed at {_listed(self.too_few[mode])} alone")
                continue
            self.of(mode, tokens)
            if (times := self.times.get(mode)) is not None and tokens > FURTHEST * times.sizes[-1]:
                timed = _listed(times.sizes)
                why.append(f"{NAMES[mode]} steps up to {tokens} tokens are asked for, timed were {timed}")
        if not why:
            return self
        enough = max(LEAST_SIZES, 1 + bisect_left(TO_TIME, max(widest.values())))
        sizes = ",".join(map(str, TO_TIME[:enough]))
        note = f"the cost is tokens, as the times of the profile do not reach: {'; '.join(why)}"
        return Prices({}, notes=(*self.notes, f"{note}. Measure with `cgplan profile --times {sizes}`"))

    def beyond(self, widest: Mapping[CUDAGraphMode, int]) -> str:
        """What to say where times of larger steps are asked than were measured, by mode; "": of none."""
        found = [
            f"{NAMES[mode]} steps above {self.times[mode].sizes[-1]} tokens"
            for mode, tokens in widest.items()
            if mode in self.times and tokens > self.times[mode].sizes[-1]
        ]
        return f"not measured, the times below are drawn on: {', '.join(found)}" if found else ""


TOKENS = Prices({})


def prices_from(profile: Profile, deployment: Deployment, resolution: Resolution) -> Prices:
    """The times in a measured record.

    Raises:
        InputError: CG907, it is of another GPU, model or layout; CG723, it has no times; CG911, they cannot be read.
    """
    here = fingerprint_of(deployment, resolution)
    said = profile.fingerprint.model_dump(exclude_none=True)
    said["vllm_version"] = canonical(profile.fingerprint.vllm_version)
    other = [name for name, value in said.items() if here[name] is not None and here[name] != value]
    refused = [name for name in other if name in MUST_FIT]
    if refused:
        shown = ", ".join(f"{name} {shorten(said[name], 40)}, not {shorten(here[name], 40)}" for name in refused)
        raise InputError(
            f"the profile is of another deployment: {shown}",
            code="CG907",
            where=WHERE,
            fix="give a profile of this model on this GPU, or leave --profile out: the cost is then tokens",
        )
    more = profile.profile or {}
    found = {mode: one for mode, name in NAMES.items() if (one := _times(more, name)) is not None}
    source = in_one_line(profile.source)
    if not found:
        raise InputError(f"{source} has no times", code=NO_TIMES.code, where=WHERE, fix=NO_TIMES.instead)
    times = {mode: timed for mode, timed in found.items() if len(timed.sizes) >= LEAST_SIZES}
    too_few = {mode: timed.sizes for mode, timed in found.items() if mode not in times}
    return Prices(times, source, tuple(_notes(other, said, here, more)), too_few)


def _listed(sizes: tuple[int, ...]) -> str:
    named = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
    return f"{named} token{'' if sizes == (1,) else 's'}"


def _notes(other: list[str], said: Mapping[str, Any], here: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
    found = []
    for name in other:
        if name == "capture_sizes":
            continue  # A step of one size takes its time, whatever the other sizes are.
        found.append(f"the profile was measured with {name} {shorten(said[name], 40)}, not {shorten(here[name], 40)}")
    machine = more.get("machine")
    if isinstance(machine, dict) and machine.get("engine") == "synthetic":
        found.append("the profile is of the synthetic engine: vLLM's own part of the CPU's time is not in it")
    return found


def _times(more: Mapping[str, Any], name: str) -> Times | None:
    table = more.get("cost_seconds")
    given = table.get(name) if isinstance(table, dict) else None
    if not given:
        return None
    if not isinstance(given, dict):
        raise _unreadable(f"cost_seconds.{name} has no seconds by size")
    points = sorted(
        (_size(size, name), _seconds(value, f"cost_seconds.{name}.{size}")) for size, value in given.items()
    )
    seconds: list[float] = []
    for _, value in points:
        seconds.append(max(value, seconds[-1]) if seconds else value)
    return Times(tuple(size for size, _ in points), tuple(seconds))


def _size(text: Any, name: str) -> int:
    try:
        size = int(text)
    except (TypeError, ValueError):
        size = 0
    if size < 1:
        raise _unreadable(f"cost_seconds.{name}: {in_one_line(shorten(text, 40))!r} is no size")
    return size


def _seconds(value: Any, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < LONGEST_STEP:
        raise _unreadable(f"{in_one_line(shorten(where, 60))}: {in_one_line(shorten(value, 40))!r} is no time")
    return float(value)


def _unreadable(message: str) -> InputError:
    return InputError(message, code="CG911", where=WHERE, fix="give the file as `cgplan profile --json FILE` wrote it")
