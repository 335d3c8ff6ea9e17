"""The backend that a refusal names as the nearest: one that a setting keeps out before one that the model does."""

from __future__ import annotations

import pytest

from cgplan import resolve
from cgplan.deployment import Deployment
from cgplan.errors import StartupError
from cgplan.inputs.catalogue import load_model
from cgplan.releases.gpus import gpu

SPARSE = "nvidia/GLM-5.2-NVFP4"


def _fix(**settings: object) -> str:
    given = {"model": load_model(SPARSE), "gpu": gpu("rtx-pro-6000"), "tensor_parallel_size": 8, **settings}
    with pytest.raises(StartupError) as caught:
        resolve(Deployment(**given))
    assert caught.value.code == "CG303"
    return caught.value.fix or ""


def test_what_a_setting_keeps_out_is_nearer_than_what_the_model_does() -> None:
    fix = _fix(decode_context_parallel_size=2)
    assert fix.startswith("the nearest is FLASHINFER_MLA_SPARSE_SM120, which lacks: no decode context parallelism")
    assert fix.endswith("to have it, leave --decode-context-parallel-size out")
    given = {"model": load_model(SPARSE), "gpu": gpu("rtx-pro-6000"), "tensor_parallel_size": 8}
    assert resolve(Deployment(**given)).backend is not None


def test_two_settings_are_both_named() -> None:
    fix = _fix(decode_context_parallel_size=2, kv_cache_dtype="bfloat16")
    assert "leave --decode-context-parallel-size out and leave --kv-cache-dtype out" in fix


def test_no_setting_is_named_where_none_helps() -> None:
    fix = _fix(gpu=gpu("a100"))
    assert fix.startswith("the nearest is ")
    assert "to have it" not in fix
