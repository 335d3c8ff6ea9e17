"""What steps looked like: texts of /metrics, workloads of one's own as CSV and JSON, and logs with tables of steps."""

from __future__ import annotations

import io
import json
import random
from typing import Any

from cgplan import Deployment, load_model, resolve, tune
from cgplan.inputs.vllm_logs.streams import chunks
from cgplan.releases.gpus import gpu
from cgplan.workload.gathered import Gathered, joined
from cgplan.workload.replay.replay_document import as_document
from cgplan.workload.sizes.limits import Limits
from cgplan.workload.sources.metrics import Snapshot, gathered
from cgplan.workload.sources.sources import read_text
from cgplan.workload.sources.tap import StepTap
from cgplan.workload.tune.tune_document import as_document as tune_document

from .deployments import FIXTURES
from .documents import as_text, changed, odd
from .kind import Kind
from .texts import mutated

METRICS = ("moment-1.txt", "moment-2.txt", "drafting.txt", "through-ray.txt")
LOGS = ("iterations.log", "tables-two-engines.log")
FIELDS = ("tokens", "requests", "query_len", "kind", "loras", "count", "mode", "padded", "num_tokens", "reqs", "x")
CELLS = ("", "1", "0", "-1", "37", "1400", "9-16", "9..16", "16-9", "16385+", "1e3", "nan", "inf", "decode", "mixed",
         "any", "FULL", "NONE", "999999999999", "9999999999999", "0.5", " 7 ", '"7"', "é", "1_000",
         "x" * 300)  # fmt: skip
NUMBERS = ("NaN", "+Inf", "-Inf", "-1", "0", "1e308", "1e999", "0x1", "9" * 400, "1.5", "", "abc")
TUNED = 60
"""One case in so many is tuned, which takes longer than all the rest."""


def deployments() -> list[Deployment]:
    """Deployments that the steps are held against."""
    model = load_model("Qwen/Qwen3-8B")
    return [
        Deployment(model=model, gpu=gpu("h100")),
        Deployment(model=model, gpu=gpu("h100"), enforce_eager=True),
        Deployment(model=model, gpu=gpu("l4"), vllm="0.19.1", max_num_seqs=16),
        Deployment(model=model, gpu=gpu("h200"), max_num_seqs=64, cudagraph_capture_sizes=(1, 2, 4, 64)),
    ]


class Texts:
    """A text goes through what --metrics and --workload do with it."""

    def __init__(self, folder: str) -> None:
        self.deployments = deployments()
        self.resolutions = [resolve(one) for one in self.deployments]
        self.texts = [(FIXTURES / "metrics" / name).read_text(encoding="utf-8") for name in METRICS]

    def make(self, dice: random.Random) -> str:
        text = dice.choice(self.texts)
        if dice.random() < 0.5:
            text = _renumbered(dice, text)
        return mutated(dice, text, self.texts) if dice.random() < 0.8 else text

    def answer(self, given: str, dice: random.Random) -> Any:
        found = read_text(given, "steps.txt")
        if isinstance(found, Snapshot):
            earlier = read_text(self.texts[0], "earlier.txt") if dice.random() < 0.3 else None
            found = gathered(found, earlier if isinstance(earlier, Snapshot) else None)
        return self._told(joined(found), dice)

    def _told(self, found: Gathered, dice: random.Random) -> Any:
        at = dice.randrange(len(self.resolutions))
        documents = [as_document(found), as_document(found, self.resolutions[at])]
        steps = found.together()
        if steps is not None and dice.randrange(TUNED) == 0:
            limits = Limits(dice.choice((None, 1, 5, 100)), dice.choice((None, 10**8)), dice.choice((None, 2.0)))
            spread = dice.choice((0.05, 0.0, 0.9))
            documents.append(tune_document(tune(self.deployments[at], steps, limits=limits, spread=spread)))
        return documents


class Workloads(Texts):
    """CSV and JSON of one's own."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.texts = [
            (FIXTURES / "metrics" / name).read_text(encoding="utf-8") for name in ("traffic.csv", "traffic.json")
        ]
        self.document = json.loads(self.texts[1])

    def make(self, dice: random.Random) -> str:
        kind = dice.random()
        if kind < 0.35:
            return _csv(dice)
        if kind < 0.75:
            return as_text(changed(dice, self.document, (*FIELDS, *CELLS)))
        return mutated(dice, dice.choice(self.texts), self.texts)


class Steps(Texts):
    """Logs with tables of steps, through the tap that listens while a log is read."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.texts = [(FIXTURES / "metrics" / name).read_text(encoding="utf-8") for name in LOGS]

    def answer(self, given: str, dice: random.Random) -> Any:
        tap = StepTap()
        for piece in chunks(io.BytesIO(given.encode("utf-8", "surrogatepass")), []):
            tap.feed(piece)
        found = tap.finish()
        return None if found is None else self._told(found, dice)


def _renumbered(dice: random.Random, text: str) -> str:
    """Some values, labels and names change."""
    lines = text.split("\n")
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(lines))
        head, space, value = lines[at].rpartition(" ")
        if space and dice.random() < 0.7:
            lines[at] = f"{head} {dice.choice((*NUMBERS, value + '0'))}"
        else:
            lines[at] = lines[at].replace(
                dice.choice(("le=", "engine", '"', "}", "_bucket", "vllm:")), dice.choice(("", "x", "\\"))
            )
    return "\n".join(lines)


def _csv(dice: random.Random) -> str:
    names = dice.sample(FIELDS, dice.randint(1, 6))
    delimiter = dice.choice((",", ",", ";", "\t"))
    rows = [delimiter.join(names)]
    for _ in range(dice.randint(0, 12)):
        width = len(names) if dice.random() < 0.9 else dice.randint(0, 9)
        rows.append(
            delimiter.join(dice.choice(CELLS) if dice.random() < 0.9 else str(odd(dice))[:99] for _ in range(width))
        )
    return dice.choice(("\n", "\r\n")).join(rows)


METRICS_KIND = Kind("metrics", "texts of /metrics, held against a resolution, some tuned", 0.025, Texts)
WORKLOADS_KIND = Kind("workloads", "CSV and JSON of --workload, held against a resolution, some tuned", 0.22, Workloads)
STEPS_KIND = Kind("steps", "tables of steps in logs, held against a resolution", 0.0075, Steps)
