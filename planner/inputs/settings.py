"""What a project sets for `cgplan check`: `[tool.cgplan]` of a pyproject.toml, or a cgplan.toml."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import InputError, cannot_read, did_you_mean, shorten
from ..light_dataclass import dataclass
from .safe_json import exists, shown

NAMES = ("cgplan.toml", "pyproject.toml")
"""Names of the files; of two in one folder the first counts."""

LARGEST = 2**20
"""Bytes of a file that is read."""

SEVERITIES = ("error", "warning", "info", "never")
OUTPUTS = ("text", "concise", "json", "sarif", "github", "markdown")


@dataclass(frozen=True)
class Settings:
    """What a file sets. None or (): nothing.

    Attributes:
        file: its path, or None where there is no file.
        vllm, gpu, model: as the options of those names.
        gpus_per_node: a whole number.
        software, env: NAME=VALUE each.
        select, ignore: codes or beginnings of codes, not yet checked.
        per_file_ignores: pattern of paths, and codes.
        exclude: patterns of paths.
        fail_on, output: a word of SEVERITIES, of OUTPUTS.
    """

    file: str | None = None
    vllm: str | None = None
    gpu: str | None = None
    gpus_per_node: int | None = None
    software: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    model: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    fail_on: str | None = None
    output: str | None = None

    @property
    def folder(self) -> Path:
        """What its patterns are relative to."""
        return Path(self.file).absolute().parent if self.file is not None else Path.cwd()

    def excludes(self, path: str) -> bool:
        return any(matches(pattern, path, self.folder) for pattern in self.exclude)

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """Codes that are not wanted in the file `path`."""
        found = [codes for pattern, codes in self.per_file_ignores if matches(pattern, path, self.folder)]
        return (*self.ignore, *(code for codes in found for code in codes))


def settings_of(folder: Path) -> Settings:
    """The settings of the nearest file, from `folder` upwards.

    Raises:
        InputError: CG970, the file that was found cannot be used.
    """
    return _settings_of(folder.absolute())


@lru_cache(maxsize=4096)
def _settings_of(folder: Path) -> Settings:
    for name in NAMES:
        path = folder / name
        if path.is_file():
            found = _load(path, must_speak=False)
            if found is not None:
                return found
    return Settings() if folder.parent == folder else _settings_of(folder.parent)


def load(path: str) -> Settings:
    """The settings of this file; of a pyproject.toml its [tool.cgplan].

    Raises:
        InputError: CG970, it cannot be read, or a setting is unknown or of the wrong type.
    """
    return _load(Path(path), must_speak=True) or Settings(file=path)


def _load(path: Path, must_speak: bool) -> Settings | None:
    """None where a pyproject.toml says nothing to cgplan."""
    own = path.name == "pyproject.toml"
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise cannot_read(error, shown(path), "give a readable file", code="CG970") from None
    if len(raw) > LARGEST:
        raise _wrong("is larger than any settings", str(path), "give a cgplan.toml or a pyproject.toml")
    if own and b"cgplan" not in raw:
        return None
    document = _toml(raw, path)
    if own:
        tool = document.get("tool")
        table = tool.get("cgplan") if isinstance(tool, dict) else None
        if table is None:
            return None
        if not isinstance(table, dict):
            raise _wrong("tool.cgplan is no table", str(path), "write [tool.cgplan]")
        document = table
    return _read(document, path)


def _toml(raw: bytes, path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document: dict[str, Any] = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _wrong("is not UTF-8", str(path), "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also a whole number of more digits than Python reads
        said = shorten(str(error) if isinstance(error, ValueError) else "nested too deeply", 120)
        raise _wrong(f"is not TOML: {said}", str(path), "mend it at that place") from None
    return document


def _read(document: Mapping[str, Any], path: Path) -> Settings:
    found: dict[str, Any] = {"file": str(path)}
    for key, value in document.items():
        reader = READERS.get(key)
        if reader is None:
            raise _wrong(
                f"unknown setting {shorten(key, 40)!r}",
                str(path),
                did_you_mean(key, READERS) or f"give one of {', '.join(READERS)}",
            )
        try:
            read = reader(value)
        except ValueError as error:
            raise _wrong(f"{key} is not {error}", f"{path}: {key}", EXAMPLES[key]) from None
        found[key.replace("-", "_")] = read
    if "model" in found and exists(path.parent / found["model"]):
        found["model"] = str(path.parent / found["model"])
    return Settings(**found)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number above 0")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError("a list of texts")
    return tuple(value)


def _pairs(value: Any) -> tuple[str, ...]:
    """A table, or a list of NAME=VALUE."""
    if isinstance(value, list):
        texts = _texts(value)
        if all(text.partition("=")[1] for text in texts):
            return texts
    elif isinstance(value, dict) and all(isinstance(one, (str, int, float)) for one in value.values()):
        return tuple(f"{name}={_shown(one)}" for name, one in value.items())
    raise ValueError("a table of names and values")


def _shown(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ignores(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError("a table of patterns and lists of codes")
    return tuple((pattern, _texts(codes)) for pattern, codes in value.items())


def _word(*known: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return str(value)

    return read


READERS: Mapping[str, Callable[[Any], Any]] = {
    "vllm": _text,
    "gpu": _text,
    "gpus-per-node": _whole,
    "software": _pairs,
    "env": _pairs,
    "model": _text,
    "select": _texts,
    "ignore": _texts,
    "per-file-ignores": _ignores,
    "exclude": _texts,
    "fail-on": _word(*SEVERITIES),
    "output": _word(*OUTPUTS),
}
EXAMPLES = {
    "vllm": 'write vllm = "0.33.0"',
    "gpu": 'write gpu = "h100"',
    "gpus-per-node": "write gpus-per-node = 8",
    "software": "write software = { flashinfer = false }",
    "env": 'write env = { VLLM_USE_DEEP_GEMM = "0" }',
    "model": 'write model = "Qwen/Qwen3-8B"',
    "select": 'write select = ["CG2", "CG9"]',
    "ignore": 'write ignore = ["CG975"]',
    "per-file-ignores": 'write per-file-ignores = { "examples/*" = ["CG9"] }',
    "exclude": 'write exclude = ["charts/"]',
    "fail-on": 'write fail-on = "warning"',
    "output": 'write output = "concise"',
}


def matches(pattern: str, path: str, folder: Path) -> bool:
    """Whether a path, or a folder it is in, fits a pattern.

    A pattern without `/` fits any part of the path; one with it is relative to `folder`. `*` stops at `/`, `**` does
    not.
    """
    absolute = Path(path).absolute()
    try:
        parts = absolute.relative_to(folder).parts
    except ValueError:
        parts = absolute.parts[1:]
    wanted = _as_regex(pattern)
    if "/" not in pattern.rstrip("/"):
        return any(wanted.fullmatch(part) for part in parts)
    return any(wanted.fullmatch("/".join(parts[: count + 1])) for count in range(len(parts)))


@lru_cache(maxsize=256)
def _as_regex(pattern: str) -> re.Pattern[str]:
    body = pattern.removeprefix("./").strip("/")
    out = "".join(_piece(piece) for piece in re.findall(r"\*\*/|\*+|\?|\[!?\]?[^]/]+\]|.", body, re.S))
    try:
        return re.compile(out, re.S)
    except re.error:  # a range such as [z-a]
        return re.compile(re.escape(body))


def _piece(piece: str) -> str:
    if piece == "**/":
        return "(?:.*/)?"
    if piece.startswith("**"):
        return ".*"
    if piece in ("*", "?"):
        return "[^/]*" if piece == "*" else "[^/]"
    if len(piece) > 1:
        # Python warns of what may come to mean a set in a set: --, &&, ~~ and ||.
        inner = re.sub(r"([\\\[\]&~|])", r"\\\1", piece[1:-1].removeprefix("!")).replace("--", r"-\-")
        if piece[1] != "!":
            return f"[{inner}]"
        # Behind the slash a dash at the beginning would make a range.
        return "[^/" + ("\\" + inner if inner.startswith("-") else inner) + "]"
    return re.escape(piece)


def _wrong(message: str, where: str, fix: str) -> InputError:
    return InputError(f"settings: {message}", code="CG970", where=shown(where), fix=fix)


def as_options(settings: Settings) -> Iterable[tuple[str, Any]]:
    """What the settings say as shared options: name of the option, value as it would be typed."""
    for name in ("vllm", "gpu", "model"):
        if getattr(settings, name) is not None:
            yield name, getattr(settings, name)
    if settings.gpus_per_node is not None:
        yield "gpus_per_node", str(settings.gpus_per_node)
    for name in ("env", "software"):
        if getattr(settings, name):
            yield name, list(getattr(settings, name))
