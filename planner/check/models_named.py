"""A check of the model's name: whether its shape is known, and what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import shorten
from ..input_rules import OWN
from ..inputs.launches.asked import Located
from ..trace import Finding, Rule
from .diagnostic import Hit
from .occurrences import at_token
from .places import drop
from .registry import check
from .resolved import plain, says_more
from .subject import Subject

UNKNOWN_NAME = Rule(
    "CG953",
    title="The model of the line is neither here nor in the catalogue.",
    why="Heads, layers, length and the kind of attention come from config.json, and cgplan downloads nothing. Another "
    "shape stands in; what vLLM would refuse of that one alone is no error.",
    example="vllm serve my-org/my-model: graphs as of a dense 8B decoder.",
    instead="Give --model: the model's directory, its config.json, or a model of `cgplan models` with its shape. For "
    "memory `cgplan plan --weights-bytes` takes what its checkpoint has for each GPU.",
    source=OWN,
)
SAY_MODEL = (
    "give --model DIR, config.json, or an id of `cgplan models`; for memory `cgplan plan --weights-bytes` takes the "
    "size of its weights"
)


@check(UNKNOWN_NAME, "info")
def unknown_name(subject: Subject) -> Iterator[Hit]:
    served = subject.asked.served
    if served is None or served.model is None or served.model.is_known:
        return
    named = served.model
    near = f"; nearest: {', '.join(named.near)}" if named.near else ""
    message = f"{shorten(named.name, 60)} is not in the catalogue: {named.instead} stands in for it{near}"
    yield Hit(message, SAY_MODEL, model_place(subject))


@says_more("CG142", "CG143")
def _of_the_checkpoint(subject: Subject, finding: Finding) -> Hit | None:
    """--quantization beside a checkpoint's own method, which is not known of a model that another stands in for.

    Where the checkpoint overrules it, the server is the same without it.
    """
    if subject.asked.model_assumed:
        return None
    hit = plain(subject, finding)
    return Hit(hit.message, hit.fix, hit.at, edits=drop(subject, "quantization")) if finding.code == "CG142" else hit


def model_place(subject: Subject) -> Located | None:
    """Where the model is named; else where the command starts."""
    args = subject.args
    if args is None or args.model_tag is None:
        return subject.at("model")
    for index in subject.asked.kept[1:]:
        if subject.launch.texts[index] in (args.model_tag, f"--model={args.model_tag}"):
            return at_token(subject, index)
    return subject.start
