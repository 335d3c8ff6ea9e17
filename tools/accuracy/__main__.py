"""Predicted against measured, over all data of fixtures/measured/.

    python tools/accuracy            prints the tables and writes docs/accuracy.md
    python tools/accuracy --check    writes nothing; exit status 1 where the page is not what would be written
    python tools/accuracy FILE ...   the same of records of `cgplan logs --save` alone; writes nothing

Exit status 1 as well where a limit is missed: the KV pool within 1.5% in the median and 5% at the 90th percentile,
graph memory within 8% and 20%, and every KV number reached or explained.
"""

from __future__ import annotations

import sys
from pathlib import Path

from components import COMPONENTS, errors, logged, quantile
from kv_cache import check
from page import page, reason
from runs import own_run, runs

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
LIMITS = {
    "KV cache, weights of the row": (0.015, 0.05),
    "CUDA graphs, what capture takes": (0.08, 0.20),
}
"""Median and 90th percentile of the error, by component."""


def main(arguments: list[str]) -> int:
    own = [Path(word) for word in arguments if not word.startswith("--")]
    if own:
        return _own(own)
    measured_runs, left_out = runs("memory_runs.jsonl")
    more, more_left_out = runs("h200_vllm_0.25.1_more.jsonl")
    kv_runs, kv_left_out = runs("kv_runs.jsonl")
    log_runs, _ = runs("graph_logs.jsonl")
    measured = [(component, errors(component, [*measured_runs, *_alike(more)])) for component in COMPONENTS]
    answers = [check(run) for run in kv_runs]
    out = dict.fromkeys([*left_out, *more_left_out, *kv_left_out])
    changed = (f"{run.name}: has model overrides" for run in more if _is_changed(run))
    text = page(measured, answers, [*out, *changed], logged(log_runs))
    print(text)
    missed = [
        component.name
        for component, found in measured
        if component.name in LIMITS
        and any(quantile(found, q) > most for q, most in zip((0.5, 0.9), LIMITS[component.name], strict=True))
    ]
    missed += [answer.run.name for answer in answers if answer.problem and reason(answer) == "not explained"]
    for name in missed:
        print(f"MISS  {name}", file=sys.stderr)
    if "--check" in arguments:
        stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
        if stale:
            print("docs/accuracy.md is stale; run python tools/accuracy", file=sys.stderr)
        return int(stale or bool(missed))
    PAGE.write_text(text, encoding="utf-8")
    return int(bool(missed))


def _own(paths: list[Path]) -> int:
    """Predicted against what the user's own starts took, a line for each component of each record."""
    for path in paths:
        run = own_run(path)
        for component in COMPONENTS:
            for one in errors(component, [run]):
                held = "inside" if one.covered else "outside"
                print(f"{run.name}  {component.name}: {one.error:+.1%}, {held} the bounds")
    return 0


def _is_changed(run: object) -> bool:
    return "model_overrides" in getattr(run, "record", {})


def _alike(found: list) -> list:  # type: ignore[type-arg]
    """Runs of the models as they are published."""
    return [run for run in found if not _is_changed(run)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
