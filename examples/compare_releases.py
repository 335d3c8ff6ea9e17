"""What an upgrade of vLLM changes for one server: a gate before the image tag is raised.

    python examples/compare_releases.py 0.28 0.33

Exit status 1 where fewer decode batches run in a FULL graph than before, or the newer release does not start.
"""

from __future__ import annotations

import sys

from cgplan import Deployment, gpu, load_model, resolve
from cgplan.compare import compare

SERVER = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), max_num_seqs=100)


def full_batches(release: str) -> int:
    """How many of the decode batches, 1 to max_num_seqs, run in a FULL graph."""
    found = resolve(SERVER.model_copy(update={"vllm": release}))
    return sum(found.dispatch(requests).mode.name == "FULL" for requests in range(1, found.max_num_seqs + 1))


def main(first: str, last: str) -> int:
    found = compare(SERVER, first, last)
    for change in found.changes:
        print(f"{change.label}, by {', '.join(change.codes)} in {', '.join(change.releases)}")
    if found.last.error is not None:
        print(f"{last} does not start: {found.last.error.message}")
        return 1
    before, after = full_batches(found.first.release), full_batches(found.last.release)
    print(f"decode batches in a FULL graph: {before} -> {after} of {SERVER.max_num_seqs}")
    return int(after < before)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:3]))
