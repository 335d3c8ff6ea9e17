"""How vLLM's command line refuses, and what to write instead."""

from __future__ import annotations

from ..errors import StartupError
from .serve_args_tokens import Note, Place

CODES = {
    "unrecognized": "CG905",
    "ambiguous": "CG905",
    "missing_value": "CG905",
    "flag_takes_no_value": "CG905",
    "invalid_choice": "CG902",
    "invalid_value": "CG906",
    "config_invalid": "CG903",
    "lora_modules": "CG906",
    "help": "CG905",
    "version": "CG905",
    "no_subcommand": "CG905",
    "other_subcommand": "CG905",
    "config_file": "CG910",
    "config_content": "CG911",
    "no_model": "CG905",
    "uncaught": "CG906",
    "validate": "CG903",
    "joined": "CG954",
    "long_dash": "CG905",
    "switch_value": "CG956",
}
"""Kind of a rejection to its page."""


class ArgumentRefused(StartupError):
    """vLLM's command line does not accept the tokens, or ends without a server.

    Attributes:
        kind: a key of CODES. `joined`, `long_dash` and `switch_value` are cgplan's words for tokens of which vLLM makes
            something else than was meant. Those up to `lora_modules` are argparse's own ends, with exit status 2;
            `help` and `version` print and end; the others reach the user as a traceback.
        option: the option concerned, as argparse names it: all its spellings with a slash between, or None.
        place: the token to point at, or None.
        stage: `parse`, `logging`, `validate` or `main`.
        notes: what the parser did in silence before.
        raised_as: `SystemExit`, or the type of the exception that vLLM lets through.
    """

    def __init__(
        self,
        message: str,
        kind: str,
        *,
        option: str | None = None,
        where: str | None = None,
        place: Place | None = None,
        raised_as: str = "SystemExit",
        stage: str = "parse",
        raised_in: str = "FlexibleArgumentParser",
        fix: str | None = None,
    ) -> None:
        super().__init__(
            message,
            code=CODES[kind],
            stage=stage,
            raised_as=raised_as,
            raised_in=raised_in,
            where=where or option,
            fix=fix,
        )
        self.kind = kind
        self.option = option
        self.place = place
        self.notes: tuple[Note, ...] = ()

    def as_dict(self) -> dict[str, str | None]:
        return {**super().as_dict(), "kind": self.kind}


def uncaught(
    message: str, raised_as: str, place: Place | None = None, fix: str | None = None, where: str | None = None
) -> ArgumentRefused:
    """An exception that vLLM does not turn into a message."""
    return ArgumentRefused(message, "uncaught", raised_as=raised_as, place=place, fix=fix, where=where)
