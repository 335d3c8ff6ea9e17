"""A value of --what-if has the verdict that a plan of the same value has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.document import outcome_document
from cgplan.memory.document_schema import OutcomePart
from cgplan.memory.estimates import GIB
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.memory.what_if import Outcome, Variant, outcome
from cgplan.releases.gpus import gpu
from cgplan.report.plan_answer import answer, headline, meant, verdict, warned
from cgplan.report.plan_what_if import head, rows, to_know, why_not

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
    assert verdict(at(0.95)) == "may not CG507 CG509 CG552 +1"
    assert verdict(at(0.5)).startswith("no CG")
    assert meant([at(0.8), at(0.5)]) == []


def test_the_document_says_it() -> None:
    found = outcome_document(at(0.95))
    found.pop("name")
    assert OutcomePart.model_validate(found).starts == "unsure"


ASKED = {
    "sampler": (Deployment(model=load_model("openai/gpt-oss-20b"), gpu=gpu("h100"), vllm="0.19.1"), None),
    "shared memory": (Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("gb10"), max_model_len=8192), None),
    "known to be free": (Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("gb10")), Measured(free=100 * GIB)),
    "hybrid": (DEPLOYMENT, KNOWN),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("share", [0.3, 0.8, 0.92, 0.94, 0.95, 0.97])
def test_the_word_stands_for_the_sentence_of_the_plan(name: str, share: float) -> None:
    deployment, known = ASKED[name]
    request = MemoryRequest(MemoryFlags(share), known or Measured())
    made = plan(deployment, MemoryFlags(share), known=known)
    found = outcome(Variant(str(share), deployment, request))
    assert answer(found.starts, found.fits, {code for code, _ in found.said}).sentence == headline(made)[0]
    warned_of = {one.code for one in made.findings if one.severity == "warning" and one.code != "CG599"}
    if found.starts != "no":
        assert warned_of <= {code for code, _ in found.said}


def test_a_warning_stands_beside_the_word() -> None:
    deployment = Deployment(
        model=load_model("nvidia/Qwen3.6-27B-NVFP4"), gpu=gpu("rtx5090"), vllm="0.28.0", max_model_len=49152,
        max_num_seqs=16,
    )  # fmt: skip
    many, few = (
        outcome(
            Variant(
                str(n), deployment.model_copy(update={"max_num_batched_tokens": n}), MemoryRequest(MemoryFlags(0.93))
            )
        )
        for n in (8192, 3072)
    )
    assert "CG552" in verdict(many)
    assert "CG552" not in verdict(few)
    assert any(line.startswith("CG552, of 8192: a prefill of 8192 tokens takes") for line in warned([few, many]))
    assert warned([few]) == []


class TestThePeakAndWhatStaysFree:
    """A34: what fewer batched tokens free is in columns, also of values that are refused for another cause."""

    def rows(self, name: str, *tokens: int, release: str = "0.28.0", **more: Any) -> list[Outcome]:
        known = Deployment(model=load_model(name), gpu=gpu("rtx5090"), vllm=release, **more)
        return [outcome(Variant(str(one), known.model_copy(update={"max_num_batched_tokens": one}))) for one in tokens]

    def test_of_refused_values_too(self) -> None:
        found = self.rows("nvidia/Qwen3.6-27B-NVFP4", 8192, 2048, max_model_len=100000)
        assert [one.starts for one in found] == ["no", "no"]
        assert head(found)[-3:] == ("peak GiB", "free GiB", "prefill GiB")
        for one, cells in zip(found, rows(found), strict=True):
            made = plan_of(
                Deployment(
                    model=load_model("nvidia/Qwen3.6-27B-NVFP4"), gpu=gpu("rtx5090"), vllm="0.28.0",
                    max_model_len=100000, max_num_batched_tokens=int(one.name),
                ),
                MemoryRequest(), advise=False,
            )  # fmt: skip
            assert made.budget is not None
            stage = made.budget.tightest
            assert (one.activation_bytes, one.surely_free_bytes) == (stage.activation.best, stage.unused.low)
            assert cells[-3:-1] == (f"{stage.activation.best / GIB:.2f}", f"{stage.unused.low / GIB:.2f}")
            said = next(finding.message for finding in made.findings if finding.code == "CG552")
            assert f" to {cells[-1]} GiB more than vLLM profiles" in said
        assert any(line.startswith("prefill GiB: ") for line in to_know(found, found))

    def test_no_such_columns_where_the_peak_stays(self) -> None:
        found = self.rows("nvidia/Qwen3.6-27B-NVFP4", 2048, 2048, max_model_len=16384)
        assert "peak GiB" not in head(found)
        assert not any("peak GiB" in line for line in to_know(found, found))

    def test_no_prefill_of_a_model_without_such_layers(self) -> None:
        found = self.rows("Qwen/Qwen3-8B", 16384, 2048, max_model_len=16384, max_num_seqs=16)
        assert head(found)[-2:] == ("peak GiB", "free GiB")
        assert {one.prefill_bytes for one in found} == {None}

    def test_a_reason_once_with_the_values_that_have_it(self) -> None:
        found = [*self.rows("Qwen/Qwen3-8B", 2048, 2048, max_model_len=40960), at(0.8)]
        found[0] = replace(found[0], name="a", why_not=("CG561", "too long"))
        found[1] = replace(found[1], name="b", why_not=("CG561", "too long"))
        assert why_not(found) == ["CG561, of a, b: too long"]
