"""What `cgplan check --fix` does: the changes of all findings, as a diff or into the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cgplan.check.diagnostic import ConfigEdit, Diagnostic, TokenEdit
from cgplan.errors import InputError
from cgplan.inputs.launches import Launch, Reading, Source
from cgplan.inputs.launches.edit.rewrite import Rewritten, cost_of, read_again, rewritten, target_of
from cgplan.report.check_results import LINE, FileResult

from . import streams
from .streams import put

Change = tuple[Launch, Diagnostic]


class Mended(NamedTuple):
    """A text with fixes made.

    Attributes:
        source: as it was.
        text: as it becomes.
        file: what was found in it.
        made: findings that are mended.
        left: findings with a change that cannot be made, and why.
    """

    source: Source
    text: str
    file: FileResult
    made: tuple[Diagnostic, ...]
    left: tuple[tuple[Diagnostic, str], ...]


def mend(files: Sequence[FileResult], unsafe: bool) -> list[Mended]:
    """Make the changes of every finding, text by text."""
    targets: dict[tuple[str, str], tuple[Source, FileResult, list[Change]]] = {}
    for file in files:
        for launch, one in _fixable(file, unsafe):
            source = target_of(launch, one.edits[0]) or launch.source
            found = targets.setdefault((source.name, source.text), (source, file, []))
            found[2].append((launch, one))
    return [_mend(*target) for target in targets.values()]


def _fixable(file: FileResult, unsafe: bool) -> Iterator[Change]:
    for launch in file.launches:
        for one in launch.diagnostics:
            if one.edits and (one.safe or unsafe):
                yield launch.launch, one


def _mend(source: Source, file: FileResult, changes: Sequence[Change]) -> Mended:
    """A finding is mended whole or not at all."""
    wanted = list(changes)
    left: list[tuple[Diagnostic, str]] = []
    known = Reading(tuple(result.launch for result in file.launches), file.remarks)

    def read(again: Source) -> Reading:
        return known if file.source is not None and again == file.source else read_again(again)

    while True:
        result = rewritten(source, _by_launch(wanted), read)
        reasons = [_reason(result, launch, one) for launch, one in wanted]
        failed = [(one, reason) for (_, one), reason in zip(wanted, reasons, strict=True) if reason]
        left += failed
        wanted = [change for change, reason in zip(wanted, reasons, strict=True) if not reason]
        if not any(len(one.edits) > 1 for one, _ in failed):
            return Mended(source, result.text, file, tuple(one for _, one in wanted), tuple(left))


def _by_launch(changes: Iterable[Change]) -> list[tuple[Launch, list[TokenEdit | ConfigEdit]]]:
    found: dict[int, tuple[Launch, list[TokenEdit | ConfigEdit]]] = {}
    for launch, one in changes:
        found.setdefault(id(launch), (launch, []))[1].extend(one.edits)
    return list(found.values())


def _reason(result: Rewritten, launch: Launch, one: Diagnostic) -> str:
    """Why a finding is not mended, or not wholly; "" where it is."""
    return next((s.reason for s in result.skipped if s.launch is launch and s.edit in one.edits), "")


MAX_READ = 1_500_000
"""What may be spent on one text, as of `cost_of`, to offer the fixes of its findings one by one."""


class Alone:
    """Makes the changes of findings one by one. Each needs the text to be read again, so that many in a long text are
    too much; those that come later are then not made."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.reading: Reading | None = None
        self.left = MAX_READ

    def __call__(self, source: Source, launch: Launch, one: Diagnostic) -> str | None:
        """`source` with the changes of one finding; None where they cannot be made in it."""
        if source.text is not self.text:
            self.text, self.reading, self.left = source.text, None, MAX_READ
        if self.left <= 0 or any(target_of(launch, edit) != source for edit in one.edits):
            return None
        result = rewritten(source, [(launch, one.edits)], self._read)
        return None if result.skipped else result.text

    def _read(self, source: Source) -> Reading:
        """What a text holds; of the text as it is, what it held before."""
        if source.text != self.text:
            reading = read_again(source)
            self.left -= cost_of(source.text, reading.launches)
            return reading
        self.reading = self.reading or read_again(source)
        return self.reading


def print_diff(mended: Iterable[Mended]) -> None:
    """The changes as a unified diff; a line that was pasted is printed as it should be."""
    from cgplan.inputs.launches.edit.write_back import diff_of

    hidden = False
    for one in mended:
        if one.text == one.source.text:
            continue
        diff = f"{one.text}\n" if one.source.name == LINE else diff_of(one.source, one.text)
        shown = "".join(one.file.secrets.mask(line, in_file=True) for line in diff.splitlines(keepends=True))
        hidden = hidden or shown != diff
        put(shown)
    if hidden:
        streams.say("keys and passwords are masked, so that the diff cannot be applied; --write makes the changes")


def write(mended: Iterable[Mended]) -> tuple[list[Mended], list[InputError]]:
    """Write the new texts into their files. Returns those that are changed, and why others could not be.

    A file that cannot be written, or is no longer what was read, does not stop the others.
    """
    from cgplan.inputs.launches.edit.write_back import write_back

    changed, errors = [], []
    for one in mended:
        if one.text == one.source.text:
            continue
        try:
            write_back(one.source.name, one.source, one.text)
            changed.append(one)
        except InputError as error:
            errors.append(error)
    return changed, errors


def say_left(mended: Iterable[Mended]) -> None:
    """One line on stderr for each change that could not be made."""
    for one in mended:
        for finding, reason in one.left:
            where = one.file.shown
            if finding.at is not None:
                where = f"{finding.at.source.name or one.file.shown}:{finding.at.span.line}:{finding.at.span.column}"
            streams.say(f"{where}: {finding.code} not changed: {reason}")
