"""The answer to a question on the screen: what to know, what to run, and the rules with more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..rules import all_rules
from ..trace import Rule
from .rules import releases_of, source_of
from .topics import Found, Topic, topics, topics_of

if TYPE_CHECKING:
    from rich.console import Console

MOST_RUN = 3
TOLD_BY = {
    "CG5": ("cgplan plan Qwen/Qwen3-8B --gpu h100", "cgplan logs server.log"),
    "CG8": ("cgplan logs server.log",),
    "CG9": ("cgplan check -- vllm serve Qwen/Qwen3-8B",),
    "CG": ("cgplan check --gpu h100 -- vllm serve Qwen/Qwen3-8B", "cgplan resolve Qwen/Qwen3-8B --gpu h100 --explain"),
}
"""Commands that tell rules of which no topic speaks, by the first letters of the code, the longer ones first."""


def show(found: Found, out: Console | None = None) -> None:
    """Print the answer that fits best, and what is near it."""
    from .console import console

    out = out or console()
    if found.rule_first:
        _show_rule(found, out)
    else:
        _show_topic(found, out)


def _show_topic(found: Found, out: Console) -> None:
    from rich.text import Text

    topic, rules, others = found.topics[0], found.rules, found.topics[1:]
    known = all_rules()
    codes = dict.fromkeys((*topic.rules, *(rule.code for rule in rules[:1])))
    out.print(Text(topic.title, style="head"))
    out.print()
    out.print(Text(topic.answer))
    _show_read(found.read, out)
    _show_commands(topic.run, out)
    _show_more([known[code] for code in codes], others, out)
    out.print(Text(f"Source: {topic.source}", style="faint"))


def _show_rule(found: Found, out: Console) -> None:
    from rich.text import Text

    rule, rules, others = found.rules[0], found.rules[1:], found.topics
    title = Text(rule.code, style="code")
    title.append(f"  {rule.title}", style="head")
    out.print(title)
    out.print()
    out.print(Text(f"{rule.why}\nExample: {rule.example}\n{rule.instead}"))
    out.print(Text(f"Releases: {releases_of(rule)}", style="faint"))
    _show_read(found.read, out)
    _show_commands(commands_of(rule.code), out)
    _show_more(rules, others, out)
    out.print(Text(f"Source: {source_of(rule)}", style="faint"))


def commands_of(code: str) -> Sequence[str]:
    """What to run about a rule whose page is read: those of the topic that names it first, else what tells it."""
    nearest = sorted(topics_of(code), key=lambda topic: topic.rules.index(code))
    of_topics = [command for topic in nearest[:1] for command in topic.run]
    return of_topics[:MOST_RUN] or next(run for first, run in TOLD_BY.items() if code.startswith(first))


def _show_read(read: str, out: Console) -> None:
    from rich.text import Text

    if read:
        out.print()
        out.print(Text("In these words: ", style="key").append(read, style="default"))


def _show_commands(commands: Sequence[str], out: Console) -> None:
    from rich.text import Text

    out.print()
    out.print(Text("Run, with your own model, GPU, flags and log", style="key"))
    for command in commands:
        out.print(Text(f"  {command}"), soft_wrap=True)
    out.print()


def _show_more(rules: Sequence[Rule], others: Sequence[Topic], out: Console) -> None:
    from rich.table import Table

    if not rules and not others:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="code", no_wrap=True)
    grid.add_column()
    for rule in rules:
        grid.add_row(rule.code, rule.title)
    for topic in others:
        grid.add_row("near", topic.title)
    out.print(grid)


def show_list(out: Console | None = None) -> None:
    """Print the title of every topic."""
    from rich.text import Text

    from .console import console

    out = out or console()
    out.print()
    out.print(Text("Questions, which cgplan explain answers by their words", style="key"))
    for topic in topics():
        out.print(Text(topic.title))
