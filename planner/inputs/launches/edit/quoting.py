"""How a token is written, so that the place it stands in gives it back: shell, systemd, YAML, JSON, and one in another.

Every function gives candidates, the nicest first. None is proved here: `rewrite` reads the new text again and takes
the first one that reads as it should.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module

from ..launch import LaunchToken

_SHELL_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_UNIT_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
_DOUBLE_SPECIAL = re.compile(r'[$`"\\]')
_NUMBER_LIKE = re.compile(
    r"[-+]?(\.\d[\d_]*|\d[\d_]*(\.[\d_]*)?)([eE][-+]?\d+)?|[-+]?0[xXoObB][\da-fA-F_]+|[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?"
    r"|[-+]?\.(inf|nan)|\d{4}-\d\d?-\d\d?.*",
    re.IGNORECASE,
)
_WORD_LIKE = re.compile(r"(y|n|yes|no|on|off|true|false|null|~|)", re.IGNORECASE)
"""Texts that some reader of YAML takes for something else than text. Kubernetes' reader is not PyYAML."""

Candidates = list[str]


def written(text: str, like: LaunchToken, as_written: str, kind: str) -> Candidates:
    """Ways to write `text` in the place of, or beside, the token `like`.

    Args:
        text: as the program is to get it.
        like: the token whose place and style it takes.
        as_written: what the source has at the span of `like`, without anything before or behind it.
        kind: that of the launch; it says which variables are put in.
    """
    text = _past_variables(text, kind)
    if like.style == "unit":
        return _unit_words(text)
    if like.style == "word":
        return _nested(shell_words(text, as_written, like.inner), like.inner)
    return yaml_scalars(text, as_written, flow=like.style == "flow")


def _past_variables(text: str, kind: str) -> str:
    """`text` so that Kubernetes and compose, which put variables in before any program sees it, give it back."""
    if kind == "kubernetes":
        return re.sub(r"\$(?=[$(])", "$$", text)
    return text.replace("$", "$$") if kind == "compose" else text


def shell_words(text: str, like: str = "", inner: str = "") -> Candidates:
    """`text` as one word of a shell command, in the quotes that `like` has where they do."""
    double = '"' + _DOUBLE_SPECIAL.sub(r"\\\g<0>", text) + '"'
    escaped = re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", text, flags=re.ASCII) if text and "\n" not in text else double
    # A plain scalar of YAML holds no ": " and no " #"; quotes that close and open again part the two.
    parted = _single(text).replace(": ", ":'' ").replace(" #", " ''#")
    ways = [_single(text), double, parted, escaped]
    if not _DOUBLE_SPECIAL.search(text) and (inner == "single" or "'" in text):
        ways = [double, _single(text), parted, escaped]
    if like[:1] == '"' and not _DOUBLE_SPECIAL.search(text):
        ways.insert(0, double)
    if _SHELL_PLAIN.fullmatch(text) and not _quoted_without_need(like):
        ways.insert(0, text)
    return list(dict.fromkeys(ways))


def _quoted_without_need(written: str) -> bool:
    return written[:1] in ("'", '"') and _SHELL_PLAIN.fullmatch(written[1:-1]) is not None


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _unit_words(text: str) -> Candidates:
    """`text` as one word of a systemd command line."""
    if _UNIT_PLAIN.fullmatch(text):
        return [text]
    inside = text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace("\n", "\\n")
    return ["'" + inside.replace("'", "\\'") + "'", '"' + inside.replace('"', '\\"') + '"']


def _nested(words: Candidates, inner: str) -> Candidates:
    """Words of a shell as the text around them has to hold them, nicest first, then the ways of a shell in a shell."""
    around: dict[str, Callable[[str], str]] = {
        "single": lambda word: word.replace("'", "''"),
        "double": _json_inside,
    }
    known = around.get(inner, str)
    ways = [known(word) for word in words]
    ways += [known(_DOUBLE_SPECIAL.sub(r"\\\g<0>", word)) for word in words[:3]]
    ways += [known(word.replace("'", "'\"'\"'")) for word in words[:3]]
    return list(dict.fromkeys(ways))


def _json_inside(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def yaml_scalars(text: str, like: str = "", *, flow: bool) -> Candidates:
    """`text` as a YAML scalar that is a string on one line; in a flow sequence also fit for JSON where `like` is."""
    double = json.dumps(text, ensure_ascii=False)
    single = "'" + text.replace("'", "''") + "'"
    quoted = [single, double] if '"' in text and "'" not in text else [double, single]
    if "\n" in text:
        return [double]
    if like[:1] == "'":
        return [single, double]
    if like[:1] == '"':
        # In a flow sequence the file may be JSON, which knows no other quotes.
        return [double, single] if flow or '\\"' in like else quoted
    return [text, *quoted] if reads_as_text(text, flow=flow) else quoted


def reads_as_text(text: str, *, flow: bool) -> bool:
    """Whether YAML of any version gives back just this string where it stands without quotes."""
    if not text or _WORD_LIKE.fullmatch(text) or _NUMBER_LIKE.fullmatch(text) or "\n" in text:
        return False
    yaml = import_module("yaml")
    try:
        return bool(yaml.safe_load(f"[{text}]" if flow else f"- {text}") == [text])
    except (yaml.YAMLError, ValueError, RecursionError):
        return False


def key_text(text: str) -> str:
    """`text` as a key of a YAML mapping."""
    return text if reads_as_text(text, flow=True) else json.dumps(text, ensure_ascii=False)


def at(candidates: Candidates, way: int) -> str:
    """The candidate of this number; the last one where there are no more."""
    return candidates[min(way, len(candidates) - 1)]


def other_ways() -> range:
    """Numbers of the ways that are worth a try where the nicest, 0, does not read back."""
    return range(1, 12)
