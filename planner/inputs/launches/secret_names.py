"""Names of options, variables and keys whose values are not to be shown."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

WORDS = (
    r"api_?ke?y|access_?key|private_?key|secret|passw|passphrase|(?<!allow_)credential|(?:^|_)pwd(?:_|$)|_pat$"
    r"|(?:hf|hub|auth|access|api|bearer|security|session|github|gitlab)_?token"
)
"""Parts of such names, in lower case, with _ for -."""
_SECRET = re.compile(WORDS)
_TOKEN = re.compile(r"(?:^|_)token$")
_NO_TOKEN = re.compile(
    r"(?:^|_)(?:max|min|num|per|eos|bos|pad|mask|image|video|audio|stop|unk|sep|cls|start|end|new|first|next|prefill|"
    r"decode|spec|draft|special|prompt)(?:_\w+)?_token$"
)
"""Tokens of text."""
_KNOWN = ("api_key", "hf_token", "password", "secret_key", "access_token", "access_key")
ALIKE = 0.84
"""Likeness from which a name is taken for a misspelt one, 0 to 1."""


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Whether an option, a variable or a key holds, by its name, what is not to be shown; a slip of the pen counts."""
    bare = name.partition("=")[0].strip().lstrip("-").replace("-", "_").casefold()[:80]
    last = bare.rpartition(".")[2].removeprefix("vllm_")
    if _SECRET.search(last):
        return True
    if _TOKEN.search(last):
        return _NO_TOKEN.search(last) is None
    return any(
        abs(len(last) - len(known)) <= 2 and difflib.SequenceMatcher(None, last, known).ratio() >= ALIKE
        for known in _KNOWN
    )
