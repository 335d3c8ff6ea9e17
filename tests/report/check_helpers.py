"""Results of a check, made by hand: a text, one server in it, and findings at words of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cgplan.check.diagnostic import Diagnostic, Related, TokenEdit
from cgplan.inputs.launches import EnvVariable, Launch, LaunchToken, Source, Span
from cgplan.inputs.launches.asked import Located
from cgplan.report.check_results import FileResult, LaunchResult, Origin, Outcome
from cgplan.report.check_secrets import secrets_of

RESOLUTION = {
    "runner": "V1",
    "compilation_mode": "VLLM_COMPILE",
    "requested_mode": "FULL_AND_PIECEWISE",
    "cudagraph_mode": "FULL_AND_PIECEWISE",
    "decode_mode": "FULL",
    "mixed_mode": "PIECEWISE",
    "backend": "FLASH_ATTN",
    "graphs": {"FULL": 35, "PIECEWISE": 51, "total": 86},
    "capture_sizes": [1, 2, 4],
    "max_cudagraph_capture_size": 4,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "max_model_len": 40960,
}

TEXT = """\
args:
  - vllm
  - serve
  - Qwen/Qwen3-8B
  - --max-num-seqs
  - "300"
  - --bogus=1
"""


def at(source: Source, words: str, start: int = 0) -> Located:
    """The place of `words` in the text."""
    first = source.text.index(words, start)
    return Located(source, source.span(first, first + len(words)))


def finding(place: Located | None, code: str = "CG905", severity: str = "error", **more: Any) -> Diagnostic:
    given = {"message": "there is no option --bogus", "why": "because", "fix": "drop it", **more}
    return Diagnostic(code, severity, at=place, **given)


def launch_in(source: Source, words: Sequence[str], label: str = "", env: Sequence[EnvVariable] = ()) -> Launch:
    """A server whose tokens are these words of the text, in order."""
    tokens, start = [], 0
    for word in words:
        first = source.text.index(word, start)
        start = first + len(word)
        tokens.append(LaunchToken(word.strip("\"'"), source.span(first, start), "item"))
    return Launch(source, "kubernetes", label, tuple(tokens), tuple(env))


def outcome(starts: bool | None = True, **more: Any) -> Outcome:
    given = {
        "vllm": Origin("0.25.1", "file"),
        "gpu": Origin("NVIDIA H100 80GB HBM3", "assumed"),
        "model": Origin("Qwen/Qwen3-8B", "file"),
        "resolution": RESOLUTION if starts is not None else None,
        **more,
    }
    return Outcome(starts=starts, **given)


def file_of(
    text: str = TEXT,
    name: str = "deploy.yaml",
    words: Sequence[str] = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", '"300"', "--bogus=1"),
    findings: Sequence[tuple[str, dict[str, Any]]] = (("--bogus=1", {}),),
    label: str = "Deployment qwen, container vllm",
    **more: Any,
) -> FileResult:
    """A file with one server. Each finding is the words it stands at ("" for no place), and fields of Diagnostic."""
    source = Source(name, text)
    launch = launch_in(source, words, label, more.pop("env", ()))
    made = tuple(finding(at(source, where) if where else None, **fields) for where, fields in findings)
    result = LaunchResult(launch, more.pop("outcome", outcome()), ("GPU: assumed.",), ("x is not modelled.",), made)
    return FileResult(name, source, (result,), secrets=secrets_of(source, [launch]), **more)


__all__ = ["Related", "Source", "Span", "TokenEdit", "at", "file_of", "finding", "launch_in", "outcome"]
