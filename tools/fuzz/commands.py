"""The options of every command of cgplan, with values that fit and values that do not, in this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import typer

from cgplan.cli import complete
from cgplan.cli.app import COMMANDS, build, run
from cgplan.inputs import devices

from .deployments import FIXTURES, GPUS, WORDS
from .documents import as_text, odd
from .grids import TEXT
from .kind import Kind, Wrong
from .lines import VALUES
from .texts import PIECES, mutated_words

STATUSES = (0, 1, 2)
SLOW = ("tune", "report", "sweep", "logs")
"""Commands that are drawn less often."""
WRITES = ("--output", "-o", "--save", "--csv", "--write", "--ray", "--measure")
"""Options that write or connect; what they write is in tests/hardening."""
NEEDS = {
    "diff": ["--from", "0.28"],
    "tune": ["--shape", "steady"],
    "report": ["--markdown"],
    "sweep": ["--jobs", "1"],
    "profile": ["--dry-run"],
}
"""Without them nothing but one error is said."""
SPECIAL = {
    "--gpu": (*GPUS, "h1000", ""), "--model": ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "/nowhere", "x/y"),
    "--vllm": ("0.33.0", "0.28", "0.1", "latest", "x"), "--from": ("0.28", "0.33.0", "x"), "--to": ("0.30", "0.33.0"),
    "--shape": ("steady", "bursty", "low", "bimodal", "x"), "--fail-on": ("never", "error", "warning", "x"),
    "--what-if": ("max-num-seqs=64,128",
                  "max-num-seqs=64..512:64", "max-model-len=8k,16k", "x=1", "max-num-seqs=1..99999999"),
    "--batch": ("1", "96,100", "1e9", "-1"), "--launch": ("1", "2", "x"), "--start": ("1", "last", "9"),
    "--software": ("flashinfer=false", "x=1", "flashinfer"), "--env": ("VLLM_USE_V2_MODEL_RUNNER=1", "A=B", "A"),
    "--compare-with": ("vllm serve Qwen/Qwen3-8B -tp 2", "vllm serve 'x", "/nowhere"), "--rank": ("0", "x"),
    "--jobs": ("1",),
}  # fmt: skip


class Commands:
    """Words for one command."""

    def __init__(self, folder: str) -> None:
        os.environ["COLUMNS"] = "100"
        vars(devices)["detect"] = lambda: None
        app: Any = typer.main.get_command(build(COMMANDS))
        self.options = {name: _options(command) for name, command in app.commands.items()}
        self.flags = {
            name: {option for option, takes in options if not takes} for name, options in self.options.items()
        }
        self.folder = Path(folder)
        launches = sorted(
            str(path) for path in (FIXTURES / "launches").rglob("*") if path.suffix in (".yaml", ".sh", ".yml")
        )
        metrics = [str(FIXTURES / "metrics" / name) for name in ("moment-1.txt", "traffic.csv", "traffic.json")]
        (self.folder / "grid.toml").write_text(TEXT)
        (self.folder / "odd.json").write_text("[1, {")
        own = [str(self.folder / name) for name in ("grid.toml", "odd.json", "none.yaml")]
        self.files = {
            "logs": [str(FIXTURES / "logs" / name) for name in ("A01.txt", "A09.txt", "B01.txt")],
            "check": launches, "sweep": own[:1], "tune": launches, "explain": ["CG101", "CG999", "x", "cg212"],
            "schema": ["plan", "profile", "x", "resolve"], "completion": ["bash", "zsh", "x"],
        }  # fmt: skip
        self.others = [*own, *launches[:4], *metrics, "Qwen/Qwen3-8B", "-x", "--", "/dev/null", str(self.folder)]
        self.texts = {
            "--workload": metrics,
            "--metrics": metrics,
            "--profile": own,
            "--settings": own,
            "--weights": own,
        }

    def make(self, dice: random.Random) -> list[str]:
        command = dice.choice([name for name in self.options if name not in SLOW or dice.random() < 0.12])
        words = [command]
        if dice.random() < (0.9 if command in self.files else 0.25):
            words.append(dice.choice(self.files.get(command, self.others) if dice.random() < 0.8 else self.others))
        if command in ("resolve", "plan", "backends", "diff", "tune", "report") and dice.random() < 0.7:
            words += ["--model", "Qwen/Qwen3-8B", "--gpu", "h100"]
        needs = NEEDS.get(command, [])
        words += needs
        for _ in range(min(6, int(dice.expovariate(0.5)))):
            words += self._option(dice, command)
        if dice.random() < 0.15:
            words = [command, *needs, *mutated_words(dice, words[1:])]
        if dice.random() < 0.15 and command != "profile":
            words += ["--", "vllm", "serve", "Qwen/Qwen3-8B", *dice.sample(VALUES, 1)]
        words = [word for word in words if not _writes(word) and "\0" not in word]
        if command == "profile":  # its --json names a file
            words = [word for word in words if not word.startswith("--j")]
        if command == "sweep":  # writes what it measures
            words = [word for word in words if not word.startswith("--pr")]
        return words if command != "profile" or "--dry-run" in words else [command, "--dry-run"]

    def _option(self, dice: random.Random, command: str) -> list[str]:
        if not self.options[command]:
            return [dice.choice(PIECES)]
        option, takes = dice.choice(self.options[command])
        if dice.random() < 0.06:
            option = option[:-1] or "-"
        if not takes:
            return [option]
        value = self._value(dice, option)
        return [f"{option}={value}"] if dice.random() < 0.2 else [option, value]

    def _value(self, dice: random.Random, option: str) -> str:
        if dice.random() < 0.6:
            known = SPECIAL.get(option) or self.texts.get(option)
            if known is not None:
                return str(dice.choice(known))
        if dice.random() < 0.3:
            return str(odd(dice, WORDS))[:3000]
        return dice.choice((*VALUES, *PIECES, as_text(odd(dice))[:3000]))

    def answer(self, given: list[str], dice: random.Random) -> Any:
        out, err = io.StringIO(), io.StringIO()
        if dice.random() < 0.08:  # TAB, in place of RETURN
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                complete.answer(dice.choice(("bash", "zsh", "fish")), given)
            if err.getvalue():
                raise Wrong(f"completion says {err.getvalue()[:300]}")
            return out.getvalue()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(given)
        _check(given, status, out.getvalue(), err.getvalue(), self.flags.get(given[0], set()))
        return [status, out.getvalue() if given[0] != "check" else "", err.getvalue()]


def _check(words: list[str], status: int, out: str, err: str, flags: set[str]) -> None:
    if status not in STATUSES:
        raise Wrong(f"exit status {status}: {err[-1500:]}")
    errors = [line for line in err.splitlines() if line.startswith("error[CG")]
    if status == 2 and (not errors or (len(errors) > 1 and words[0] != "check") or "Traceback" in err):
        raise Wrong(f"no line that says why: {err[-600:]!r}")
    if status == 2 and "; fix: " not in errors[0]:
        raise Wrong(f"no fix: {errors[0][:600]}")
    own = words[: words.index("--")] if "--" in words else words
    if own.count("--json") == 1 and "--json" in flags and words[0] not in ("check", "sweep") and "--help" not in own:
        before = own[own.index("--json") - 1]
        if before in flags or not before.startswith("-"):
            json.loads(out, parse_constant=_no_number)
    (out + err).encode("utf-8")


def _writes(word: str) -> bool:
    """Whether a word is an option that writes; of a long one its beginning is enough."""
    name = word.partition("=")[0]
    return word.startswith("-o") or any(len(name) > 2 and one.startswith(name) for one in WRITES)


def _no_number(name: str) -> float:
    raise Wrong(f"{name} in JSON")


def _options(command: Any) -> tuple[tuple[str, bool], ...]:
    """Every option of a command, and whether it takes a value."""
    return tuple(
        (name, not getattr(one, "is_flag", False))
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
        if name.startswith("-") and name not in WRITES and name != "--help"
    )


KIND = Kind(
    "commands", "words for every command of cgplan, and TAB on them, with all that they print", 0.005, Commands, False
)
