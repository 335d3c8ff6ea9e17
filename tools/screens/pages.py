"""README's blocks: the command, its picture, and its text for those who do not see pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping

from run import ANSI, Screen

_BLOCK = re.compile(r"<!-- screen (?P<name>[a-z-]+) -->\n.*?<!-- end of screen -->", re.S)


def with_blocks(page: str, screens: Mapping[str, tuple[Screen, str]]) -> str:
    """`page` with each block between its marks made anew.

    Raises:
        KeyError: the page has a block of no screen.
        ValueError: a screen stands nowhere on the page.
    """
    named = {found["name"] for found in _BLOCK.finditer(page)}
    if missing := screens.keys() - named:
        raise ValueError(f"not on the page: {', '.join(sorted(missing))}")
    return _BLOCK.sub(lambda found: block(*screens[found["name"]]), page)


def block(screen: Screen, text: str) -> str:
    """One step."""
    plain = ANSI.sub("", text).rstrip()
    return "\n".join(
        (
            f"<!-- screen {screen.name} -->",
            "```bash",
            screen.line,
            "```",
            "",
            f"![{screen.title}](docs/screens/{screen.name}.svg)",
            "",
            "<details><summary>As text</summary>",
            "",
            "```",
            plain,
            "```",
            "",
            "</details>",
            "<!-- end of screen -->",
        )
    )
