"""Errors that a person reads: what is wrong, where, and how to fix it, each on one line."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable
from typing import Any


class CgplanError(Exception):
    """Base of every error that cgplan raises on purpose.

    Attributes:
        code: stable code, for `cgplan explain`.
        message: what is wrong, one line.
        where: the flag, field or file:line it concerns, or None.
        fix: what to do, one line, or None.
    """

    def __init__(self, message: str, *, code: str = "CG900", where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = _one_line(message)
        self.where = _one_line(where) if where else None
        self.fix = as_fix(fix) if fix else None

    def as_dict(self) -> dict[str, str | None]:
        return {"code": self.code, "message": self.message, "where": self.where, "fix": self.fix}

    def __str__(self) -> str:
        return self.message


class InputError(CgplanError):
    """What was given cannot be read or is not known; vLLM was never asked."""


class NoRoomError(InputError):
    """A file whose name is good takes no more: a full disk, a quota, a limit on its size. The exit status is 74."""


NO_ROOM = frozenset(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name))


def cannot_read(error: Exception, shown: str, fix: str, *, code: str = "CG910") -> InputError:
    """The error to raise where a file cannot be read; of one that is not there every command says the same.

    Args:
        error: an OSError, or a ValueError: the name is no path.
        shown: the file's name, short and printable.
        fix: what to give instead.
    """
    if isinstance(error, FileNotFoundError):
        return InputError(f"{shown}: no such file or folder", code=code, where=shown, fix=fix)
    reason = getattr(error, "strerror", None) or "no valid path"
    return InputError(f"cannot read {shown}: {reason}", code=code, where=shown, fix=fix)


def cannot_write(error: OSError | ValueError, shown: str, where: str, fix: str, *, kept: str = "") -> InputError:
    """The error to raise where a file cannot be written.

    Args:
        shown: the file's name, short.
        fix: what to do where the name is at fault.
        kept: what became of what was there, put behind the reason.
    """
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    message = f"{shown} cannot be written: {reason}{kept}"
    if getattr(error, "errno", None) in NO_ROOM:
        return NoRoomError(message, code="CG910", where=where, fix="make room, or name a file elsewhere")
    return InputError(message, code="CG910", where=where, fix=fix)


class StartupError(CgplanError):
    """vLLM itself would refuse to start with this deployment.

    Attributes:
        stage: the step of vLLM's start that refuses, in the vocabulary of the golden records.
        raised_as: the name of the exception type that vLLM's caller sees.
        raised_in: the vLLM config class or function that raises.
        settings: vLLM's settings by its own names, where the configuration stood before the refusal; else None.
    """

    settings: dict[str, Any] | None = None

    def __init__(
        self,
        message: str,
        *,
        code: str,
        stage: str = "create_engine_config",
        raised_as: str = "ValidationError",
        raised_in: str = "VllmConfig",
        where: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message, code=code, where=where, fix=fix)
        self.stage = stage
        self.raised_as = raised_as
        self.raised_in = raised_in

    def as_dict(self) -> dict[str, str | None]:
        return {
            **super().as_dict(),
            "stage": self.stage,
            "raised_as": self.raised_as,
            "raised_in": self.raised_in,
        }


NEAR = 0.6
"""Least likeness of a name that is suggested, 0 to 1; 1 is the same."""

MUCH_LESS_LIKE = 0.2
"""A name so much less like than the best one is not suggested beside it."""


def nearest(name: str, known: Iterable[str], count: int = 3, least: float = NEAR) -> list[str]:
    """The known names most like `name`, best first; case, `-`/`_` and leading dashes do not count.

    Names that begin with it come before others. `least`: the likeness that a name has at least, 0 to 1.
    """

    def fold(text: str) -> str:
        return text.casefold().replace("-", "_").replace(" ", "_").lstrip("_")[:200]

    folded: dict[str, str] = {}
    for item in known:
        folded.setdefault(fold(item), item)
    wanted = fold(name)
    near = difflib.get_close_matches(wanted, folded, n=count, cutoff=least)
    scores = [difflib.SequenceMatcher(None, item, wanted).ratio() for item in near]
    alike = [item for item, score in zip(near, scores, strict=True) if score >= scores[0] - MUCH_LESS_LIKE]
    return [folded[item] for item in sorted(alike, key=lambda item: not item.startswith(wanted))]


CLEARLY = 0.05
"""By so much the likeness of one name has to be above that of the next, for the one to be meant."""


def clearly_nearest(name: str, known: Iterable[str]) -> str | None:
    """The one known name that `name` is a slip of; None where several may be meant, or none."""
    near = nearest(name, known)
    if len(near) < 2:
        return near[0] if near else None

    def likeness(item: str) -> float:
        return difflib.SequenceMatcher(None, item.casefold(), name.casefold()[:200]).ratio()

    first, *others = near
    return first if all(likeness(first) >= likeness(other) + CLEARLY for other in others) else None


def did_you_mean(name: str, known: Iterable[str], least: float = NEAR) -> str | None:
    """A fix line that names the nearest known names, or None when nothing is near."""
    near = nearest(name, known, least=least)
    if not near:
        return None
    return f"did you mean {near[0]}?" if len(near) == 1 else f"did you mean one of {', '.join(near)}?"


def shorten(value: object, limit: int = 80) -> str:
    """`value` as text short enough for one line of an error."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def as_fix(text: str) -> str:
    """`text` in the one style of a fix: no capital, no full stop at its end. Names keep their capitals."""
    line = _one_line(text)
    if _SENTENCE.match(line):
        line = line[0].lower() + line[1:]
    return line.removesuffix(".") if not line.endswith("..") else line


_SENTENCE = re.compile(r"[A-Z][a-z]*[ ,:]")


def _one_line(text: str) -> str:
    return " ".join(text.split())
