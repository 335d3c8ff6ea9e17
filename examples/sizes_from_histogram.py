"""Choose CUDA graph sizes for a histogram of running requests.

    python examples/sizes_from_histogram.py

The histogram here is a dictionary, as a dashboard may give it: running requests of a step, and how many steps had so
many. `cgplan tune` reads the same from logs, /metrics, CSV and JSON.
"""

from __future__ import annotations

from cgplan import Deployment, Tuning, gpu, load_model, tune
from cgplan.workload import Batches, Range
from cgplan.workload.histogram import workload_of
from cgplan.workload.sizes.limits import Limits

SEEN = {1: 40, 3: 210, 5: 380, 9: 720, 11: 910, 17: 640, 21: 300, 27: 120, 35: 45, 41: 12}
"""Steps by running requests; each request decodes one token a step."""

SERVER = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), max_num_seqs=64)


def choose(seen: dict[int, int], most_graphs: int) -> Tuning:
    """The best list of at most so many graphs for the steps of `seen`."""
    steps = [
        Batches("decode", Range(requests, requests), count, requests=Range(requests, requests))
        for requests, count in seen.items()
    ]
    return tune(SERVER, workload_of(steps, "the dashboard"), limits=Limits(graphs=most_graphs))


def main() -> None:
    found = choose(SEEN, most_graphs=30)
    print(f"today   {len(found.today.sizes)} sizes, {found.today.graphs} graphs")
    print(f"chosen  {len(found.chosen.sizes)} sizes, {found.chosen.graphs} graphs")
    print(f"tokens that a step computes: {-found.gain:+.1%}")
    print(found.flag)


if __name__ == "__main__":
    main()
