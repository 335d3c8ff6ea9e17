"""What looks like a key or a password wherever it stands: by its beginning, its name or its address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

HIDDEN = "***"

_WRITTEN = r"""
    (?<!--)\bhf_(?!(?:overrides|config_path|token)\b)[\w-]{8,}   # by shape; options are named so as well
    | \b(?:sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[abprs]-|AKIA)[\w-]{8,}
    | (?:\bBearer\s+) (?P<bearer>[\w.~+/=-]{6,})
    | \b[a-z][a-z0-9+.-]{1,20}:/{1,2}(?P<login>[^\s/@:"'\\]{0,200}:[^\s/@"'\\]{1,500})@   # a path has one /
    | \bhttps?:/{1,2}(?P<pass>[\w.~%+-]{8,500})@
    | --(?:api[-_]key|hf[-_]token)(?:=|(?P<blank>[ \t]+(?!-)))["']?(?P<flag>[^\s"'\\,\]]+)
    | \\?["'](?:[\w.-]{0,40}(?:passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential
      |(?:auth|access|api|bearer|hf|hub)[-_]?token)s?|token)\\?["'] \s*:\s* \\?["'](?P<json>[^"'\\]+)
    | \b\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY)S?\b["']?
      \s*(?P<between>=|:\s)\s*["']?(?P<name>[^\s"',}\]]+)
    | [?&][\w-]{0,40}(?:token|key|secret|sig|signature|passw(?:or)?d)=(?P<query>[^\s"'&\#]{4,})
    | \b(?:token|secret|passw(?:or)?d)=(?P<assigned>[^\s"',;&]{4,})
    | \b(?:api[-_]?key|hf[-_]token|password)["']?\s*(?P<colon>:\s)\s*["']?(?P<key>[^\s"',}\]]+)
    """
REFERENCE = re.compile(r"\$[({A-Za-z_].*")
"""The name of a variable in the place of a secret, which is none."""


@cache
def _written() -> re.Pattern[str]:
    """The pattern of what looks like a secret; a check that finds nothing need not wait for it."""
    return re.compile(_WRITTEN, re.X)


def shapes(text: str, in_file: bool) -> list[tuple[int, int]]:
    """What looks like a secret. `NAME: word` gives a value in a file only; a message speaks so of a variable."""
    found = []
    for match in _written().finditer(text):
        if not in_file and (match["colon"] or match["between"] or "=").startswith(":"):
            continue
        if not in_file and match["blank"] and not re.search("[0-9]", match["flag"]):
            continue  # a message about the option
        start, end = match.span(match.lastgroup or 0)
        if not REFERENCE.match(text[start:end]):
            found.append((start, end))
    return found


def hidden(text: str, in_file: bool = False) -> str:
    """`text` without what looks like a secret; `in_file`: it is text of a file, no message."""
    return "".join(parts(text, shapes(text, in_file)))


def parts(text: str, found: list[tuple[int, int]]) -> Iterator[str]:
    at = 0
    for start, end in found:
        yield text[at:start]
        yield HIDDEN
        at = end
    yield text[at:]
