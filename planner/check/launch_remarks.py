"""What the readers of files noticed, as diagnostics: values that are not in the file, commands that are cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..input_rules import OWN
from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Remark, Source
from ..trace import Rule
from .diagnostic import Diagnostic, Hit
from .registry import check, diagnostic
from .subject import Subject

UNKNOWN_VALUE = Rule(
    "CG942",
    title="The value of a variable is not in the file.",
    why="Nothing is run and nothing is fetched, so that what a variable holds is known only where the file says it; "
    "the option is left out of the check.",
    example="--max-num-seqs $SEQS, and no SEQS anywhere.",
    instead="Check the line with the value written out.",
    source=OWN,
)
CUT_OFF = Rule(
    "CG943",
    title="Options stand behind the end of the command.",
    why="A comment, or a blank behind a backslash, ends the line; the shell takes what follows for another command.",
    example="vllm serve MODEL \\ # comment, and --max-num-seqs 8 on the next line.",
    instead="End every line but the last with a backslash and nothing behind it.",
    source=OWN,
)
TEMPLATE = Rule(
    "CG944",
    title="The file is a template.",
    why="What a chart or a template engine writes is known only after it has run.",
    example="args: [--max-num-seqs, {{ .Values.seqs }}].",
    instead="Render it first, and check what comes out.",
    source=OWN,
)
NOT_READ = Rule(
    "CG945",
    title="A part of the file cannot be read.",
    why="It has a form that the reader does not know; the rest is checked.",
    example="A document of a manifest that is no YAML.",
    instead="Do what the line `fix` says, or check the command line by itself.",
    source=OWN,
)
NO_LAUNCH = Rule(
    "CG946",
    title="The file starts no vLLM server, as far as can be read.",
    why="Only `vllm serve` and the server's module are looked for, in the places where such files have commands.",
    example="A manifest of a client.",
    instead="Check the command line by itself: cgplan check -- vllm serve ...",
    source=OWN,
)

KINDS = {
    "unknown_value": (UNKNOWN_VALUE, "info"),
    "cut_off": (CUT_OFF, "error"),
    "template": (TEMPLATE, "info"),
    "not_read": (NOT_READ, "warning"),
    "no_launch": (NO_LAUNCH, "info"),
}
"""By kind of a remark: its rule and how bad it is."""


def of_source(source: Source, remarks: Iterable[Remark]) -> Iterator[Diagnostic]:
    """The remarks on a source as a whole."""
    for remark in remarks:
        rule, severity = KINDS.get(remark.kind, KINDS["not_read"])
        yield diagnostic(rule.code, severity, _hit(source, remark))


def _hit(source: Source, remark: Remark) -> Hit:
    at = Located(source, remark.span) if remark.span is not None else None
    return Hit(remark.message, remark.fix, at)


def _register(kind: str, rule: Rule, severity: str) -> None:
    @check(rule, severity)
    def find(subject: Subject) -> Iterator[Hit]:
        return (_hit(subject.launch.source, one) for one in subject.launch.remarks if one.kind == kind)


for _kind, (_rule, _severity) in KINDS.items():
    _register(_kind, _rule, _severity)
