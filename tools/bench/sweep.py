"""`cgplan sweep`: seconds for a grid of deployments on this machine, and again with all records there.

    python tools/bench/sweep.py [DEPLOYMENTS] [--jobs N]

Figures are of 10,000 deployments by default, held to the same share of the limit for 100,000. The processor time says
what the work takes; the seconds on the clock also what else the machine does, so its load is printed beside them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 60.0
"""Limit for 100,000 deployments on two cores."""
WHOLE = 100_000
GRID = """\
[base]
model = "Qwen/Qwen3-8B"

[grid]
gpu = ["h100", "h200", "l40s", "a100", "b200"]
vllm = ["0.33.0", "0.30.0", "0.27.1", "0.25.1", "0.19.1"]
tensor_parallel_size = [1, 2, 4, 8]
cudagraph_mode = ["default", "FULL", "PIECEWISE", "NONE"]
max_num_seqs = [16, 32, 64, 128, 192, 256, 384, 512, 768, 1024]
max_num_batched_tokens = [2048, 4096, 8192, 16384, 32768]
max_model_len = [{lengths}]
"""
EACH = 5 * 5 * 4 * 4 * 10 * 5
"""Deployments of one length. No option is one of memory alone, which would be cheaper."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deployments", nargs="?", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    lengths = max(1, round(given.deployments / EACH))
    count = lengths * EACH
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder) / "grid.toml"
        grid.write_text(GRID.format(lengths=", ".join(str(4096 + 1024 * at) for at in range(lengths))))
        print(f"{count:,} deployments, {given.jobs} processes, {os.cpu_count()} cores, load before {_load()}")
        first = _timed(grid, given.jobs)
        again = _timed(grid, given.jobs)
    limit = SECONDS * count / WHOLE
    for name, (clock, processor) in (("from nothing", first), ("all records there", again)):
        print(f"{name}: {clock:.1f} s on the clock, {processor:.1f} s of processor time, {count / clock:,.0f} a second")
    print(f"limit {limit:.1f} s; load after {_load()}")
    return 0 if first[0] <= limit else 1


def _timed(grid: Path, jobs: int) -> tuple[float, float]:
    """Seconds on the clock, and of processor time with that of all processes."""
    command = [sys.executable, "-m", "cgplan", "sweep", str(grid), "-o", f"{grid}.jsonl", "--jobs", str(jobs)]
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - start, os.times()
    own = after.children_user - before.children_user + after.children_system - before.children_system
    return clock, own


def _load() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
