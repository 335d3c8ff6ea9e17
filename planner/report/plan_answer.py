"""Whether a plan, or a value of --what-if, starts: one answer, as a sentence and as a word of a column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from ..memory.budget.estimate_rules import SYSTEM_MEMORY, UNMEASURED
from ..memory.budget.rules import THIN_MARGIN
from ..memory.capacity_plan import CapacityPlan
from ..memory.what_if import QUALIFYING, Outcome
from ..trace import Finding

STARTS = "It starts."
BEST_ONLY = "It starts by the best estimate; within the bounds it may not."
LITTLE_TO_SPARE = f"It starts, with little to spare: {THIN_MARGIN.code} names what leaves more."
IF_FREE = f"It starts if what it asks for is free: {SYSTEM_MEMORY.code} says how much that is."
BOUNDS_ONLY = "It does not start by the best estimate; within the bounds it may."
FAILS = "It does not start."


class Answer(NamedTuple):
    """Whether it starts: a word, the sentence that it stands for, and a style."""

    word: str
    sentence: str
    style: Literal["info", "warning", "error"]


def answer(starts: str, fits: bool, codes: Collection[str]) -> Answer:
    """The answer by a verdict.

    Args:
        starts: "yes", "no" or "unsure"; fits: whether it starts by the best values.
        codes: of what is found beside it.
    """
    if starts == "no":
        return Answer("no", FAILS, "error")
    if starts == "unsure":
        return Answer("may not", BEST_ONLY, "warning") if fits else Answer("may", BOUNDS_ONLY, "warning")
    if SYSTEM_MEMORY.code in codes:
        return Answer("if free", IF_FREE, "warning")
    if THIN_MARGIN.code in codes:
        return Answer("thin", LITTLE_TO_SPARE, "warning")
    return Answer("yes", STARTS, "info")


def headline(made: CapacityPlan) -> tuple[str, str]:
    """Whether it starts, in a sentence, and its style."""
    found = answer(made.starts, made.fits, {one.code for one in made.findings})
    return found.sentence, found.style


def is_pressing(finding: Finding) -> bool:
    """Whether a finding stands right under the answer."""
    return finding.severity != "info" or finding.code in (*QUALIFYING, UNMEASURED.code)


def _of(one: Outcome) -> Answer:
    return answer(one.starts, one.fits, {code for code, _ in one.said})


MOST_CODES = 3


def verdict(one: Outcome) -> str:
    """Whether a variant starts, in a word, and the codes of what a plan of it warns of; `meant` has the words."""
    word = _of(one).word
    own = [one.why_not[0]] if one.why_not[0] else []
    codes = list(dict.fromkeys([*own, *(() if word == "no" else (code for code, _ in one.said))]))
    more = [f"+{len(codes) - MOST_CODES}"] if len(codes) > MOST_CODES else []
    return " ".join([word, *codes[:MOST_CODES], *more])


def style(one: Outcome) -> str:
    """Of the word; none for a start that nothing is said of."""
    found = _of(one).style
    return "" if found == "info" else found


def meant(outcomes: Sequence[Outcome]) -> list[str]:
    """What the words of `verdict` mean that do not speak for themselves, in those of a plan."""
    answers = [one for one in dict.fromkeys(_of(one) for one in outcomes) if one.word not in ("yes", "no")]
    return [f"{one.word}: {one.sentence[:1].lower()}{one.sentence[1:]}" for one in answers]


MOST_SAID = 6


def warned(outcomes: Sequence[Outcome]) -> list[str]:
    """What a plan of a value warns of, each code once, with the first value that has it."""
    found: dict[str, str] = {}
    for one in outcomes:
        for code, message in one.said if one.starts != "no" else ():
            if code != one.why_not[0]:
                found.setdefault(code, f"{code}, of {one.name}: {message}; `cgplan plan` of it has the fix")
    return list(found.values())[:MOST_SAID]
