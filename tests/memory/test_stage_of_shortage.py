"""Which pipeline stage a shortage of memory is that of."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, load_model
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.releases.gpus import gpu


def messages(model: str, on: str, flags: MemoryFlags | None = None, **more: Any) -> dict[str, str]:
    deployment = Deployment(model=load_model(model), gpu=gpu(on), **more)
    made = plan_of(deployment, MemoryRequest(flags or MemoryFlags()), advise=False)
    return {found.code: found.message for found in made.findings}


@pytest.mark.parametrize(
    ("code", "model", "on", "flags", "begins"),
    [
        ("CG597", "meta-llama/Llama-3.1-70B-Instruct", "a100-40gb", MemoryFlags(), "the weights"),
        ("CG508", "Qwen/Qwen3-32B", "l40s", MemoryFlags(kv_cache_bytes=40 << 30), "the KV cache"),
    ],
)
def test_the_stage_is_named(code: str, model: str, on: str, flags: MemoryFlags, begins: str) -> None:
    several = messages(model, on, flags, pipeline_parallel_size=2)
    assert several[code].startswith(f"pipeline stage 2 of 2: {begins}"), several
    alone = messages(model, on, flags)
    assert "pipeline stage" not in " ".join(alone.values())
