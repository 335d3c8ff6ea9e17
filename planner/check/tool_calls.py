"""Options of tool calling that do nothing without another one."""

from __future__ import annotations

from collections.abc import Iterator

from ..trace import Rule
from .diagnostic import Hit
from .places import add
from .registry import check
from .subject import Subject

PARSER_ALONE = Rule(
    "CG958",
    title="--tool-call-parser does nothing without --enable-auto-tool-choice.",
    why="The parser is only loaded where the automatic choice is on; requests with tools that leave the choice to the "
    "model are refused.",
    example="vllm serve Qwen/Qwen3-8B --tool-call-parser hermes.",
    instead="Add --enable-auto-tool-choice, or drop the parser.",
    source="vllm/parser/parser_manager.py:34-35",
)

ALWAYS = ("gpt-oss", "gpt_oss")
"""Parts of names of models whose tool calls are read in any case."""


@check(PARSER_ALONE, "warning")
def find_parser_alone(subject: Subject) -> Iterator[Hit]:
    if not subject.is_given("tool_call_parser") or subject.get("enable_auto_tool_choice"):
        return
    model = subject.args.model if subject.args is not None else None
    if any(part in (model or "").casefold() for part in ALWAYS):
        return
    yield Hit(
        "--tool-call-parser has no effect without --enable-auto-tool-choice",
        "add --enable-auto-tool-choice",
        subject.at("tool_call_parser"),
        "--enable-auto-tool-choice",
        add(subject, "--enable-auto-tool-choice"),
        safe=False,
    )
