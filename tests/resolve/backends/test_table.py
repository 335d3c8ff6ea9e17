"""The support table: complete, at one with resolve(), and right about the documentation."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, ModelShape, resolve
from cgplan.errors import InputError, StartupError
from cgplan.inputs.catalogue import load_model
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.resolve.backends.documented import Difference
from cgplan.resolve.backends.facts import catalogue
from cgplan.resolve.support_table import SupportTable, support_table

GPUS = ("a100", "h100", "b200", "rtx5090")
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "deepseek-ai/DeepSeek-V3.2",
    "google/gemma-3-27b-it",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)


def table(release: str = "0.33.0", on: str = "h100", model: str | None = None, **more: Any) -> SupportTable:
    shape = load_model(model) if model is not None else ModelShape()
    return support_table(Deployment(vllm=release, gpu=gpu(on), model=shape, **more))


def differences(release: str, on: str) -> dict[str, Difference]:
    return {d.backend: d for d in table(release, on).differences if d.levels}


@pytest.mark.parametrize("release", SUPPORTED)
def test_every_backend_has_a_row(release: str) -> None:
    facts = catalogue(release)
    found = table(release)
    assert [row.name for row in found.rows] == [*facts.backends, *facts.own, *facts.mamba]
    for row in found.rows:
        selectable = facts.backends[row.name].unavailable is None if row.name in facts.backends else True
        assert (row.support is not None) is selectable
        assert bool(row.source) is selectable
        assert row.release == release


@pytest.mark.parametrize("on", GPUS)
@pytest.mark.parametrize("release", SUPPORTED)
def test_the_choice_is_that_of_resolve(release: str, on: str) -> None:
    for model in MODELS:
        shape = load_model(model)
        deployment = Deployment(vllm=release, gpu=gpu(on), model=shape, tensor_parallel_size=4)
        found = support_table(deployment)
        if found.refused is not None:
            with pytest.raises(StartupError) as refusal:
                resolve(deployment)
            assert refusal.value.as_dict() == found.refused.as_dict()
            continue
        expected = resolve(deployment).backend
        assert found.choice == expected
        assert [row.name for row in found.rows if row.chosen and row.kind != "mamba"] == [expected.name]
        chosen = next(row for row in found.rows if row.name == expected.name)
        assert chosen.support is expected.groups[0].support
        if found.asked is None and chosen.priority is not None:
            before = [row for row in found.order if (row.priority or 0) < (chosen.priority or 0)]
            assert [row.name for row in before] == [name for name, _ in expected.rejected]
            assert all(row.reasons for row in before)


def test_the_order_and_why_the_earlier_ones_were_passed_over() -> None:
    found = table(model="deepseek-ai/DeepSeek-V3.2", on="b200")
    assert [row.name for row in found.order] == [
        "FLASHINFER_MLA",
        "TOKENSPEED_MLA",
        "CUTLASS_MLA",
        "FLASH_ATTN_MLA",
        "FLASHMLA",
        "TRITON_MLA",
        "FLASHMLA_SPARSE",
        "FLASHINFER_MLA_SPARSE",
    ]
    assert [row.name for row in found.order if row.chosen] == ["FLASHMLA_SPARSE"]
    assert "the model uses sparse attention" in found.order[0].reasons


def test_a_backend_that_was_asked_for() -> None:
    found = table(on="b200", attention_backend="TRITON_ATTN")
    assert (found.asked, found.why) == ("TRITON_ATTN", "it was asked for and fits")
    assert found.choice is not None
    assert found.choice.name == "TRITON_ATTN"


def test_a_refusal_still_has_its_table() -> None:
    found = table(on="a100", attention_backend="FLASHMLA")
    assert found.choice is None
    assert found.refused is not None
    assert found.refused.code == "CG302"
    assert not any(row.chosen for row in found.rows)


def test_mamba_layers_of_the_model_are_marked() -> None:
    found = table(model="Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert [row.name for row in found.rows if row.chosen] == ["FLASH_ATTN", "GDN_ATTN"]


def test_a_model_with_attention_of_its_own() -> None:
    found = table(model="deepseek-ai/DeepSeek-V4-Flash")
    assert found.order == ()
    assert [row.name for row in found.rows if row.chosen] == ["FLASHMLA_SPARSE_DSV4"]
    against = {row.name: row.reasons for row in found.rows}
    assert against["FLASH_ATTN"] == ("the model picks its attention class itself",)
    assert against["FLASHMLA_SPARSE"] == ("it means FLASHMLA_SPARSE_DSV4 here",)
    assert found.why == "the model picks its attention class itself"


def test_sources_are_of_the_release_itself() -> None:
    for release, line in (("0.33.0", "619-623"), ("0.29.0", "356-360"), ("0.25.1", "322-326")):
        row = table(release).rows[0]
        assert (row.name, row.source) == ("FLASH_ATTN", f"vllm/v1/attention/backends/flash_attn.py:{line}")


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InputError, match="unknown attention backend"):
        table(attention_backend="XFORMERS")


# What docs/design/cuda_graphs.md says at each release, and its line there.
STD = "UNIFORM_SINGLE_TOKEN_DECODE"
MAMBA = ("MAMBA1", "MAMBA2", "SHORT_CONV", "GDN_ATTN", "BAILING_LINEAR")
DOCUMENTED = {
    ("0.33.0", "h100"): {
        "FLASHINFER": (STD, 181),
        "FLASHINFER_MLA": ("UNIFORM_BATCH", 183),
        "ROCM_AITER_MLA": (STD, 185),
        "ROCM_AITER_TRITON_MLA": (STD, 185),
        **dict.fromkeys((*MAMBA, "PLE_SHORT_CONV", "KIMI_K3_KDA"), (STD, 187)),
    },
    ("0.33.0", "b200"): {
        "FLASHINFER_MLA": ("UNIFORM_BATCH", 183),
        "ROCM_AITER_MLA": (STD, 185),
        "ROCM_AITER_TRITON_MLA": (STD, 185),
        **dict.fromkeys((*MAMBA, "PLE_SHORT_CONV", "KIMI_K3_KDA"), (STD, 187)),
    },
    ("0.29.0", "h100"): {
        "FLASHINFER_MLA_SPARSE": ("UNIFORM_BATCH", 186),
        "ROCM_AITER_MLA": (STD, 187),
        "ROCM_AITER_TRITON_MLA": (STD, 187),
        **dict.fromkeys((*MAMBA, "PLE_SHORT_CONV", "KIMI_K3_KDA"), (STD, 189)),
    },
    ("0.29.0", "rtx5090"): {
        "FLASHINFER": (STD, 183),
        "FLASHINFER_MLA_SPARSE": ("UNIFORM_BATCH", 186),
        "ROCM_AITER_MLA": (STD, 187),
        "ROCM_AITER_TRITON_MLA": (STD, 187),
        **dict.fromkeys((*MAMBA, "PLE_SHORT_CONV", "KIMI_K3_KDA"), (STD, 189)),
    },
    ("0.25.1", "h100"): {
        "ROCM_AITER_MLA": (STD, 187),
        "ROCM_AITER_TRITON_MLA": (STD, 187),
        **dict.fromkeys(MAMBA, (STD, 189)),
    },
}
UNLISTED = {"0.33.0": 189, "0.29.0": 191, "0.25.1": 191}


@pytest.mark.parametrize(("release", "on"), DOCUMENTED)
def test_where_the_documentation_differs(release: str, on: str) -> None:
    found = differences(release, on)
    listed = {name: (d.says, d.page) for name, d in found.items() if d.row is not None}
    assert listed == {
        name: (says, f"docs/design/cuda_graphs.md:{line}") for name, (says, line) in DOCUMENTED[release, on].items()
    }
    unlisted = [d for d in found.values() if d.row is None]
    assert {d.page for d in unlisted} == {f"docs/design/cuda_graphs.md:{UNLISTED[release]}"}
    assert {d.levels for d in unlisted} == {("NEVER",)}
    assert "FLASH_ATTN_MLA" in found
    assert not any("NEVER" in d.does for d in unlisted)


def test_flash_attention_4_is_not_listed() -> None:
    found = differences("0.33.0", "b200")["FLASH_ATTN"]
    assert (found.says, found.does) == ("FlashAttention 4 is not listed, so NEVER", "ALWAYS: FlashAttention 4")
    assert differences("0.32.0", "b200")["FLASH_ATTN"].does == "UNIFORM_BATCH: FlashAttention 4"
    assert "FLASH_ATTN" not in differences("0.33.0", "h100")
    assert "FLASH_ATTN" not in differences("0.33.0", "a100")


def test_sentences_that_the_code_contradicts() -> None:
    def said(release: str, on: str) -> list[tuple[str, str, str]]:
        return [(d.backend, d.page, d.source) for d in table(release, on).differences if not d.levels]

    pages, folder = "docs/design/attention_backends.md", "vllm/v1/attention/backends"
    assert said("0.33.0", "h100") == [("TRITON_FLASH_ATTN", f"{pages}:64-69", f"{folder}/triton_flash_attn.py:61")]
    assert said("0.30.0", "h100") == []
    assert said("0.25.1", "rtx5090") == [("FLASH_ATTN", f"{pages}:181", f"{folder}/fa_utils.py:157-162")]
    assert said("0.33.0", "b200") == []
