"""A kind of input: how a case of it is made, and what cgplan makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Wrong(Exception):
    """What must hold of an answer does not."""


class Input(Protocol):
    """A kind, opened. `make` may write files into its own folder; `answer` may not write at all."""

    def make(self, dice: random.Random) -> Any:
        """A case; what is drawn decides all of it."""

    def answer(self, given: Any, dice: random.Random) -> Any:
        """What cgplan says of the case: JSON values, the same whenever it is asked.

        Raises:
            CgplanError: one clear error is an answer too.
            Wrong: what must hold does not.
        """


class Kind(NamedTuple):
    """A kind of input.

    Attributes:
        name: for the command line.
        about: what goes in, and through what.
        share: of a campaign's cases, beside the shares of the other kinds.
        opens: gives the kind, opened; the folder is its own.
        is_json: the answers are JSON documents, strictly: no NaN and no Infinity.
    """

    name: str
    about: str
    share: float
    opens: Callable[[str], Input]
    is_json: bool = True
