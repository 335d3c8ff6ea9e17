"""The fuzzer: cases come from their number alone, and what does not hold is seen."""

from __future__ import annotations

import importlib
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cgplan.errors import InputError

campaign: Any = importlib.import_module("fuzz.campaign")
documents: Any = importlib.import_module("fuzz.documents")
guarding: Any = importlib.import_module("fuzz.guard")
kind: Any = importlib.import_module("fuzz.kind")
kinds: Any = importlib.import_module("fuzz.kinds")
texts: Any = importlib.import_module("fuzz.texts")
GUARD = guarding.Guard()
FOUND = InputError("7 is none", code="CG903", where="--x", fix="give 8")


class Answers:
    """A kind of input whose answer is the one that is set."""

    def __init__(self, answer: Any) -> None:
        self.answers = answer

    def make(self, dice: random.Random) -> int:
        return dice.randrange(10**9)

    def answer(self, given: int, dice: random.Random) -> Any:
        return self.answers(given) if callable(self.answers) else self.answers


def run(answer: Any, cases: int = 8, is_json: bool = True) -> Any:
    one = kind.Kind("own", "of this test", 1.0, lambda folder: Answers(answer), is_json)
    return campaign.Campaign(one, 1, Path(), GUARD).run(range(cases))


def raises(error: BaseException) -> Any:
    def answer(given: int) -> Any:
        raise error

    return answer


def test_an_answer_and_one_clear_error_hold() -> None:
    assert run({"a": [1, None]}).failures == 0
    found = run(raises(FOUND))
    assert (found.cases, found.refused, found.failures) == (8, 8, 0)


@pytest.mark.parametrize(
    "answer",
    [
        raises(KeyError("a")),
        raises(RecursionError()),
        raises(MemoryError()),
        raises(InputError("no place", code="CG903", fix="give 8")),
        raises(InputError("no fix", code="CG903", where="--x")),
        raises(InputError("no code", code="X", where="--x", fix="give 8")),
        raises(InputError("x" * 5000, code="CG903", where="--x", fix="give 8")),
        raises(kind.Wrong("what it says")),
        {"a": float("nan")},
        '{"a": NaN}',
        '{"a": ',
        lambda given: os.open("written", os.O_CREAT | os.O_WRONLY),
        lambda given: subprocess.run(["true"], check=False),
        lambda given: socket.create_connection(("127.0.0.1", 9)),
    ],
)
def test_what_does_not_hold_is_seen(answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(answer)
    assert found.failures > 0
    assert found.causes == 1
    assert capsys.readouterr().out.count("of seed 1: ") <= campaign.SHOWN
    assert not Path("written").exists()


def test_two_answers_are_seen() -> None:
    calls = iter(range(100))
    assert run(lambda given: next(calls), is_json=False).failures == 1


def test_a_case_that_does_not_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SECONDS", 0.05)

    def forever(given: int) -> Any:
        ends = time.process_time() + 5
        while time.process_time() < ends:
            pass

    assert run(forever, cases=1).failures == 1


def test_a_case_is_made_of_its_number_alone() -> None:
    made = [campaign.Campaign(kinds.KINDS["lines"], seed, Path(), GUARD) for seed in (1, 1, 2)]
    first, again, other = ([one.made(number) for number in (5, 3, 5)] for one in made)
    assert first == again
    assert first[0] == first[2]
    assert first != other


def test_changes_leave_the_document_as_it_was() -> None:
    document = {"a": [1, {"b": "c"}], "d": 2.5}
    found = [documents.changed(random.Random(seed), document, ("x",)) for seed in range(300)]
    assert document == {"a": [1, {"b": "c"}], "d": 2.5}
    assert sum(repr(one) != repr(document) for one in found) > 250


def test_words_may_be_none() -> None:
    assert isinstance(texts.mutated_words(random.Random(1), []), list)


@pytest.mark.parametrize("name", [name for name in kinds.KINDS if name != "commands"])
def test_each_kind_runs(name: str, tmp_path: Path, capsys: Any) -> None:
    """A few cases of each, which hold."""
    guard = guarding.Guard(own=os.path.realpath(tmp_path) + os.sep)
    found = campaign.Campaign(kinds.KINDS[name], 5, Path(os.path.realpath(tmp_path)), guard).run(range(8))
    assert found.failures == 0, capsys.readouterr().out


def test_the_entry_lists_every_kind() -> None:
    entry = Path(__file__).parents[2] / "tools" / "fuzz"
    done = subprocess.run(
        [sys.executable, str(entry), "--list"], capture_output=True, text=True, timeout=60, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*kinds.KINDS, kinds.PROCESSES]
