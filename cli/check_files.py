"""Reads what `cgplan check` is given, file by file, and checks every server in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_type_hints

from cgplan.check import Context, check_launch
from cgplan.check.launch_remarks import of_source
from cgplan.check.selection import ALL, Selection, read_codes
from cgplan.check.suppress import silence
from cgplan.errors import CgplanError, InputError
from cgplan.inputs import settings as project
from cgplan.inputs.launches import Reading, Remark, Source, launch_of, read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.safe_json import shown
from cgplan.inputs.settings import Settings
from cgplan.report.check_results import LINE, STDIN, FileResult, LaunchResult, launch_result
from cgplan.report.check_secrets import secrets_of

from .context import context_of
from .options import DeploymentOptions

FLAGS = {"vllm": "--vllm", "gpu": "--gpu", "model": "--model", "gpus_per_node": "--gpus-per-node", "env": "--env",
         "software": "--software"}  # fmt: skip
"""Options that settings may give, by their name there."""


NOT_A_TEXT = "CG911"


def speaks_of_vllm(path: str) -> bool:
    """Whether a file that is no UTF-8 text has vLLM's name in it, in one or in two bytes a letter."""
    try:
        with open(path, "rb") as file:
            data = file.read(2**20).lower()
    except OSError:
        return False
    return b"vllm" in data or b"v\0l\0l\0m" in data


class Wanted(NamedTuple):
    """What was asked for beside the files.

    Attributes:
        options: of the deployment.
        select, ignore: codes as typed.
        exclude: patterns of paths that are not walked.
        settings: in the place of those that would be found, or None.
    """

    options: DeploymentOptions
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    settings: Settings | None = None


class Checker:
    """Checks files one by one. What is said of all of them is worked out once."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.select = read_codes(wanted.select, "--select")
        self.ignore = read_codes(wanted.ignore, "--ignore")
        self._contexts: dict[Settings, tuple[Context, tuple[str, ...]]] = {}
        self._selections: dict[tuple[Settings, tuple[str, ...]], Selection] = {}
        self.context(self.settings("."))

    def settings(self, folder: str) -> Settings:
        """The project's settings for files in `folder`."""
        return self.wanted.settings or project.settings_of(Path(folder))

    def context(self, settings: Settings) -> tuple[Context, tuple[str, ...]]:
        """What is said beside the files, and which of "vllm", "gpu" and "model" are."""
        found = self._contexts.get(settings)
        if found is None:
            options = _with_settings(self.wanted.options, settings)
            try:
                context = context_of(options)
            except CgplanError as error:
                raise _of_settings(error, self.wanted.options, settings) from None
            said = (("vllm", context.release), ("gpu", context.gpu), ("model", context.model))
            found = self._contexts[settings] = (context, tuple(name for name, value in said if value is not None))
        return found

    def selection(self, settings: Settings, path: str) -> Selection:
        """Which codes are wanted of a file. What is typed counts before the settings."""
        ignored = settings.ignored_in(path) if path not in (STDIN, LINE) else settings.ignore
        if self.wanted.select:
            ignored = ignored[len(settings.ignore) :]
        found = self._selections.get((settings, ignored))
        if found is None:
            select = self.select or read_codes(settings.select or (), f"{settings.file}: select") or (ALL,)
            codes = read_codes(ignored, f"{settings.file}: ignore") if ignored else ()
            found = self._selections[settings, ignored] = Selection(select, (*self.ignore, *codes))
        return found

    def files(self, given: Sequence[str]) -> Iterator[FileResult]:
        """Check files, and those in folders."""
        for path, named in self._walk(given):
            found = self.path(path, named) if isinstance(path, str) else path
            if found is not None:
                yield found

    def _walk(self, given: Sequence[str]) -> Iterator[tuple[str | FileResult, bool]]:
        """Paths, and whether each was named itself; a folder that cannot be walked as what is to be said of it."""
        seen: set[str] = set()
        for name in given:
            if name == STDIN or not os.path.isdir(name):
                if name not in seen:
                    seen.add(name)
                    yield name, True
                continue
            from cgplan.inputs.launches.files import walk

            settings = self.settings(name)
            try:
                for found, reason in walk([name], (*self.wanted.exclude, *settings.exclude)):
                    path = os.path.normpath(found)
                    if path not in seen and not self._is_excluded(path):
                        seen.add(path)
                        yield (path if reason is None else FileResult(path, None, passed_over=reason)), False
            except CgplanError as error:
                yield FileResult(name, None, error=error), True

    def _is_excluded(self, path: str) -> bool:
        if any(project.matches(pattern, path, Path.cwd()) for pattern in self.wanted.exclude):
            return True
        return self.settings(os.path.dirname(path) or ".").excludes(path)

    def path(self, path: str, named: bool = True) -> FileResult | None:
        """Check one file. None: it was met on a walk, and starts no server."""
        from cgplan.inputs.launches.files import load

        try:
            source = load(path)
        except CgplanError as error:
            if not named and error.code == NOT_A_TEXT and not speaks_of_vllm(path):
                return FileResult(path, None, passed_over="not UTF-8")
            return FileResult(path, None, error=error)
        found = self.source(source, named)
        if named or found.launches:
            return found
        if found.error is not None:
            return found if "vllm" in source.text.casefold() else None
        if any(remark.kind == "template" for remark in found.remarks):
            return FileResult(path, None, passed_over="template")
        return None

    def source(self, source: Source, named: bool = True) -> FileResult:
        """Check the servers of one text."""
        if source.name == STDIN and not source.text.strip("\ufeff \t\r\n\v\f"):
            return FileResult(source.name, source, error=_nothing_came())
        try:
            reading = read(source)
        except CgplanError as error:
            return FileResult(source.name, source, error=error)
        if named and not reading.launches and not reading.remarks:
            reading = Reading((), (Remark("no_launch", "no vLLM server is started here"),))
        return self._reading(source, reading)

    def line(self, words: Sequence[str]) -> FileResult:
        """Check a command line."""
        launch = launch_of(words)
        return self._reading(launch.source, Reading((launch,)))

    def _reading(self, source: Source, reading: Reading) -> FileResult:
        is_file = source.name not in (STDIN, LINE) and not source.name.startswith(("/dev/", "/proc/"))
        folder = os.path.dirname(source.name) if is_file else "."
        settings = self.settings(folder or ".")
        context, given = self.context(settings)
        selection = self.selection(settings, source.name)
        reports = [check_launch(ask(launch, context)) for launch in reading.launches]
        told = list(of_source(source, reading.remarks)) if reports else []
        found = [*(one for report in reports for one in report.diagnostics), *told]
        silenced = silence(source, found)
        kept = iter(silenced.kept)
        launches: list[LaunchResult] = []
        for report in reports:
            said = [one for one in report.diagnostics if next(kept) and selection.takes(one.code)]
            launches.append(launch_result(report, said, given))
        told = [one for one in told if next(kept)]
        further = tuple(one for one in (*told, *silenced.further) if reports and selection.takes(one.code))
        return FileResult(
            source.name, source, tuple(launches), reading.remarks, further, None, secrets_of(source, reading.launches)
        )


def _with_settings(options: DeploymentOptions, settings: Settings) -> DeploymentOptions:
    """`options`, and what the settings say where an option was not typed; pairs are put in front of those typed."""
    found = DeploymentOptions()
    for name in get_type_hints(DeploymentOptions):
        setattr(found, name, getattr(options, name))
    for name, value in project.as_options(settings):
        typed = getattr(found, name)
        if isinstance(value, list):
            names = {text.partition("=")[0] for text in typed or ()}
            setattr(found, name, [one for one in value if one.partition("=")[0] not in names] + (typed or []))
        elif typed is None:
            setattr(found, name, value)
    return found


def _of_settings(error: CgplanError, options: DeploymentOptions, settings: Settings) -> CgplanError:
    """The same error; where a setting is to blame, it says so."""
    for name, _ in project.as_options(settings):
        if error.where == FLAGS[name] and getattr(options, name) is None:
            error.where = f"{settings.file}: {name.replace('_', '-')}"
            error.fix = error.fix or f"mend the setting, or give {FLAGS[name]}"
    return error


def _nothing_came() -> InputError:
    """An empty file may be meant; a pipe that brings nothing is one whose other end failed."""
    return InputError(
        "standard input is empty",
        code="CG911",
        where=STDIN,
        fix="see why what feeds it wrote nothing, or name the file",
    )


def masked(file: FileResult) -> CgplanError | None:
    """The error of a file, with its name and without secrets."""
    error = file.error
    if error is None:
        return None
    mask = file.secrets.mask
    name = shown(file.shown)
    where = error.where if error.where and name in error.where else f"{name}: {error.where or ''}".rstrip(": ")
    return InputError(
        mask(error.message), code=error.code, where=mask(where), fix=mask(error.fix) if error.fix else None
    )
