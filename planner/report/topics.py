"""Questions in words: the topics of planner/releases/topics.toml, and what of them and of the rules fits a question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..releases import table
from ..resolve.graph_gains import measured
from ..rules import all_rules
from ..trace import Rule
from .intents import asked, ruled_out
from .ranking import Hit, Ranking, Text, words_of

MOST_TOPICS = 3
MOST_RULES = 5
FIRST_RULES = 2
"""Rules of a topic that is surely meant, before those that share words with the question."""
OF_TOPIC = 0.5
"""Share of a topic's score that its first rule has of it."""
NEAR_BEST = 0.5
"""Share of the best score from which on another one is worth a line."""
_MEASURED = re.compile(r"\{measured ([^\s}]+)(?: ([a-z]+))?\}")
_NAME = re.compile(r"(?<![\w-])(?:--[a-z][a-z0-9]*(?:-[a-z0-9]+)*|VLLM_[A-Z0-9_]+|[a-z0-9]+(?:_[a-z0-9]+)+)(?![\w-])")
"""An option, a variable of the environment, or a field."""
TOPIC_FIRST = 0.7
"""A topic answers where it has this share of the best rule's score: it says what to do and what to run."""


class Topic(NamedTuple):
    """A question that operators ask, and its answer.

    Attributes:
        name: stable, of lower-case words.
        words: symptoms, as somebody who has them would write them.
        run: commands, most useful first.
        rules: codes of rules with more.
        source: where the answer comes from.
        asks: words that, where they stand together, ask this whatever else the question names; see `intents`.
    """

    name: str
    title: str
    words: tuple[str, ...]
    answer: str
    run: tuple[str, ...]
    rules: tuple[str, ...]
    source: str
    asks: tuple[str, ...] = ()


class Found(NamedTuple):
    """What fits a question, best first. At least one of the two is not empty.

    Attributes:
        rule_first: the best rule answers it better than the best topic.
        read: what the numbers of an error's words come to, one line; "" where they are none.
    """

    topics: tuple[Topic, ...]
    rules: tuple[Rule, ...]
    rule_first: bool
    read: str = ""


@cache
def topics() -> tuple[Topic, ...]:
    """All topics, in the order of the file."""
    return tuple(
        Topic(
            row["name"], row["title"], tuple(part.strip() for part in row["words"].split(";")), _filled(row["answer"]),
            tuple(row["run"]), tuple(row["rules"]), row["source"], tuple(row.get("asks", ())),
        )
        for row in table("topics")["topic"]
    )  # fmt: skip


def _filled(answer: str) -> str:
    """The answer with the figures of graph_gains.toml that it speaks of."""
    return _MEASURED.sub(lambda found: measured(found[1], found[2]), answer)


@cache
def _ranking() -> Ranking:
    of_topics = [
        Text(one.name, (one.title, one.name.replace("-", " "), *one.words), f"{one.answer} {' '.join(one.rules)}")
        for one in topics()
    ]
    return Ranking([*of_topics, *map(_text_of, all_rules().values())])


def _text_of(rule: Rule) -> Text:
    return Text(rule.code, (rule.title, rule.code), f"{rule.why} {rule.example} {rule.instead}")


def find(question: str) -> Found | None:
    """What fits a question in words or the text of an error; None where nothing does."""
    out = {one.name for one in topics() if ruled_out(question, one.asks)}
    hits = [hit for hit in _ranking().search(question) if hit.key not in out]
    meant = next((one for one in topics() if asked(question, one.asks)), None)
    if meant is not None:
        return _meant(meant, hits)
    if not hits:
        return None
    by_name = {one.name: one for one in topics()}
    rules = all_rules()
    of_topics = [hit for hit in hits if hit.key in by_name]
    of_rules = [hit for hit in hits if hit.key in rules]
    best = of_topics[0].score if of_topics else 0.0
    rule_first = bool(of_rules) and best < TOPIC_FIRST * of_rules[0].score
    if not rule_first:
        of_rules = [hit for hit in of_rules if hit.score >= NEAR_BEST * best]
    return Found(
        tuple(by_name[key] for key in _near(of_topics, MOST_TOPICS)),
        tuple(rules[key] for key in _near(of_rules, MOST_RULES)),
        rule_first,
    )


def _meant(topic: Topic, hits: Sequence[Hit]) -> Found:
    """What a question asks by words that stand together, with its first rules, and what is near by words alone."""
    by_name, rules = {one.name: one for one in topics()}, all_rules()
    near = [by_name[hit.key] for hit in hits if hit.key in by_name and hit.key != topic.name]
    first = topic.rules[:FIRST_RULES]
    others = [hit.key for hit in hits if hit.key in rules and hit.key not in first]
    codes = [*first, *others][:MOST_RULES]
    return Found((topic, *near[: MOST_TOPICS - 1]), tuple(rules[code] for code in codes), False)


def names_of(question: str) -> tuple[str, ...]:
    """The names of options, variables and fields in a question, each once, in order."""
    return tuple(dict.fromkeys(_NAME.findall(question)))


def is_names(question: str) -> bool:
    """Whether a question is names alone, so that what speaks of them is asked for."""
    return bool(question.split()) and all(_NAME.fullmatch(word.strip("?!,;'\"`")) for word in question.split())


def with_names(found: Found | None, names: Sequence[str], *, alone: bool) -> Found | None:
    """`found`, with what speaks of the names first.

    Args:
        alone: the question is names alone; else only those of environment variables decide, as sentences are full of
            the names of options.
    """
    asked = [name for name in names if alone or name.startswith("VLLM_")]
    spoken = {code: score for code in all_rules() if (score := _speaks(code, asked)) > 0}
    if not spoken:
        return found
    known = all_rules()
    ordered = sorted(spoken, key=lambda code: -spoken[code])
    before = found.rules if found is not None else ()
    rules = tuple(known[code] for code in ordered) + tuple(rule for rule in before if rule.code not in spoken)
    of_name = [one for one in topics() if any(_holds(one.words, name) for name in asked)]
    others = [one for one in (found.topics if found is not None else ()) if one not in of_name]
    return Found(tuple([*of_name, *others][:MOST_TOPICS]), rules[:MOST_RULES], not of_name)


def _speaks(code: str, names: Sequence[str]) -> float:
    """How much a rule speaks of the names: its title most, its example least; words of theirs in its title too."""
    rule = all_rules()[code]
    texts = {rule.title: 3.0, rule.why: 2.0, rule.instead: 2.0, rule.example: 1.0}
    score = 0.0
    for name in names:
        said = sum(weight for text, weight in texts.items() if _holds((text,), name))
        words = set(words_of(name))
        score += said + (2 * len(words & set(words_of(rule.title))) / len(words) if said and words else 0.0)
    return score


def _holds(texts: Sequence[str], name: str) -> bool:
    """Whether one of the texts has the whole name, as an option or a field: --lora-x is not in --lora-x-y."""
    plain = re.escape(name.lstrip("-").replace("_", "-"))
    return any(re.search(rf"(?<![\w-])(?:--)?{plain}(?![\w-])", text.replace("_", "-")) for text in texts)


def with_code(found: Found | None, code: str, read: str) -> Found | None:
    """`found`, with the rule by which the words are read as a log's first, and topics that name it before others."""
    rule = all_rules().get(code)
    if rule is None:
        return found
    before = found if found is not None else Found((), (), True)
    named = tuple(one for one in before.topics if code in one.rules)
    others = tuple(one for one in before.topics if code not in one.rules)
    rules = (rule, *(one for one in before.rules if one.code != code))[:MOST_RULES]
    topic_first = bool(named) and not before.rule_first and named[0] is before.topics[0] and named[0].rules[0] == code
    return Found((*named, *others), rules, not topic_first, read)


def ranked_rules(question: str, most: int = 12) -> list[Rule]:
    """The rules that fit, best first, and few."""
    rules = all_rules()
    hits = _ranking().search(question)
    scores = {hit.key: hit.score for hit in hits if hit.key in rules}
    by_name = {one.name: one for one in topics()}
    of_topics = [hit for hit in hits if hit.key in by_name]
    for topic in of_topics[:1]:  # what answers the question in words names the rules with more
        for place, code in enumerate(by_name[topic.key].rules):
            scores[code] = scores.get(code, 0.0) + topic.score * OF_TOPIC * 0.9**place
    ordered = sorted((Hit(code, score) for code, score in scores.items()), key=lambda hit: -hit.score)
    return [rules[key] for key in _near(ordered, most)]


def _near(hits: Sequence[Hit], most: int) -> Iterator[str]:
    for hit in hits[:most]:
        if hit.score >= NEAR_BEST * hits[0].score:
            yield hit.key


def topics_of(code: str) -> tuple[Topic, ...]:
    """The topics that name a rule."""
    return tuple(one for one in topics() if code in one.rules)


def as_document(topic: Topic) -> dict[str, Any]:
    """A topic as JSON values."""
    return {
        "name": topic.name,
        "title": topic.title,
        "answer": topic.answer,
        "run": list(topic.run),
        "rules": list(topic.rules),
        "source": topic.source,
    }


def page() -> str:
    """docs/topics.md."""
    rules = all_rules()
    lines = [
        "# Questions",
        "",
        "What operators ask of CUDA graphs, memory and the start. `cgplan explain WORDS`, with words or the text of an",
        "error, finds the answer here or among the [rules](rules.md). Models and GPUs of the commands stand for your",
        "own.",
        "Written by `tools/build_docs.py` from `planner/releases/topics.toml`: change that, not this page.",
    ]
    for one in topics():
        lines += ["", f"## {one.title}", "", one.answer, "", "```", *one.run, "```", ""]
        lines += [f"- {code}: {rules[code].title}" for code in one.rules]
        lines.append(f"- Source: {one.source}")
    return "\n".join(lines) + "\n"
