"""Which command has an option, or an argument, that was given to another one. Asked only where one is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LINES = ("check", "resolve", "plan", "tune", "diff", "backends")
"""Commands that take a whole line of vLLM's behind `--`."""
MOST_NAMED = 4
SAID = {
    "--explain": "cgplan resolve --explain names the rule and the line of vLLM for each step",
    "--max-concurrency": "cgplan tune --max-concurrency N says which graphs N requests at once can use",
    "--metrics": "cgplan tune and report read a text of /metrics as --workload FILE, cgplan logs as --metrics FILE",
    "--workload": "cgplan tune --workload FILE chooses sizes for it",
    "--shape": "cgplan tune --shape NAME chooses sizes for it",
}
"""Options of which more is to be said than which command has them."""


def instead(option: str, command: str, build: Callable[[], Any]) -> str | None:
    """What to do with an option that `command` lacks, or None: no command and no release of vLLM has it.

    Args:
        command: with the program's name, "cgplan plan".
        build: gives the app with all commands, which takes a while.
    """
    if option in SAID:
        return SAID[option]
    if not option.startswith("--"):
        return None  # a letter means another thing in each command
    having = [name for name, options in _commands(build).items() if option in options]
    if having:
        named = ", ".join(having[: MOST_NAMED - 1]) if len(having) > MOST_NAMED else _listed(having)
        more = f" and {len(having) - MOST_NAMED + 1} other commands" if len(having) > MOST_NAMED else ""
        return f"cgplan {named}{more} {'take' if len(having) > 1 else 'takes'} {option}"
    return _of_vllm(option, command.rpartition(" ")[2])


def _of_vllm(option: str, command: str) -> str | None:
    """An option that vLLM has and cgplan's commands have not: the whole line is read for it."""
    from cgplan.inputs.serve_args_flags import releases_with

    if next(releases_with(option.partition(".")[0]), None) is None:
        return None
    by = command if command in LINES else "check"
    also = "; its table goes to cgplan tune --workload FILE" if option == "--cudagraph-metrics" else ""
    return f"vLLM has it, so give the whole line: cgplan {by} -- vllm serve MODEL {option} ...{also}"


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _commands(build: Callable[[], Any]) -> dict[str, frozenset[str]]:
    """The options of each command."""
    import typer

    group: Any = typer.main.get_command(build())
    return {
        name: frozenset(text for one in command.params for text in (*one.opts, *one.secondary_opts))
        for name, command in group.commands.items()
        if not command.hidden
    }
