"""--what-if over the number of drafts, with and without a method of speculative decoding."""

from __future__ import annotations

import pytest

from cgplan import Deployment, load_model, plan
from cgplan.cli.plan_variants import what_if
from cgplan.errors import InputError
from cgplan.memory.capacity_plan import CapacityPlan


def made(**more: object) -> CapacityPlan:
    return plan(Deployment(model=load_model("Qwen/Qwen3.5-4B"), vllm="0.33.0", **more))


def test_without_a_method_it_says_how() -> None:
    with pytest.raises(InputError) as raised:
        what_if(made(), "spec-tokens=1,2")
    assert raised.value.code == "CG905"
    assert "--spec-method mtp --what-if spec-tokens=0,1,2" in str(raised.value.fix)


def test_with_a_method_none_is_a_number_too() -> None:
    with_drafts = made(speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    none, one, two = what_if(with_drafts, "spec-tokens=0,1,2").outcomes
    plain = made().best.plan
    assert plain is not None
    assert none.tokens == plain.tokens
    assert none.tokens is not None
    assert one.tokens is not None
    assert two.tokens is not None
    assert none.tokens > one.tokens > two.tokens
