"""Cache options that the configuration refuses together."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MLA

from cgplan import Deployment, ModelShape, StartupError, resolve


def hybrid(**fields: Any) -> Deployment:
    model = ModelShape(architectures=("NemotronHForCausalLM",), is_hybrid=True, mamba_backends=("MAMBA2",))
    return Deployment(model=model, **fields)


@pytest.mark.parametrize(
    ("deployment", "code"),
    [
        (Deployment(model=MLA, kv_cache_dtype="nvfp4"), "CG556"),
        (hybrid(mamba_block_size=64, enable_prefix_caching=False), "CG557"),
        (hybrid(mamba_block_size=64, vllm="0.25.1"), "CG557"),
        (hybrid(mamba_ssm_cache_dtype="bfloat16", vllm="0.21.0"), "CG555"),
    ],
)
def test_refused(deployment: Deployment, code: str) -> None:
    with pytest.raises(StartupError) as error:
        resolve(deployment)
    assert (error.value.code, error.value.stage, error.value.raised_as) == (
        code,
        "create_engine_config",
        "ValidationError",
    )


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(model=MLA, kv_cache_dtype="fp8"),
        Deployment(model=ModelShape(architectures=("LlamaForCausalLM",)), mamba_block_size=64),
        hybrid(mamba_block_size=64),
        hybrid(mamba_ssm_cache_dtype="bfloat16", vllm="0.22.1"),
        hybrid(mamba_block_size=131072, enable_prefix_caching=False),
    ],
)
def test_accepted(deployment: Deployment) -> None:
    assert resolve(deployment)
