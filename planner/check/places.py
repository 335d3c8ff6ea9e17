"""From the way in which rules name a setting, "--max-num-seqs" or "-cc.cudagraph_mode", to its place in the text."""

from __future__ import annotations

from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Span
from .subject import Subject

SHORT = {"-cc": "compilation_config", "-ac": "attention_config", "-sc": "speculative_config"}

ALSO = {
    "cudagraph_mode": ("compilation_config",),
    "cudagraph_capture_sizes": ("cudagraph_capture_sizes", "compilation_config"),
    "max_cudagraph_capture_size": ("max_cudagraph_capture_size", "compilation_config"),
    "attention_backend": ("attention_backend", "attention_config"),
    "spec_method": ("spec_method", "speculative_config"),
    "spec_tokens": ("spec_tokens", "speculative_config"),
    "spec_model": ("spec_model", "speculative_config"),
}
"""Settings that may stand in more than one option."""


def place_of(subject: Subject, where: str | None) -> Located | None:
    """The place of the setting that `where` names; else the start of the command."""
    if not where:
        return subject.start
    first = where.split()[0].removeprefix("--env").strip() or where
    if subject.variable(first) is not None:
        return subject.at_variable(first)
    option = first.partition(".")[0]
    dest = SHORT.get(option) or option.lstrip("-").replace("-", "_")
    key = first.rpartition(".")[2] if "." in first else dest
    dests = (*ALSO.get(key, ()), *ALSO.get(dest, ()), dest)
    flag = subject.flags.by_option.get(option)
    if flag is not None:
        dests = (*dests, flag.dest)
    return subject.at(*dests)


def span_of_options(subject: Subject, first: int, last: int) -> Located:
    """The stretch from token `first` to token `last` of the launch."""
    tokens = subject.launch.tokens
    start, end = tokens[first].span, tokens[last].span
    return Located(subject.launch.source, Span(start.start, end.end, start.line, start.column))
