"""The commands of the oracle."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oracle import records
from oracle.environment import SetupError, locate, setup
from oracle.goldens import OracleError, answer, thin
from oracle.sampling import sample
from oracle.sources import changes

GOLDEN = Path(__file__).parent.parent.parent / "fixtures" / "golden"
GOLDEN_SEED = 20261
GOLDEN_COUNT = 330


@dataclass(frozen=True)
class Command:
    """One subcommand: its name, its help line, its arguments, and what runs."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _release(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release", help="release of vLLM, as 0.33.0")
    parser.add_argument("--torch", help="version of torch, where the default does not suit the release")


def _jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=2, help="vLLM processes at a time (default 2)")


def _goldens_arguments(parser: argparse.ArgumentParser) -> None:
    _release(parser)
    _jobs(parser)
    parser.add_argument("--seed", type=int, help=f"sample new inputs (default where there are none: {GOLDEN_SEED})")
    parser.add_argument(
        "--count", type=int, help=f"records at most (default: {GOLDEN_COUNT} new ones, or all old ones)"
    )
    parser.add_argument("--out", type=Path, help="default: fixtures/golden/RELEASE.jsonl.gz")
    parser.add_argument("--inputs", type=Path, help="answer the inputs of this file (default: the file written before)")


def _fuzz_arguments(parser: argparse.ArgumentParser) -> None:
    _release(parser)
    _jobs(parser)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--out", type=Path, help="write the shrunk records that disagree here")


def _sources_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", help="release of vLLM")
    parser.add_argument("new", help="a later one")
    parser.add_argument("--context", type=int, default=2, help="unchanged lines around a change (default 2)")


def _setup(options: argparse.Namespace) -> int:
    environment = locate(options.release, options.root, options.torch)
    setup(environment)
    print(f"ready: vLLM {options.release} under {environment.root}")
    return 0


def _goldens(options: argparse.Namespace) -> int:
    environment = locate(options.release, options.root, options.torch).check()
    start = time.monotonic()
    asked = _golden_inputs(options)
    try:
        answered = answer(environment, asked, options.jobs)
    except OracleError as error:
        print(f"oracle: {error}")
        return 1
    path = options.out or GOLDEN / f"{options.release}.jsonl.gz"
    count = records.write(path, answered)
    print(f"{path}: {count} records in {time.monotonic() - start:.0f} s")
    return 0


def _golden_inputs(options: argparse.Namespace) -> list[records.Record]:
    """New inputs where a seed is given or the release has none; else the ones it has, to be answered again."""
    path = options.inputs or GOLDEN / f"{options.release}.jsonl.gz"
    if options.seed is None and path.exists():
        old = list(records.read(path))
        return thin(old, options.count or len(old))
    seed = GOLDEN_SEED if options.seed is None else options.seed
    return sample(options.release, seed, options.count or GOLDEN_COUNT)


def _fuzz(options: argparse.Namespace) -> int:
    from oracle.fuzz import Fuzzer  # only this command needs cgplan

    environment = locate(options.release, options.root, options.torch).check()
    outcome = Fuzzer(environment).run(sample(options.release, options.seed, options.count), options.jobs)
    print(outcome.report())
    if options.out is not None:
        records.write(options.out, [found.record for found in outcome.shrunk])
    return 1 if outcome.kinds or outcome.lost else 0


def _sources(options: argparse.Namespace) -> int:
    old, new = (locate(release, options.root).sources for release in (options.old, options.new))
    for folder in (old, new):
        if not folder.exists():
            raise SetupError(f"not there: {folder}; fetch it with: python tools/oracle setup {folder.name[5:]}")
    for line in changes(old, new, options.context):
        print(line)
    return 0


COMMANDS = (
    Command("setup", "build the environment of a release, or reuse it", _release, _setup),
    Command("goldens", "write the golden records of a release", _goldens_arguments, _goldens),
    Command("fuzz", "compare cgplan with vLLM on fresh inputs", _fuzz_arguments, _fuzz),
    Command("sources", "show what changed behind the rules between two releases", _sources_arguments, _sources),
)
