"""vLLM's own answers, on a machine without a GPU.

Commands:
    python tools/oracle setup 0.33.0                         build the environment of a release
    python tools/oracle goldens 0.33.0                       regenerate its golden records
    python tools/oracle fuzz 0.33.0 --seed 7 --count 1000    compare cgplan with vLLM on fresh inputs
    python tools/oracle sources 0.32.0 0.33.0                what changed behind the rules
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# Run as a folder, Python puts the folder itself on the path; the modules are found as oracle.*, beside parity.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from oracle.commands import COMMANDS  # noqa: E402
from oracle.environment import SetupError  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="oracle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = commands.add_parser(command.name, help=command.help)
        one.add_argument("--root", type=Path, help="default: $CGPLAN_ORACLE_ROOT or ~/.cache/cgplan-oracle")
        command.add_arguments(one)
        one.set_defaults(run=command.run)
    options = parser.parse_args()
    try:
        status: int = options.run(options)
    except (SetupError, OSError) as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
