"""Answer records, one JSON document a line on stdin, as one GPU generation.

    python -m oracle.inside --sources DIR --release 0.33.0 --capability 9.0 --workdir DIR

The first line written says what the environment is. vLLM decides a few things while it is imported, so a process
stands for one compute capability; it is told which at its start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path
from typing import TextIO


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked source distribution")
    parser.add_argument("--release", required=True)
    parser.add_argument("--capability", required=True, help="compute capability, as 9.0")
    parser.add_argument("--workdir", type=Path, required=True, help="folder for model configurations and caches")
    options = parser.parse_args()
    answers = _take_stdout()
    from oracle.inside.replay import Replay

    major, minor = (int(part) for part in options.capability.split("."))
    replay = Replay(options.sources, options.release, (major, minor), options.workdir)
    _write(answers, {"ready": replay.about()})
    for line in sys.stdin:
        record = json.loads(line)
        try:
            output = replay.answer(record["input"])
        except Exception as error:
            traceback.print_exc()
            output = {"error": replay.errors.describe(error, "harness")}
        _write(answers, {**record, "vllm_version": options.release, "output": output})
    sys.stderr.flush()
    # vLLM leaves threads and handlers behind that would delay an orderly end.
    os._exit(0)


def _take_stdout() -> TextIO:
    """The answers' channel; whatever vLLM itself prints goes to stderr from now on."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _write(answers: TextIO, document: object) -> None:
    answers.write(json.dumps(document, separators=(",", ":")) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
