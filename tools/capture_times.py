"""How long capture took, held against the bounds that `plan` and `tune` give.

    python tools/capture_times.py

It reads fixtures/measured/capture_seconds.jsonl (public logs of vLLM 0.19.0 on H100 80 GB) and prints the table of
docs/tune.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cgplan import Deployment, load_model
from cgplan.errors import InputError
from cgplan.memory.capture_seconds import Seconds, capture_seconds
from cgplan.releases.gpus import gpu

ROWS = Path(__file__).parents[1] / "fixtures" / "measured" / "capture_seconds.jsonl"
ROUNDING = 0.5
"""vLLM prints whole seconds."""


class Run(NamedTuple):
    """One start: what was predicted, and what capture took, seconds."""

    model: str
    ranks: int
    is_moe: bool
    said: Seconds
    took: float

    @property
    def is_inside(self) -> bool:
        return self.said.low - ROUNDING <= self.took <= self.said.high + ROUNDING


def runs() -> tuple[list[Run], list[str]]:
    """The starts whose model is known, and the models that are not."""
    found, unknown = [], []
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        try:
            model = load_model(row["model"])
        except InputError:
            unknown.append(row["model"])
            continue
        asked = Deployment(
            model=model, gpu=gpu("h100"), vllm="0.19.1",
            tensor_parallel_size=row["tp"], pipeline_parallel_size=row["pp"],
        )  # fmt: skip
        said = capture_seconds(asked, row["graphs"])
        found.append(Run(row["model"], row["tp"] * row["pp"], model.is_moe, said, row["seconds"]))
    return found, unknown


def main() -> None:
    found, unknown = runs()
    kinds: tuple[tuple[str, Callable[[Run], bool]], ...] = (
        ("dense, one GPU", lambda one: not one.is_moe and one.ranks == 1),
        ("dense, 2 or 4 GPUs", lambda one: not one.is_moe and one.ranks > 1),
        ("experts", lambda one: one.is_moe),
        ("all", lambda one: True),
    )
    print("| starts | number | took, s | within bounds | median of took over predicted | largest |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, belongs in kinds:
        rows = [one for one in found if belongs(one)]
        factors = sorted(one.took / one.said.best for one in rows)
        took = [one.took for one in rows]
        inside = sum(one.is_inside for one in rows)
        print(
            f"| {name} | {len(rows)} | {min(took):g} to {max(took):g} | {inside} of {len(rows)} |"
            f" {factors[len(factors) // 2]:.2f} | {factors[-1]:.2f} |"
        )
    if unknown:
        print(f"\nModels that are not known: {', '.join(sorted(set(unknown)))}.")


if __name__ == "__main__":
    main()
