"""Rules and the record of what they changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cgplan import Deployment, resolve
from cgplan.trace import RULES, Rule, Trace

FAMILIES = "123456789"


@pytest.fixture
def rule() -> Iterator[Rule]:
    """A rule that is gone after the test."""
    made = Rule("CG999", "A title.", "A reason.", "An example.", "A way out.", "vllm/some/file.py:1-2")
    yield made
    del RULES[made.code]


def test_a_code_is_taken_once(rule: Rule) -> None:
    with pytest.raises(ValueError, match="defined twice"):
        Rule(rule.code, "", "", "", "", "")
    assert RULES[rule.code] is rule


def test_decisions_findings_and_assumptions_keep_their_order(rule: Rule) -> None:
    trace = Trace()
    trace.decide(rule, "max_num_seqs", 1024, 8)
    trace.decide(rule, "max_num_seqs", 8, 4, "Because.")
    trace.find(rule, "warning", "Something.", fix="Do it.", where="--flag")
    trace.assume("A fact.")
    trace.assume("Another.")
    trace.assume("A fact.")
    assert [(d.before, d.after, d.why) for d in trace.decisions] == [(1024, 8, "A title."), (8, 4, "Because.")]
    assert trace.decisions[0].source == "vllm/some/file.py:1-2 @ 0.33.0"
    assert (trace.findings[0].code, trace.findings[0].where) == ("CG999", "--flag")
    assert trace.assumptions == ["A fact.", "Another."]


def known_rules() -> list[Rule]:
    resolve(Deployment(attention_support="ALWAYS"))
    return [rule for _, rule in sorted(RULES.items())]


def test_every_rule_has_a_page_and_a_place() -> None:
    rules = known_rules()
    assert len(rules) > 80
    for rule in rules:
        assert re.fullmatch(rf"CG[{FAMILIES}]\d\d", rule.code), rule.code
        for text in (rule.title, rule.why, rule.example, rule.instead):
            assert text.strip(), rule.code
            assert "\n" not in text, rule.code
        assert (
            re.match(r"vllm/\S+\.py(:\d+(-\d+)?)?", rule.source) or "/**" in rule.source or rule.source == "cgplan"
        ), rule.code
        assert RULES[rule.code] is rule


def test_no_two_rules_say_the_same() -> None:
    titles = [rule.title for rule in known_rules()]
    assert len(titles) == len(set(titles))
