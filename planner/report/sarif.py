"""A check as SARIF 2.1.0, the interchange format of static analysis."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .._version import __version__
from ..check.diagnostic import Diagnostic, Related
from ..errors import CgplanError
from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Launch, Source
from ..rules import all_rules
from ..trace import RULES
from .check_places import line_text, region, region_of
from .check_results import LINE, NAMES, FileResult, forward
from .rules import parts_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
ROOT = "%SRCROOT%"
FINGERPRINT = "cgplan/v1"
MAX_LINE = 2000
"""Characters of a line by which a finding is known again."""

Mender = Callable[[Source, Launch, Diagnostic], "str | None"]
"""The text of a source after the edits of a diagnostic, or None where they cannot be made."""


def log(files: Sequence[FileResult], mender: Mender | None = None) -> dict[str, Any]:
    """The document.

    Args:
        files: what was found.
        mender: makes the edits of a diagnostic; without it the document holds no fixes.
    """
    all_rules()
    codes = sorted({one.code for file in files for one in file.all()} | {f.error.code for f in files if f.error})
    index = {code: number for number, code in enumerate(codes)}
    counts: Counter[str] = Counter()
    results = [
        _result(file, launch, one, index, counts, mender)
        for file in files
        for launch, one in _all(file)
    ]  # fmt: skip
    unreadable = [_notification(file, file.error) for file in files if file.error is not None]
    invocation: dict[str, Any] = {"executionSuccessful": not unreadable}
    if unreadable:
        invocation["toolExecutionNotifications"] = unreadable
    driver = {"name": "cgplan", "version": __version__, "rules": [_rule(code) for code in codes]}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "columnKind": "utf16CodeUnits",
                "results": results,
            }
        ],
    }


def _all(file: FileResult) -> Iterable[tuple[Launch | None, Diagnostic]]:
    for launch in file.launches:
        yield from ((launch.launch, one) for one in launch.diagnostics)
    yield from ((None, one) for one in file.diagnostics)


def _rule(code: str) -> dict[str, Any]:
    rule = RULES.get(code)
    if rule is None:
        return {"id": code, "shortDescription": {"text": code}}
    parts = parts_of(rule)
    return {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": "\n".join([rule.title, *(f"{name}: {text}" for name, text in parts)]),
            "markdown": "\n\n".join([f"**{rule.title}**", *(f"**{name}**: {text}" for name, text in parts)]),
        },
    }


def _result(
    file: FileResult,
    launch: Launch | None,
    one: Diagnostic,
    index: dict[str, int],
    counts: Counter[str],
    mender: Mender | None,
) -> dict[str, Any]:
    mask = file.secrets.mask
    message = mask(one.message) + (f"\nfix: {mask(one.fix)}" if one.fix else "")
    message += f"\n{mask(one.flag)}" if one.flag else ""
    found: dict[str, Any] = {
        "ruleId": one.code,
        "ruleIndex": index[one.code],
        "level": LEVELS[one.severity],
        "message": {"text": message},
        "locations": [_location(file, one.at)],
        "partialFingerprints": {FINGERPRINT: _fingerprint(file, launch, one, counts)},
    }
    if one.related:
        found["relatedLocations"] = [_related(file, related) for related in dict.fromkeys(one.related)]
    fix = _fix(file, launch, one, mender) if launch is not None and mender is not None and one.edits else None
    if fix is not None:
        found["fixes"] = [fix]
    return found


def _related(file: FileResult, related: Related) -> dict[str, Any]:
    return {**_location(file, related.at), "message": {"text": file.secrets.mask(related.message)}}


def _location(file: FileResult, at: Located | None) -> dict[str, Any]:
    name = at.source.name if at is not None else file.name
    physical: dict[str, Any] = {"artifactLocation": artifact(name)}
    if at is not None:
        physical["region"] = _region(*region_of(at, utf16=True))
    found: dict[str, Any] = {"physicalLocation": physical}
    if name in NAMES:
        found["logicalLocations"] = [{"name": NAMES[name], "kind": "resource"}]
    return found


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def artifact(name: str) -> dict[str, Any]:
    """Where a source is: relative to the working folder where it lies below it; what is no file has words only."""
    if name in NAMES:
        return {"description": {"text": "a command line" if name == LINE else NAMES[name]}}
    path = forward(name)
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(path, errors="surrogateescape"), "uriBaseId": ROOT}


def _fingerprint(file: FileResult, launch: Launch | None, one: Diagnostic, counts: Counter[str]) -> str:
    """The same for the same finding of the same line, wherever the line has moved to."""
    line = line_text(one.at.source, one.at.span.start).strip()[:MAX_LINE] if one.at is not None else ""
    line = file.secrets.mask(line)
    label = launch.label if launch is not None and not launch.label.startswith("line ") else ""
    text = "\0".join((one.code, forward(file.name) if file.name not in NAMES else file.name, label, line))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    counts[digest] += 1
    return f"{digest}:{counts[digest]}"


def _fix(file: FileResult, launch: Launch | None, one: Diagnostic, mender: Mender | None) -> dict[str, Any] | None:
    source = file.source
    text = mender(source, launch, one) if mender is not None and source is not None and launch is not None else None
    if source is None or text is None or text == source.text or source.name in NAMES:
        return None
    start, end, inserted = change(source.text, text)
    if file.secrets.mask(inserted) != inserted:
        return None
    description = file.secrets.mask(one.fix or one.flag or one.message)
    return {
        "description": {"text": description},
        "artifactChanges": [
            {
                "artifactLocation": artifact(source.name),
                "replacements": [
                    {
                        "deletedRegion": _region(*region(source, start, end, utf16=True)),
                        "insertedContent": {"text": inserted},
                    }
                ],
            }
        ],
    }


def change(before: str, after: str) -> tuple[int, int, str]:
    """The one stretch of `before` that has to be replaced, and by what."""
    least = min(len(before), len(after))
    start = next((at for at in range(least) if before[at] != after[at]), least)
    same = next((at for at in range(least - start) if before[-1 - at] != after[-1 - at]), least - start)
    return start, len(before) - same, after[start : len(after) - same]


def _notification(file: FileResult, error: CgplanError) -> dict[str, Any]:
    text = file.secrets.mask(error.message + (f"\nfix: {error.fix}" if error.fix else ""))
    return {
        "level": "error",
        "message": {"text": text},
        "locations": [_location(file, None)],
        "associatedRule": {"id": error.code},
    }
