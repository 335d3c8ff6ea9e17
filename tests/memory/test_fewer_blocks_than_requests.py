"""What a plan says of the blocks of states where there are fewer than requests (CG501)."""

from __future__ import annotations

import re
from typing import Any

from cgplan import Deployment, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.releases.gpus import gpu
from cgplan.trace import Finding


def made(**more: Any) -> CapacityPlan:
    model = load_model("Qwen/Qwen3.5-4B")
    return plan(Deployment(model=model, gpu=gpu("l4"), vllm="0.28.0", max_num_seqs=512, max_model_len=4096, **more))


class TestBlocksOfStates:
    """CG501 says why it names more requests than there are blocks, and what adapters take."""

    def found(self, **more: Any) -> Finding:
        return next(one for one in made(**more).findings if one.code == "CG501")

    def test_fewer_requests_leave_more_of_them(self) -> None:
        one = self.found()
        blocks, most = re.search(r"the (\d+) Mamba", one.message), re.search(r"\((\d+) at most\)", str(one.fix))
        assert blocks is not None
        assert most is not None
        assert int(most[1]) > int(blocks[1])
        assert one.message.endswith("; fewer requests leave more")

    def test_buffers_of_adapters_are_named(self) -> None:
        more = {"enable_lora": True, "max_loras": 8, "max_lora_rank": 64}
        asked = made(**more)
        assert asked.budget is not None
        size = asked.budget.tightest.adapters / GIB
        assert f"; LoRA's buffers, {size:.2f} GiB, come off the same memory" in self.found(**more).message
        assert "LoRA" not in self.found().message
