"""Every message in one list: what is wrong, where, and how to mend it, all in one style.

`python tools/messages.py` prints the list for reading; `pytest -s tests/test_messages.py` too.
"""

from __future__ import annotations

import re

import messages
import pytest
from messages import ERRORS, Message

from cgplan.errors import as_fix
from cgplan.rules import all_rules

FOUND = messages.messages()
MOST = 200
"""Most characters of a message or a fix, what is put in counted as one."""
NAMES = ("Kubernetes", "Mamba", "Docker", "Ray")
"""A message may begin with these, though they look like the beginning of a sentence."""
UNWANTED = re.compile(r"\b(please|sorry|oops|invalid|illegal|simply|just|obviously|failed to|unable to)\b|!", re.I)
QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")


def texts(one: Message) -> list[str]:
    """The message, and the fix in the form in which it is shown."""
    return [one.message, *([as_fix(one.fix)] if one.fix else [])]


def wrong(*found: Message) -> str:
    return "\n".join(map(str, found))


def test_they_are_all_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert messages.main([]) == 0
    out = capsys.readouterr().out
    print(out)
    assert out.splitlines()[-1] == f"{len(FOUND)} messages"
    assert len(FOUND) > 1000
    assert {one.kind for one in FOUND} == set(messages.FIELDS)


@pytest.mark.parametrize(
    ("kind", "message", "fix"),
    [
        ("InputError", "no log is given", "give a file, or - for stdin"),
        ("InputError", "kind: {self.kind} is none of {', '.join(KINDS)}", "name one of these"),
        ("InputError", "the synthetic engine does not build dtype {dtype}", "pass --dtype bfloat16"),
        ("StartupError", "the model has no experts", "Drop --enable-expert-parallel."),
        ("ArgumentRefused", "`vllm` alone prints its help", "write `vllm serve MODEL ...`"),
        ("Hit", "--tool-call-parser has no effect without --enable-auto-tool-choice", "add --enable-auto-tool-choice"),
        ("Remark", "variables of env_file are not read", "give those that matter with --env NAME=VALUE"),
    ],
)
def test_the_list_follows_who_makes_a_message(kind: str, message: str, fix: str) -> None:
    assert [one for one in FOUND if (one.kind, one.message, one.fix) == (kind, message, fix)], message


def test_every_code_has_a_page() -> None:
    known = all_rules()
    errors = [one for one in FOUND if one.kind in ERRORS]
    assert not [one for one in errors if one.code is None], "an error without a code"
    bad = [one for one in FOUND if re.fullmatch(r"CG\d+", one.code or "") and one.code not in known]
    assert not bad, wrong(*bad)


def test_most_codes_stand_in_the_list_itself() -> None:
    """A code that is put in at run time is that of a rule or of another error, so few are."""
    errors = [one for one in FOUND if one.kind in ERRORS]
    assert sum(one.code is not None and one.code.startswith("{") for one in errors) < 0.2 * len(errors)


def test_every_error_says_where_or_how_to_mend_it() -> None:
    bad = [one for one in FOUND if one.kind in ERRORS and not one.where and not one.fix]
    assert not bad, wrong(*bad)


def test_nearly_every_error_says_how_to_mend_it() -> None:
    errors = [one for one in FOUND if one.kind in ("InputError", "StartupError", "CgplanError")]
    without = [one for one in errors if not one.fix]
    assert len(without) <= 0.02 * len(errors), wrong(*without)


def test_they_begin_with_a_small_letter_or_a_name() -> None:
    begins = re.compile(rf"(?!{'|'.join(NAMES)})[A-Z][a-z]+[ ,:]")
    bad = [one for one in FOUND if any(begins.match(text) for text in texts(one))]
    assert not bad, wrong(*bad)


def test_they_are_one_line_without_a_full_stop() -> None:
    bad = [
        one
        for one in FOUND
        for text in texts(one)
        if text != text.strip() or "\n" in text or "  " in text or (text.endswith(".") and not text.endswith("..."))
    ]
    assert not bad, wrong(*bad)


def test_they_neither_beg_nor_shout() -> None:
    bad = [one for one in FOUND if any(UNWANTED.search(QUOTED.sub("", text)) for text in texts(one))]
    assert not bad, wrong(*bad)


def test_they_are_short() -> None:
    bad = [one for one in FOUND if any(len(re.sub(r"\{[^{}]*\}", "x", text)) > MOST for text in texts(one))]
    assert not bad, wrong(*bad)


def test_a_fix_is_no_echo_of_the_message() -> None:
    bad = [one for one in FOUND if one.fix and as_fix(one.fix).casefold() == one.message.casefold()]
    assert not bad, wrong(*bad)


@pytest.mark.parametrize(
    ("one", "check"),
    [
        (Message("InputError", "x.py", 1, "CG905", "Bad value given", "--x", "y"), "small_letter"),
        (Message("InputError", "x.py", 1, "CG905", "a value is bad.", "--x", "y"), "full_stop"),
        (Message("InputError", "x.py", 1, "CG905", "please give a value", "--x", "y"), "neither_beg"),
        (Message("InputError", "x.py", 1, "CG905", "a value is bad", None, None), "where_or_how"),
        (Message("InputError", "x.py", 1, "CG000", "a value is bad", "--x", None), "code_has"),
        (Message("InputError", "x.py", 1, "CG905", "a" * (MOST + 1), "--x", None), "short"),
    ],
)
def test_the_tests_can_fail(one: Message, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FOUND", [one])
    (test,) = (test for name, test in globals().items() if name.startswith("test_") and check in name)
    with pytest.raises(AssertionError):
        test()
