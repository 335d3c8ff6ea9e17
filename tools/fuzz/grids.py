"""Sweeps: grids in TOML, and files of records that are gone on with."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from cgplan.cli.sweep_csv import CsvFile
from cgplan.sweep.evaluate import Evaluator
from cgplan.sweep.grid_file import _parsed, _toml, grid_of
from cgplan.sweep.options import names
from cgplan.sweep.profile_jobs import jobs_of
from cgplan.sweep.record_file import RecordFile
from cgplan.sweep.run import Sweep

from .documents import changed, odd
from .kind import Kind, Wrong
from .lines import VALUES
from .texts import PIECES, mutated

BASE: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpu": "h100"}
TEXT = """\
[base]
model = "Qwen/Qwen3-8B"
gpu = "h100"
env = { VLLM_USE_V2_MODEL_RUNNER = "1" }
speculative_config = { method = "ngram", num_speculative_tokens = 3 }

[grid]
vllm = ["0.33.0", "0.19.1"]
max_num_seqs = [16, 256]
max_model_len = ["4k", 40960, "auto"]
gpu_memory_utilization = [0.3, 0.9]
cudagraph_mode = ["default", "PIECEWISE"]
cudagraph_capture_sizes = [[1, 2, 4], "default"]

[[exclude]]
vllm = "0.19.1"
cudagraph_mode = "PIECEWISE"
"""
WORDS = (
    "default",
    "auto",
    "8k",
    "FULL",
    "h100",
    "h200",
    "0.33.0",
    "0.28",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "ngram",
    "fp8",
)
EVALUATED = 3
"""Records that are made of a grid."""


class Grids:
    """A TOML text, or a document of one."""

    def __init__(self, folder: str) -> None:
        self.options = tuple(names())
        self.document = _toml()(TEXT)

    def make(self, dice: random.Random) -> str | dict[str, Any]:
        if dice.random() < 0.4:
            return mutated(dice, TEXT, [TEXT])
        if dice.random() < 0.5:
            found = changed(dice, self.document, (*self.options, *WORDS))
            return found if isinstance(found, dict) else {"base": found}
        lists = {
            dice.choice(self.options): [self._value(dice) for _ in range(dice.randint(1, 4))]
            for _ in range(dice.randint(1, 3))
        }
        base = {**BASE, **{dice.choice(self.options): self._value(dice) for _ in range(dice.randint(0, 2))}}
        return {"base": {name: value for name, value in base.items() if name not in lists}, "grid": lists}

    def _value(self, dice: random.Random) -> Any:
        return odd(dice, WORDS) if dice.random() < 0.5 else dice.choice((*WORDS, *VALUES, 1, 8, 64, 0.5, True))

    def answer(self, given: str | dict[str, Any], dice: random.Random) -> Any:
        document = given
        if isinstance(given, str):
            document = _parsed(given.encode("utf-8", "surrogatepass"), "grid.toml", _toml())
        assert isinstance(document, dict)
        grid = grid_of(document, "grid.toml")
        records = Evaluator(grid)
        found: list[Any] = [records.record(number) for number in list(grid.numbers())[:EVALUATED]]
        for record in found:
            if record["code"] == "CG737":
                raise Wrong(f"a deployment of a grid has no answer: {record['message']}")
        if dice.random() < 0.2:
            keys = {record["key"] for record in found}
            found.append([job.words for job in jobs_of(grid, keys)])
        return found


class Resumed:
    """A file of records that was cut, mixed up or written by somebody else; a sweep goes on with it."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "records.jsonl"
        self.csv = Path(folder) / "records.csv"
        self.grid = grid_of({"base": BASE, "grid": {"max_num_seqs": [16, 256], "gpu_memory_utilization": [0.3, 0.9]}})
        self.lines = Evaluator(self.grid).lines(self.grid.numbers())

    def make(self, dice: random.Random) -> bytes:
        lines = [dice.choice(self.lines) for _ in range(dice.randint(0, 6))]
        if lines and dice.random() < 0.4:
            at = dice.randrange(len(lines))
            lines[at] = json.dumps(changed(dice, json.loads(lines[at]), ("key", "starts")), separators=(",", ":"))
        text = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
        kind = dice.random()
        if kind < 0.3:
            text = text[: dice.randrange(len(text) + 1)]
        elif kind < 0.6:
            at = dice.randrange(len(text) + 1)
            text = text[:at] + dice.choice(PIECES).encode("utf-8", "surrogatepass") + text[at:]
        elif kind < 0.7:
            text = text.replace(b"\n", dice.choice((b"\r\n", b"\r", b"", b"\n\n")))
        return text

    def answer(self, given: bytes, dice: random.Random) -> Any:
        self.path.write_bytes(given)
        self.csv.write_bytes(b"")
        taken: list[dict[str, Any]] = []
        with RecordFile(str(self.path)) as file, CsvFile(self.csv, self.grid) as table:

            def take(line: str, record: dict[str, Any]) -> None:
                taken.append(record)
                table.add(record)

            sweep = Sweep(self.grid, file, take)
            for _ in sweep.run(1):
                pass
            table.finish()
        if len(taken) != self.grid.count:
            raise Wrong(f"{len(taken)} records of a grid of {self.grid.count}")
        with RecordFile(str(self.path)) as file:  # and it can be gone on with once more
            again = Sweep(self.grid, file)
            if again.waiting:
                raise Wrong(f"{len(again.waiting)} records are not found again")
        return taken


GRIDS_KIND = Kind("grids", "grids of `sweep` in TOML, through the reader and three records each", 0.145, Grids)
RESUMED_KIND = Kind("resumed", "files of records that a sweep goes on with", 0.02, Resumed)
