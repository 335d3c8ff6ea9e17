"""The bytes of KV cache to pin, from the log of a start.

    python examples/read_a_log.py server.log

vLLM's log suggests a value for --kv-cache-memory-bytes. Since 0.27.1 it takes the CUDA graphs off twice. This prints
the value with the graphs taken off once, for the rank that has the least. Exit status 1 where the server did not come
up.
"""

from __future__ import annotations

import sys

from cgplan.inputs.vllm_logs import read_log
from cgplan.startup.analysis import analyse
from cgplan.startup.corrected import common

GIB = 1 << 30


def main(path: str) -> int:
    reports = analyse(read_log(path))
    if not reports:
        print("the log has no start of vLLM")
        return 1
    last = reports[-1]
    if last.diagnosis is not None:
        print(f"did not start: {last.diagnosis.what}")
        print(f"    fix: {last.diagnosis.fix}")
        return 1
    sizes = common(last.start, last.corrections)
    if sizes is None or not sizes.is_known:
        print("the log does not say what the graphs of every rank took")
        return 0
    least = sizes.least
    if least.printed is not None:
        twice = ", the graphs taken off twice" if least.counts_twice else ""
        print(f"vLLM suggests {least.printed} bytes ({least.printed / GIB:.2f} GiB){twice}")
    print(f"--kv-cache-memory-bytes {sizes.right}  ({sizes.right / GIB:.2f} GiB, by {least.rank})")
    print(least.as_text())
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
