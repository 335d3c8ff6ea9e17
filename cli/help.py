"""Help pages: options in groups, names in full, examples line by line. Plain text, so that nothing heavy is read."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cgplan.errors import CgplanError
from cgplan.report.words import as_option

from .failures import ClickException
from .parsing import check_not_empty, listen, typed

WIDEST = 100


class HelpfulCommand(TyperCommand):
    """A command whose help groups its options by panel, and whose errors name options as they were typed."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        listen(parser, ctx.meta)
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except ClickException as error:
            # The parser itself does not know which command it reads for.
            if getattr(error, "ctx", None) is None:
                vars(error)["ctx"] = ctx
            raise
        params: list[Any] = self.params
        for param in params:
            if param.param_type_name == "argument":
                given = ctx.params.get(param.name)
                for value in given if isinstance(given, (list, tuple)) else [given]:
                    check_not_empty(value, param.metavar or param.name.upper())
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As the first line has them: a name, in brackets where it may be left out."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [piece[1:-1] if piece.startswith("{") and piece.endswith("}") else piece for piece in pieces]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CgplanError as error:
            error.where = typed(error.where, list(self.params), ctx.meta)
            error.fix = None if error.fix is None else as_option(error.fix)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        formatter.width = min(max(formatter.width, 78), WIDEST)
        groups: dict[str, list[tuple[str, str]]] = {}
        params: list[Any] = self.get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                groups.setdefault("Arguments", []).append((param.metavar or param.name.upper(), param.help or ""))
                continue
            record = param.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        arguments, options = groups.pop("Arguments", []), groups.pop("Options", [])
        for heading, records in [("Arguments", arguments), *groups.items(), ("Options", options)]:
            if not records:
                continue
            with formatter.section(_bold(heading)):
                formatter.write_dl(records, col_max=28)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_lines((self.epilog or "") + EVERYWHERE, formatter)


EVERYWHERE = """
70, 74 and 130, as of every command: a bug of cgplan, output that cannot be written, interrupted.
"""
"""Stands under the exit codes of each command."""


class HelpfulGroup(TyperGroup):
    """The group of all commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with the whole first sentence of its help."""
        formatter.width = min(max(formatter.width, 78), WIDEST)
        commands: Any = self.commands
        with formatter.section(_bold("Commands")):
            formatter.write_dl([(name, _first_sentence(command.help or "")) for name, command in commands.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_lines(self.epilog, formatter)


def _first_sentence(help: str) -> str:
    return " ".join(help.partition("\n\n")[0].split())


def _write_lines(epilog: str | None, formatter: Any) -> None:
    formatter.write("\n" + (epilog or ""))


def _bold(heading: str) -> str:
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return heading if plain else typer.style(heading, bold=True)
