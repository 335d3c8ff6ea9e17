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
NOT_A_TEXT = Rule(
    "CG947",
    title="An argument or a variable is no text.",
    why="Kubernetes takes only texts, and lists of texts, for commands, arguments and variables; it refuses the rest.",
    example="args: [--port, 8000] without quotes around 8000.",
    instead="Put the value in quotes.",
    source=OWN,
)
KEY_PASSED_OVER = Rule(
    "CG948",
    title="A key of the file is passed over.",
    why="It stands twice in one mapping, so that the last one counts; or the chart has no use for it.",
    example="args twice in one container.",
    instead="Drop the one that does not count, or put the option where the chart looks for it.",
    source=OWN,
)
NOT_NVIDIA = Rule(
    "CG949",
    title="The server does not run on NVIDIA GPUs.",
    why="The files are checked by the rules of the CUDA platform; other platforms choose other backends and modes.",
    example="A container that asks for amd.com/gpu.",
    instead="Take what is said of modes and graphs with care; what is said of the command line holds.",
    source=OWN,
)
CHANGED_BY_SHELL = Rule(
    "CG950",
    title="vLLM does not get the word that is written.",
    why="A shell makes several words of braces, looks for files that match a pattern, and puts in a folder for ~ only "
    "at the start of a word; where no shell runs, no variable is put in.",
    example="-cc.cudagraph_capture_sizes={1,2,4} reaches vLLM as three words.",
    instead="Put the word in single quotes; where no shell runs, write the value out.",
    source=OWN,
)
CONDITIONAL = Rule(
    "CG951",
    title="What vLLM gets depends on how the script runs.",
    why="Nothing is run: of several values, and of arguments that stand under a condition, one reading is checked.",
    example='if [ -n "$EAGER" ]; then ARGS+=(--enforce-eager); fi.',
    instead="Check the other readings by themselves: cgplan check -- vllm serve ...",
    source=OWN,
)
NOT_EXPORTED = Rule(
    "CG952",
    title="A variable is set but not exported.",
    why="A shell keeps it to itself; programs see only what is exported, or stands in front of the command.",
    example="VLLM_LOGGING_LEVEL=DEBUG on a line of its own, and vllm serve on the next.",
    instead="Write export in front of it.",
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
    "not_in_file": (NOT_READ, "info"),
    "no_launch": (NO_LAUNCH, "info"),
    "not_text": (NOT_A_TEXT, "error"),
    "not_a_list": (NOT_A_TEXT, "error"),
    "ignored_key": (KEY_PASSED_OVER, "warning"),
    "duplicate_key": (KEY_PASSED_OVER, "warning"),
    "not_nvidia": (NOT_NVIDIA, "info"),
    "braces": (CHANGED_BY_SHELL, "warning"),
    "pattern": (CHANGED_BY_SHELL, "warning"),
    "tilde": (CHANGED_BY_SHELL, "warning"),
    "quotes_lost": (CHANGED_BY_SHELL, "error"),
    "stray_backslash": (CHANGED_BY_SHELL, "error"),
    "not_expanded": (CHANGED_BY_SHELL, "error"),
    "not_json": (CHANGED_BY_SHELL, "warning"),
    "not_exported": (NOT_EXPORTED, "error"),
    "condition": (CONDITIONAL, "info"),
    "several_values": (CONDITIONAL, "info"),
}
"""By kind of a remark: its rule and how bad it is."""


def of_source(source: Source, remarks: Iterable[Remark]) -> Iterator[Diagnostic]:
    """The remarks on a source as a whole."""
    for remark in remarks:
        rule, severity = KINDS[remark.kind]
        yield diagnostic(rule.code, severity, _hit(source, remark, severity))


def _hit(source: Source, remark: Remark, severity: str) -> Hit:
    at = Located(source, remark.span) if remark.span is not None else None
    return Hit(remark.message, remark.fix, at, severity=severity)


def _register(rule: Rule) -> None:
    kinds = {kind: severity for kind, (of, severity) in KINDS.items() if of is rule}

    @check(rule, next(iter(kinds.values())))
    def find(subject: Subject) -> Iterator[Hit]:
        remarks = (one for one in subject.launch.remarks if one.kind in kinds)
        return (_hit(subject.launch.source, one, kinds[one.kind]) for one in remarks)


for _rule in dict.fromkeys(rule for rule, _ in KINDS.values()):
    _register(_rule)
