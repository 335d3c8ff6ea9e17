from __future__ import annotations

import pytest
from asked_lines import pointed_at, told

from cgplan.check.resolved import TELLERS, says_more
from cgplan.trace import RULES


def test_every_code_that_is_worded_anew_is_a_rule() -> None:
    assert [code for code in TELLERS if code not in RULES] == []


def test_a_code_has_one_teller() -> None:
    with pytest.raises(ValueError, match="CG701"):
        says_more("CG701")(TELLERS["CG701"])


def test_a_finding_without_teller_stands_at_its_setting() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 8 --max-model-len 100 --max-num-batched-tokens 8192"
    assert pointed_at(told(line, "CG124")) == "--max-num-batched-tokens"
