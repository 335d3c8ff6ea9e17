"""A value of --what-if has the verdict that a plan of the same value has."""

from __future__ import annotations

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.document import outcome_document
from cgplan.memory.document_schema import OutcomePart
from cgplan.memory.estimates import GIB
from cgplan.memory.request import MemoryRequest
from cgplan.memory.what_if import Outcome, Variant, outcome
from cgplan.releases.gpus import gpu
from cgplan.report.plan_words import headline, meant, verdict

KNOWN = Measured(weights=int(18.47 * GIB))
DEPLOYMENT = Deployment(
    model=load_model("Qwen/Qwen3.6-27B"), gpu=gpu("rtx5090"), vllm="0.19.1", max_model_len=16384,
    max_num_batched_tokens=2048,
)  # fmt: skip


def at(share: float) -> Outcome:
    return outcome(Variant(str(share), DEPLOYMENT, MemoryRequest(MemoryFlags(share), KNOWN)))


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95, 0.97, 0.985, 0.99])
def test_the_verdict_is_that_of_a_plan(share: float) -> None:
    made = plan(DEPLOYMENT, MemoryFlags(share), known=KNOWN)
    found = at(share)
    assert (found.starts, found.fits) == (made.starts, made.fits)
    if made.starts == "unsure":
        word = meant([found])[0].partition(": ")[2]
        assert word.casefold() == headline(made)[0].casefold()
        assert found.why_not[0] in [one.code for one in made.findings]


def test_the_words_of_the_column() -> None:
    assert verdict(at(0.8)) == "yes"
    assert verdict(at(0.95)) == "may not CG509"
    assert verdict(at(0.5)).startswith("no CG")
    assert meant([at(0.8), at(0.5)]) == []


def test_the_document_says_it() -> None:
    found = outcome_document(at(0.95))
    found.pop("name")
    assert OutcomePart.model_validate(found).starts == "unsure"
