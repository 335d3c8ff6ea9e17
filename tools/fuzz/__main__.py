"""Fuzz every way into cgplan. Each case ends in an answer or in one clear error, and touches nothing.

    python tools/fuzz --list                                the kinds of input
    python tools/fuzz --seed 1 --cases 200000               a campaign over all kinds in their shares
    python tools/fuzz lines models --seed 1 --cases 5000    so many cases of each of these kinds
    python tools/fuzz lines --seed 1 --only 17              one case again, printed
    python tools/fuzz processes --seed 1 --cases 100        hostile files, pipes and folders, a process each

Exit status 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path

# Run as a folder, Python puts the folder itself on the path; the modules are found as fuzz.*.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from fuzz.campaign import Campaign, Result  # noqa: E402
from fuzz.guard import Guard  # noqa: E402
from fuzz.kinds import KINDS, PROCESSES  # noqa: E402

NICE = 10
ADDRESS_SPACE = 3 * 2**30
"""Bytes that the process may ask for: what wants more fails as a case, and not as the machine."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="default: all but processes")
    parser.add_argument("--list", action="store_true", help="name the kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=2000, help="in all; where kinds are named, of each")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="repeat one case and print it")
    parser.add_argument("--keep", type=Path, help="of processes: folder to leave the files of the cases in")
    options = parser.parse_args()
    if options.list:
        whole = sum(kind.share for kind in KINDS.values())
        for kind in KINDS.values():
            print(f"{kind.name:12} {kind.share / whole:5.1%}  {kind.about}")
        print(f"{PROCESSES:12}         hostile files, pipes, folders and lines for `check`, a process each")
        return 0
    unknown = [name for name in options.kinds if name not in KINDS and name != PROCESSES]
    if unknown:
        parser.error(f"unknown kind {unknown[0]}: {', '.join(KINDS)} or {PROCESSES}")
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    os.environ.setdefault("CGPLAN_DEBUG", "1")
    return int(_run(options))


def _run(options: argparse.Namespace) -> bool:
    """Run what is asked. Returns whether something failed."""
    failed = False
    if PROCESSES in options.kinds:
        from fuzz import processes

        failed = processes.campaign(options.seed, options.first, options.cases, options.keep) > 0
    names = [name for name in options.kinds if name != PROCESSES] or ([] if options.kinds else list(KINDS))
    results: list[Result] = []
    whole = sum(kind.share for kind in KINDS.values())
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.realpath(place)
        guard = Guard(own=folder + os.sep)
        for name in names:
            own = Path(folder) / name
            own.mkdir()
            campaign = Campaign(KINDS[name], options.seed, own, guard)
            if options.only is not None:
                print(repr(campaign.made(options.only))[:20_000])
                campaign.case(options.only)
                failed = failed or bool(campaign.causes)
                continue
            cases = options.cases if options.kinds else round(options.cases * KINDS[name].share / whole)
            results.append(campaign.run(range(options.first, options.first + cases)))
            print(results[-1], flush=True)
    if len(results) > 1:
        cases, seconds = sum(one.cases for one in results), sum(one.seconds for one in results)
        failures = sum(one.failures for one in results)
        print(f"in all {cases:,} cases, {failures} failures, {seconds:,.0f} s of the processor")
    return failed or any(one.failures for one in results)


if __name__ == "__main__":
    sys.exit(main())
