"""A text with fixes made: just the edited tokens differ, all else stays byte for byte.

A new text is read again before it is given back. An edit that does not read back as it was meant, or that would change
another server or anything else in the file, is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ....errors import InputError
from ..launch import ConfigText, Launch, Reading, Source
from . import quoting
from .config import config_splices, edited_config, same_settings
from .kinds import CannotEdit, ConfigEdit, Skipped, Splice, TokenEdit, check_apart, spliced
from .outline import same_elsewhere
from .tokens import texts_after, token_splices

Reread = Callable[[Source], Reading]

MAX_READS = 120
"""Most times that a text is read again. Fixes that are good need one; the rest are for finding those that are not."""
MAX_READ = 1_500_000
"""What may be spent on reading again, as of `cost_of`; two times are free."""
MAX_TEXT = 256 * 1024
"""Longest text that is changed, in characters."""


class Rewritten(NamedTuple):
    """A text with fixes made.

    Attributes:
        text: the new text.
        skipped: the edits that are not made in it, in the order given.
        made: how many are.
    """

    text: str
    skipped: tuple[Skipped, ...] = ()
    made: int = 0


class _Change(NamedTuple):
    """One edit. `which` is the launch's among those that the text is read as; None: it stands in another text."""

    launch: Launch
    edit: TokenEdit | ConfigEdit
    which: int | None


def target_of(launch: Launch, edit: TokenEdit | ConfigEdit) -> Source | None:
    """The text that an edit changes; None: the file of --config is not known."""
    if isinstance(edit, TokenEdit):
        return launch.source
    config = _config(launch)
    return None if config is None else config.source or launch.source


def rewritten(
    source: Source,
    changes: Sequence[tuple[Launch, Sequence[TokenEdit | ConfigEdit]]],
    reread: Reread | None = None,
) -> Rewritten:
    """`source` with these edits made.

    Edits of one launch may touch: tokens put in at one place stand in the order of the edits. Of two that change the
    same tokens the first is made; the same edit twice is made once. Nothing is raised: what cannot be done is skipped.

    Args:
        source: the text.
        changes: launches of that text, or with a file of --config that is that text, and their edits.
        reread: reads a text; None: as `launches.read` does, a pasted line as such.
    """
    return _Rewriter(source, reread or read_again).run(changes)


def read_again(source: Source) -> Reading:
    """What a text holds; a pasted line has no name."""
    if source.name:
        from ..reading import read

        return read(source)
    from ..pasted import launch_of_text

    return Reading((launch_of_text(source.text),))


def _config(launch: Launch) -> ConfigText | None:
    return next(iter(launch.files.values())) if len(launch.files) == 1 else None


class _Rewriter:
    """Finds the edits that can be made together."""

    def __init__(self, source: Source, reread: Reread) -> None:
        self.source = source
        self.reread = reread
        self.launches: tuple[Launch, ...] = ()
        self.reads = 0
        self.spent = 0
        self.faults: dict[int, str] = {}
        self.reasons: dict[int, str] = {}

    def run(self, changes: Sequence[tuple[Launch, Sequence[TokenEdit | ConfigEdit]]]) -> Rewritten:
        if any(edits for _, edits in changes) and len(self.source.text) <= MAX_TEXT:
            self.launches = self._read(self.source.text) or ()
        indices = self._indices([launch for launch, _ in changes])
        all_changes = [_Change(launch, edit, indices.get(id(launch))) for launch, edits in changes for edit in edits]
        possible = self._possible(all_changes)
        made, text = self._together(all_changes, possible)
        skipped = tuple(
            Skipped(change.launch, change.edit, self.reasons[number])
            for number, change in enumerate(all_changes)
            if number not in made
        )
        return Rewritten(text, skipped, len(made))

    def _indices(self, launches: Sequence[Launch]) -> dict[int, int]:
        """Of each launch, by its identity, which one it is of those that the text is read as."""
        found: dict[int, int] = {}
        for launch in launches:
            if id(launch) in found or launch.source.text != self.source.text:
                continue
            alike = [index for index, one in enumerate(self.launches) if one.tokens == launch.tokens]
            same = [index for index in alike if self.launches[index].label == launch.label] or alike
            free = [index for index in same if index not in found.values()] or same
            if free:
                found[id(launch)] = free[0]
        return found

    def _possible(self, changes: Sequence[_Change]) -> list[int]:
        """Numbers of the edits that can be written one by one, and do not touch those before."""
        possible: list[int] = []
        own: dict[int, list[_Change]] = {}
        written: dict[int, list[Splice]] = {}
        for number, change in enumerate(changes):
            key = id(change.launch)
            together = [*own.get(key, ()), change]
            reason, splices = self._try(
                change, together, [one for other in written if other != key for one in written[other]]
            )
            if reason:
                self.reasons[number] = reason
            else:
                possible.append(number)
                own[key], written[key] = together, splices
        return possible

    def _try(self, change: _Change, together: Sequence[_Change], others: Sequence[Splice]) -> tuple[str, list[Splice]]:
        """Why an edit cannot be made beside the earlier ones of its launch and those of others; "" where it can."""
        try:
            self._check_target(change)
            splices = self._splices(together)
            check_apart([*dict.fromkeys((*others, *splices))])
        except CannotEdit as error:
            return str(error), []
        return "", splices

    def _check_target(self, change: _Change) -> None:
        target = target_of(change.launch, change.edit)
        if target is None:
            raise CannotEdit("it is in the file of --config; check that one")
        if target is not self.source and target.text != self.source.text:
            raise CannotEdit(f"it is in {target.name or 'another text'}")
        if len(self.source.text) > MAX_TEXT:
            raise CannotEdit(f"the file is longer than {MAX_TEXT // 1024} KiB")
        if isinstance(change.edit, TokenEdit) and change.which is None:
            raise CannotEdit("the file is not read the same way again")

    def _together(self, changes: Sequence[_Change], possible: Sequence[int]) -> tuple[set[int], str]:
        """All of them if that reads back; else as many as do, from the first on, each in the first way that does."""
        made: list[int] = []
        ways: dict[int, int] = {}
        best = self.source.text

        def added(groups: list[list[int]], way: int) -> bool:
            nonlocal made, best
            trial = [*made, *(number for group in groups for number in group)]
            tried = {**ways, **dict.fromkeys(trial[len(made) :], way)}
            text, reason = self._attempt([changes[one] for one in trial], [tried[one] for one in trial])
            if text is not None:
                made, best = trial, text
                ways.update(tried)
                return True
            if len(groups) == 1:
                for number in groups[0]:
                    self.reasons.setdefault(number, reason)
            return False

        waiting = [self._groups(changes, possible)]
        while waiting:
            groups = waiting.pop()
            if not groups or added(groups, 0):
                continue
            if len(groups) > 1:
                middle = len(groups) // 2
                waiting += [groups[middle:], groups[:middle]]
            else:
                any(added(groups, way) for way in quoting.other_ways())
        return set(made), best

    def _groups(self, changes: Sequence[_Change], possible: Sequence[int]) -> list[list[int]]:
        """Edits of several launches that are one change of the text."""
        groups: dict[object, list[int]] = {}
        for number in possible:
            groups.setdefault(tuple(self._splices([changes[number]])), []).append(number)
        return list(groups.values())

    def _attempt(self, changes: Sequence[_Change], ways: Sequence[int] = ()) -> tuple[str | None, str]:
        """The text with these edits, if it reads back as meant; else why not."""
        try:
            splices = self._splices(changes, ways)
            text = spliced(self.source.text, splices)
            key = (text, tuple(id(change) for change in changes))
            if hash(key) not in self.faults:
                self.faults[hash(key)] = self._fault(text, splices, changes)
            reason = self.faults[hash(key)]
        except CannotEdit as error:
            return None, str(error)
        return (None, reason) if reason else (text, "")

    def _splices(self, changes: Sequence[_Change], ways: Sequence[int] = ()) -> list[Splice]:
        """Replacements for these edits, the same one once.

        Raises:
            CannotEdit: they cannot be written.
        """
        launches = {id(change.launch): change.launch for change in changes}
        found: dict[Splice, None] = {}
        for key, launch in launches.items():
            own = [(change.edit, way) for change, way in zip(changes, ways or [0] * len(changes), strict=True)
                   if id(change.launch) == key]  # fmt: skip
            tokens = {edit: way for edit, way in own if isinstance(edit, TokenEdit)}
            found.update(dict.fromkeys(token_splices(launch, list(tokens), list(tokens.values()))))
            config = _config(launch)
            configs = [edit for edit, _ in own if isinstance(edit, ConfigEdit)]
            if configs and config is not None:
                found.update(dict.fromkeys(config_splices(config, self.source.text, configs)))
        return list(found)

    def _fault(self, text: str, splices: Sequence[Splice], changes: Sequence[_Change]) -> str:
        """What is wrong with a new text; "" where it reads back as meant."""
        if self.reads >= MAX_READS or (self.reads > 1 and self.spent > MAX_READ):
            return "too many fixes of this file fail"
        after = self._read(text)
        if after is None or len(after) != len(self.launches):
            return "the file would not read back as meant"
        for index, (old, new) in enumerate(zip(self.launches, after, strict=True)):
            own = [change for change in changes if change.which == index]
            if new.texts != texts_after(old, [change.edit for change in own if isinstance(change.edit, TokenEdit)]):
                return "it would not read back as meant" if own else "another server would change with it"
            if old.environment != new.environment or old.kind != new.kind:
                return "the environment would change with it"
            here = [change for change in changes if change.which in (index, None)]
            configs = [change.edit for change in here if isinstance(change.edit, ConfigEdit)]
            if not _same_files(old.files, new.files, configs):
                return "the file of --config would not read back as meant"
        if not same_elsewhere(self.source.text, text, splices, self.launches):
            return "something else in the file would change with it"
        return ""

    def _read(self, text: str) -> tuple[Launch, ...] | None:
        self.reads += 1
        try:
            launches = self.reread(self.source._replace(text=text)).launches
        except (InputError, ValueError, RecursionError):
            self.spent += len(text)
            return None
        self.spent += cost_of(text, launches)
        return launches


def cost_of(text: str, launches: Sequence[Launch]) -> int:
    """What it cost to read a text, in characters: a server counts for some hundred, and so do a few of its words."""
    return len(text) + sum(200 + 20 * len(launch.tokens) for launch in launches)


def _same_files(
    old: Mapping[str, ConfigText], new: Mapping[str, ConfigText], edits: Sequence[ConfigEdit]
) -> bool:  # fmt: skip
    if old.keys() != new.keys():
        return False
    for name, config in old.items():
        if config.text == new[name].text and not edits:
            continue
        if not same_settings(edited_config(config.text, edits), new[name].text):
            return False
    return True
