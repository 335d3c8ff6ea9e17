"""Which rules made a field change between two neighbouring releases.

The traces of both are laid side by side. A decision that only one of them has names its rule. Where that rule, or one
that owns the field, came, went or goes by a fact that changed, it is the cause; else the causes of the fields that this
one is computed from are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from .. import input_rules  # noqa: F401  (its pages are those of a line that is refused)
from ..deployment import Deployment
from ..trace import RULES, Decision
from .changes import Cause
from .fields import RUNNER_RULES, field_of
from .moves import Move, moves
from .relevance import is_relevant
from .snapshot import Snapshot, differ

AUTOMATIC = "CG301"
NO_BACKEND = ("CG302", "CG303")


class StepCauses:
    """The causes of every field that differs between two snapshots, each worked out once."""

    def __init__(self, before: Snapshot, after: Snapshot, path: tuple[str, ...], deployment: Deployment) -> None:
        self._before, self._after = before, after
        self._moves = relevant_moves(path, deployment, before.backends | after.backends)
        self._known: dict[str, tuple[tuple[Cause, ...], tuple[str, ...]]] = {}

    def of(self, name: str) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
        """The causes of a change of `name`, never none, and the fields that it follows where those are theirs."""
        if name not in self._known:
            self._known[name] = self._work_out(name)
        return self._known[name]

    def _work_out(self, name: str) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
        if name == "startup":
            return self._of_startup(), ()
        field = field_of(name)
        traced = self._traced(field.decided)
        follows = tuple(dict.fromkeys(other for other in field.follows if self._differs(other)))
        lacking = self._runner_rules() if name == "runner" else []
        direct = [code for code in (lacking or traced) if code in self._moves]
        if not direct and (field.owned_first or not follows):
            direct = [code for code in field.owners if code in self._moves]
        causes = [self._cause(code, traced) for code in direct]
        if causes:
            follows = ()
        else:
            for other in follows:
                causes += [cause for cause in self.of(other)[0] if cause.code not in {c.code for c in causes}]
        if not causes:
            causes = [self._cause(code, traced) for code in traced or field.owners[:1]]
        return tuple(causes), follows

    def _differs(self, name: str) -> bool:
        return differ(name, self._before, self._after)

    def _traced(self, fields: Iterable[str]) -> dict[str, str]:
        """Rules with a decision on `fields` that only one side has, and what they say; the later side's words count."""
        wanted = set(fields)
        mine = [d for d in self._before.decisions if d.field in wanted]
        theirs = [d for d in self._after.decisions if d.field in wanted]
        found = {d.code: d.why for d in mine if not _has(theirs, d)}
        return found | {d.code: d.why for d in theirs if not _has(mine, d)}

    def _runner_rules(self) -> list[str]:
        """Rules about what runner V2 lacks that the choice of one side names, and that moved."""
        reasons = [{d.why for d in side.decisions if d.field == "runner"} for side in (self._before, self._after)]
        return self._lacking(" ".join(sorted(reasons[0] ^ reasons[1])))

    def _lacking(self, text: str) -> list[str]:
        named = (code for words, codes in RUNNER_RULES.items() if words in text for code in codes)
        return [code for code in named if code in self._moves]

    def _cause(self, code: str, traced: Mapping[str, str]) -> Cause:
        move = self._moves.get(code)
        why = traced.get(code) or RULES[code].title
        if move is None:
            return Cause(code, "input", why)
        return Cause(code, move.kind, why, move.facts)

    def _of_startup(self) -> tuple[Cause, ...]:
        """The rules that refuse, on either side, and those that moved and that they go by."""
        codes = []
        for error in (self._before.error, self._after.error):
            if error is not None:
                codes += [error.code, *self._lacking(error.message)]
                codes += [AUTOMATIC] if error.code in NO_BACKEND and AUTOMATIC in self._moves else []
        return tuple(self._cause(code, {}) for code in dict.fromkeys(codes))


def _has(decisions: Iterable[Decision], wanted: Decision) -> bool:
    """Whether one of `decisions` says the same; where a rule stands in the source does not count."""
    return any(
        (d.code, d.field, d.before, d.after, d.why)
        == (wanted.code, wanted.field, wanted.before, wanted.after, wanted.why)
        for d in decisions
    )


def relevant_moves(path: tuple[str, ...], deployment: Deployment, backends: frozenset[str]) -> dict[str, Move]:
    """Moves that can touch `deployment`, of every pair of neighbours on `path`.

    It is longer than two where vLLM did not start in between.
    """
    found: dict[str, Move] = {}
    for previous, following in pairwise(path):
        for code, move in moves(previous, following).items():
            facts = tuple(change for change in move.facts if is_relevant(change, deployment, backends))
            if move.kind == "fact" and not facts:
                continue
            earlier = found.get(code)
            found[code] = Move(move.kind, facts if earlier is None else (*earlier.facts, *facts))
    return found
