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


def measured(deployments: int, jobs: int) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """How many deployments there were; seconds on the clock and of processor time from nothing, and again."""
    lengths = max(1, round(deployments / EACH))
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder) / "grid.toml"
        grid.write_text(GRID.format(lengths=", ".join(str(4096 + 1024 * at) for at in range(lengths))))
        return lengths * EACH, _timed(grid, jobs), _timed(grid, jobs)


def rows(deployments: int = 10_000, jobs: int = 2) -> list[tuple[str, str, str, bool]]:
    """What, figure, limit, and whether it is held: by the processor time, which other work does not lengthen much."""
    count, (clock, processor), (again, _) = measured(deployments, jobs)
    limit = jobs * SECONDS * count / WHOLE
    return [
        (
            f"cgplan sweep of {count:,} deployments, {jobs} processes: seconds of processor time",
            f"{processor:.1f} ({clock:.1f} s on the clock; {again:.1f} s with all records there)",
            f"at most {limit:.0f}",
            processor <= limit,
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deployments", nargs="?", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    print(f"{given.jobs} processes, {os.cpu_count()} cores, load before {_load()}")
    told = rows(given.deployments, given.jobs)
    for what, figure, limit, _ in told:
        print(f"{what}: {figure}; {limit}")
    print(f"load after {_load()}")
    return 0 if all(row[3] for row in told) else 1


def _timed(grid: Path, jobs: int) -> tuple[float, float]:
    """Seconds on the clock, and of processor time with that of all processes."""
    command = [sys.executable, "-m", "cgplan", "sweep", str(grid), "-o", f"{grid}.jsonl", "--jobs", str(jobs)]
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    clock, after = time.perf_counter() - start, os.times()
    own = after.children_user - before.children_user + after.children_system - before.children_system
    return clock, own


def _load() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
