"""The words behind `--`: a command line of vLLM, which is no option of cgplan's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import typer


class Pasted(NamedTuple):
    """What stood behind `--`; `words` is None where there was no `--`."""

    words: tuple[str, ...] | None = None


def split(argv: Sequence[str]) -> tuple[list[str], Pasted]:
    """The command's own words, and those behind the first `--`."""
    if "--" not in argv:
        return list(argv), Pasted()
    at = list(argv).index("--")
    return list(argv[:at]), Pasted(tuple(argv[at + 1 :]))


def pasted(context: typer.Context) -> Pasted:
    """What stood behind `--`, from the context of a command."""
    found = context.find_root().obj
    return found if isinstance(found, Pasted) else Pasted()
