"""The launch of a server that a command speaks of: the words behind `--`, a file, or standard input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgplan.errors import CgplanError, InputError, shorten
from cgplan.inputs.safe_json import shown

from . import secrecy
from .options import DeploymentOptions
from .pasted import Pasted

if TYPE_CHECKING:
    from cgplan.inputs.launches import Launch
    from cgplan.inputs.launches.asked import Asked, Located

MOST_JSON = 8 * 2**20
"""Bytes of a JSON file that is looked into; a model's config.json has far fewer."""

MANIFEST_KEYS = {"apiVersion", "kind", "items", "services"}
"""A JSON object with one of them is no config.json."""

SUFFIXES = (".yaml", ".yml", ".sh", ".bash", ".slurm", ".sbatch", ".service", ".dockerfile", ".md", ".txt")
NAMES = ("dockerfile", "containerfile", "compose", "docker-compose")
MOST_LISTED = 8


def taken(options: DeploymentOptions, line: Pasted, which: str | None) -> Launch | None:
    """The launch that the command names, or None: it has options only. A file is taken out of the options.

    Raises:
        InputError: the file cannot be read, starts no server, or starts several of which none is chosen.
    """
    name = options.model_tag
    from_file = name is not None and is_launch_file(name)
    if line.words is not None:
        if from_file:
            raise InputError(
                f"{shown(str(name))} and the line behind -- are two launches", code="CG907", where="--",
                fix="drop one of the two",
            )  # fmt: skip
        found = [_of_words(line.words)]
    elif name is not None and from_file:
        options.model_tag = None
        found = _read(name)
    elif which is not None:
        raise InputError(
            "--launch chooses among the servers of a file, and no file is given", code="CG905", where="--launch",
            fix="give the file, as in deploy.yaml --launch 2",
        )  # fmt: skip
    else:
        return None
    secrecy.remember(found)
    return _one(found, which, name or "--")


def is_launch_file(name: str) -> bool:
    """Whether a word by position is a file that starts servers, not a model. "-" is standard input.

    A file that is not there is one by its name: the error is then about files, not about models.
    """
    if name == "-":
        return True
    path = Path(name)
    try:
        if path.is_file():
            return not _is_model_config(path)
        there = path.exists()
    except (OSError, ValueError):
        return False
    return not path.is_dir() if there else _is_named_like_one(name)


def _is_named_like_one(name: str) -> bool:
    """Whether the name is one of a manifest, a script or a unit."""
    last = name.rpartition("/")[2].casefold()
    return last.endswith(SUFFIXES) or last.partition(".")[0] in NAMES


def placed(error: CgplanError, asked: Asked) -> CgplanError:
    """The same error; where it speaks of what stands in a file, it says the line and the column.

    An error over a launch of the command line stays as it is.
    """
    if asked.launch.source.name and not getattr(error, "is_placed", False):
        from cgplan.check.places import place_of
        from cgplan.check.subject import Subject

        error.where = _with_place(place_of(Subject(asked), error.where), error)
        vars(error)["is_placed"] = True
    return error


def why_not(asked: Asked) -> CgplanError | None:
    """Why vLLM would not take the launch, with its place; None: it would."""
    from cgplan.inputs.serve_args_errors import ArgumentRefused

    if not asked.refused:
        return asked.problem
    error, at = asked.refused[0], asked.refused_at[0]
    if isinstance(error, ArgumentRefused) and asked.release not in error.message:
        error.message = f"{error.message} (vLLM {asked.release})"
    error.fix = error.fix or "leave it out, or write it as that release has it"
    if at is not None and at.source.name:
        error.where = written(at)
        vars(error)["is_placed"] = True
    return placed(error, asked)


def where_from(launch: Launch) -> list[str]:
    """What was read, and what its reader noticed, one line each; nothing of a line that was typed."""
    if not launch.source.name:
        return []
    label = f", {titled(launch)}" if launch.label else ""
    found = [f"Read: {_name(launch.source.name)}:{_line(launch)}{label}."]
    for remark in launch.remarks:
        line = f"line {remark.span.line}: " if remark.span is not None else ""
        found.append(f"Read: {line}{remark.message}")
    return found


def _name(name: str) -> str:
    return "stdin" if name == "-" else shown(name)


def written(at: Located) -> str:
    """A place as `file:line:column`."""
    return f"{_name(at.source.name)}:{at.span.line}:{at.span.column}"


def titled(launch: Launch) -> str:
    """A launch in the words of a list: its label, else its line."""
    return shorten(" ".join(launch.label.split()), 60) or f"line {_line(launch)}"


def _line(launch: Launch) -> int:
    return next((token.span.line for token in launch.tokens if token.style != "made"), 1)


def _with_place(at: Located | None, error: CgplanError) -> str | None:
    if at is None:
        return error.where
    return written(at) if error.where is None or error.where in error.message else f"{written(at)} {error.where}"


def _is_model_config(path: Path) -> bool:
    """A JSON object that is no manifest. What cannot be read is left to the reader, for its error."""
    if path.suffix != ".json":
        try:
            with path.open("rb") as file:
                head = file.read(512).lstrip()
        except OSError:
            return False
        if not head.startswith(b"{") or head.startswith(b"{{"):
            return False
    if path.stat().st_size > MOST_JSON:
        return True
    try:
        document: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return True
    return isinstance(document, dict) and not MANIFEST_KEYS & document.keys()


def _of_words(words: Sequence[str]) -> Launch:
    from cgplan.inputs.launches import launch_of

    if not words:
        raise InputError(
            "nothing stands behind --", code="CG905", where="--", fix="write -- vllm serve MODEL ..."
        )  # fmt: skip
    return launch_of(words)


def _read(name: str) -> list[Launch]:
    from cgplan.inputs.launches.files import load
    from cgplan.inputs.launches.reading import read

    found = read(load(name))
    if found.launches:
        return list(found.launches)
    remark = found.remarks[0] if found.remarks else None
    more = f": {remark.message}" if remark is not None and "no vLLM server" not in remark.message else ""
    raise InputError(
        f"{_name(name)} starts no vLLM server{more}",
        code="CG911",
        where=shown(name),
        fix=(remark.fix if remark is not None else None) or "give a manifest, script or unit that runs `vllm serve`",
    )


def _one(found: Sequence[Launch], which: str | None, name: str) -> Launch:
    if which is not None:
        return _chosen(found, which)
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"{_name(name)} starts {len(found)} servers", code="CG905", where=shown(name),
        fix=f"choose one with --launch: {_listed(found)}",
    )  # fmt: skip


def _chosen(found: Sequence[Launch], which: str) -> Launch:
    wanted = " ".join(which.split()).casefold()
    if wanted.isascii() and wanted.isdecimal():
        if 1 <= int(wanted[:9]) <= len(found):
            return found[int(wanted[:9]) - 1]
        servers, some = ("1 server", "") if len(found) == 1 else (f"{len(found)} servers", "one of ")
        raise InputError(
            f"--launch {shorten(wanted, 40)}: the file has {servers}", code="CG905", where="--launch",
            fix=f"give {some}{_listed(found)}",
        )  # fmt: skip
    labels = [" ".join(launch.label.split()).casefold() for launch in found]
    same = [launch for launch, label in zip(found, labels, strict=True) if label == wanted]
    near = same or [launch for launch, label in zip(found, labels, strict=True) if wanted and wanted in label]
    if len(near) == 1:
        return near[0]
    what = f"fits {len(near)} servers" if near else "is no server of the file"
    raise InputError(
        f"--launch {shorten(which, 40)} {what}", code="CG905", where="--launch", fix=f"give one of {_listed(found)}"
    )


def _listed(found: Sequence[Launch]) -> str:
    lines = [f"{number} ({titled(launch)})" for number, launch in enumerate(found, 1)]
    more = f" and {len(lines) - MOST_LISTED} more" if len(lines) > MOST_LISTED else ""
    return ", ".join(lines[:MOST_LISTED]) + more
