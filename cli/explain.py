"""`cgplan explain`: the page of a code, the answer to a question or an error text, or the list of all codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cgplan.errors import InputError, shorten
from cgplan.report import rules
from cgplan.rules import all_rules

from .output_options import JsonOption

if TYPE_CHECKING:
    from cgplan.report.topics import Found

EPILOG = """\
Examples:
  cgplan explain CG701
  cgplan explain why is speculative decoding slower
  cgplan explain VLLM_USE_BREAKABLE_CUDAGRAPH
  cgplan explain 'max_num_seqs (256) exceeds available Mamba cache blocks (95)'
  cgplan explain

Side effects: none.

Exit codes:
  0  printed
  2  there is no such code, nothing fits the words, or bad usage
"""


def command(
    text: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="CODE|WORDS",
            help="A code such as CG701, or a question or the text of an error. Without it all codes are listed.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say what a code means and what to do instead, or answer a question in words."""
    words = " ".join(text or ()).split()
    if not words and text:
        rules.find("")
    if all(map(rules.is_code, words)) or (len(words) == 1 and words[0][:2].upper() == "CG"):
        return _codes(words, as_json)
    found = _found("\n".join(" ".join(line.split()) for line in " ".join(text or ()).splitlines()))
    if as_json:
        print(json.dumps({"schema_version": 1, **_document(found)}))
        return 0
    from cgplan.report import topics_text

    topics_text.show(found)
    return 0


def _codes(codes: list[str], as_json: bool) -> int:
    """The pages of the codes, or the list of all where there are none."""
    found = [rules.find(code) for code in codes]
    if as_json:
        listed = found or all_rules().values()
        print(json.dumps({"schema_version": 1, "rules": [rules.as_document(rule) for rule in listed]}))
    elif found:
        for index, rule in enumerate(found):
            if index:
                print()
            rules.show_page(rule)
    else:
        from cgplan.report import topics_text

        rules.show_list()
        topics_text.show_list()
    return 0


def _found(question: str) -> Found:
    from .explained import found as answer

    found = answer(question)
    if found is None:
        raise InputError(
            f"nothing fits {shorten(question, 40)!r}", code="CG908", where="cgplan explain",
            fix="use words of the error or option; cgplan logs FILE reads a log; cgplan explain lists all questions",
        )  # fmt: skip
    return found


def _document(found: Found) -> dict[str, Any]:
    """The rules and the topics that fit, best first; the answer is the first topic unless `rule_first`."""
    from cgplan.report import topics

    return {
        "rules": [rules.as_document(rule) for rule in found.rules],
        "topics": [topics.as_document(topic) for topic in found.topics],
        "rule_first": found.rule_first,
        "read": found.read or None,
    }
