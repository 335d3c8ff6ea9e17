"""The room that the sampler's warm-up after capture needs: one rule for `plan` and `logs`.

One public start of 0.19.0 on an H100 at 0.95 ended there: 75.23 GiB asked for, 1.84 GiB of graphs beside them, and the
logits of 1,024 rows of 201,088 entries.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgplan import Deployment, MemoryFlags, load_model, plan
from cgplan.inputs.vllm_logs import read_log
from cgplan.memory.budget import shortages
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.releases.gpus import gpu
from cgplan.report.plan_answer import BEST_ONLY, LITTLE_TO_SPARE, STARTS, headline
from cgplan.startup import remedies
from cgplan.startup.analysis import analyse

LOG = Path(__file__).parents[2] / "fixtures" / "logs" / "B01.txt"


def made(share: float, rows: int | None = None, model: str = "openai/gpt-oss-20b") -> CapacityPlan:
    deployment = Deployment(
        model=load_model(model), gpu=gpu("h100"), vllm="0.19.1", max_model_len=8192, max_num_seqs=rows
    )
    return plan(deployment, MemoryFlags(share))


@pytest.mark.parametrize(
    ("share", "rows", "sentence"),
    [(0.95, None, BEST_ONLY), (0.94, None, LITTLE_TO_SPARE), (0.92, None, STARTS), (0.94, 512, STARTS)],
)
def test_how_firm_the_answer_is(share: float, rows: int | None, sentence: str) -> None:
    assert headline(made(share, rows))[0] == sentence


def test_plan_and_logs_name_the_same_share() -> None:
    assert remedies.MORE_LOGITS is shortages.MORE_LOGITS
    reports = analyse(read_log(LOG))
    crash = reports[0].diagnosis
    assert crash is not None
    assert crash.code == "CG509"
    share = re.match(r"--gpu-memory-utilization ([0-9.]+)", str(crash.fix))
    assert share is not None
    for own in (0.95, 0.94):
        code = "CG509" if own > 0.94 else "CG598"
        fix = next(str(one.fix) for one in made(own).findings if one.code == code)
        assert fix.startswith(f"--gpu-memory-utilization {share[1].rstrip('.')}"), fix
    assert not {one.code for one in made(0.92).findings} & {"CG509", "CG598"}


def test_a_small_vocabulary_has_enough() -> None:
    assert headline(made(0.95, model="meta-llama/Llama-3.1-8B-Instruct"))[0] == STARTS
