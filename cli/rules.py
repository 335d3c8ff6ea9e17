"""`cgplan rules`: the registry of rules as a table."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from cgplan.report import registry
from cgplan.report.rules import as_document

from .output_options import JsonOption, MarkdownOption, check_one_form
from .streams import say
from .values import release_and_note

EPILOG = """\
Examples:
  cgplan rules --vllm 0.28
  cgplan rules --since 0.31
  cgplan rules CG4
  cgplan rules dynamic speculative --json

Side effects: none.

Exit codes:
  0  printed
  1  nothing matches
  2  bad usage or input
"""


def command(
    words: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="FILTER", help="The beginning of a code, or words of a rule.", show_default=False),
    ] = None,
    vllm: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--vllm", metavar="RELEASE", help="Only rules that this release has.", show_default=False),
    ] = None,
    since: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--since", metavar="RELEASE", help="Only rules that came with it or a later one.", show_default=False
        ),
    ] = None,
    as_markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> int:
    """List the rules: code, releases, what it says, and where it stands in vLLM's source."""
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    at = None if vllm is None else _release(vllm, "--vllm")
    added = None if since is None else _release(since, "--since")
    found = registry.select(at, added, " ".join(words or []) or None)
    if as_json:
        print(json.dumps({"schema_version": 1, "rules": [as_document(rule) for rule in found]}))
    elif as_markdown:
        print(registry.markdown_table(found), end="")
    else:
        registry.show(found)
    return 0 if found else 1


def _release(text: str, flag: str) -> str:
    known, said = release_and_note(text, flag)
    if said is not None:
        say(said)
    return known
