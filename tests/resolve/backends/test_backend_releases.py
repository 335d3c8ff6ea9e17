"""Attention backends release by release: answers of the real vLLM, and what changed when."""

from __future__ import annotations

from typing import Any

import backend_points as given
import pytest
from backend_cases import AL, DEEPSEEK, DEEPSEEK_SPARSE, LLAMA, NV, STD, UB

from cgplan import releases
from cgplan.deployment import Deployment
from cgplan.errors import InputError, StartupError
from cgplan.model_shape import ModelShape
from cgplan.resolve.backends import BackendChoice, choose_backends
from cgplan.resolve.backends.checks import reasons
from cgplan.resolve.backends.facts import catalogue
from cgplan.resolve.backends.selection import candidates, select
from cgplan.resolve.backends.support import level, named_level
from cgplan.sections import AttentionOptions, Gpu, Software, SpeculativeOptions
from cgplan.trace import RULES, Trace
from cgplan.vocabulary import AttentionCGSupport


@pytest.fixture(autouse=True)
def every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "SUPPORTED", tuple(given.RELEASES))


def choose(
    release: str,
    model: ModelShape = LLAMA,
    capability: tuple[int, int] = (9, 0),
    platform: str = "cuda",
    **options: Any,
) -> BackendChoice:
    gpu = Gpu(capability=capability, platform=platform)  # type: ignore[arg-type]
    deployment = Deployment(vllm=release, model=model, gpu=gpu, **options)
    return choose_backends(deployment, dtype="bfloat16", trace=Trace())


def shape(**changes: Any) -> ModelShape:
    return LLAMA.model_copy(update=changes)


# --- answers of the real vLLM ------------------------------


@pytest.mark.parametrize("release", given.RELEASES)
def test_layers_get_the_backend_the_level_and_the_reasons_of_vllm(release: str) -> None:
    facts = catalogue(release)
    assert len(given.points(release)) >= 1400
    for point in given.points(release):
        class_name, name, support, error, indexer, why_not = point.answer
        layer = given.layer_of_point(release, point)
        asked = point.q["backend"]
        for backend, kinds in why_not.items():
            assert [r.kind for r in reasons(facts.backends[backend], layer)] == kinds, (backend, point)
        if asked is None:
            assert [b.enum for b in candidates(layer, facts)] == list(why_not), point
        if error is not None:
            with pytest.raises(StartupError) as refused:
                select(layer, asked, release)
            assert refused.value.raised_as == error, point
        else:
            taken = select(layer, asked, release).backend
            decided = level(taken, layer)
            assert (taken.class_name, taken.name, decided.support) == (class_name, name, support), (point, decided)
        if indexer is not None:
            assert named_level("indexer", layer, "").support == indexer, point


@pytest.mark.parametrize("release", given.RELEASES)
def test_deployments_get_the_backend_and_the_level_of_vllm(release: str) -> None:
    for point in given.points(release):
        if point.m.get("attn_type") not in (None, "encoder_only"):
            continue
        class_name, name, support, error, _, _ = point.answer
        deployment = given.deployment_of_point(release, point)
        dtype = point.q["dtype"]
        if error is not None:
            with pytest.raises(StartupError) as refused:
                choose_backends(deployment, dtype=dtype, trace=Trace(), extra_groups=False)
            assert refused.value.raised_as == error, point
            continue
        choice = choose_backends(deployment, dtype=dtype, trace=Trace(), extra_groups=False)
        (group,) = choice.groups
        assert (group.class_name, group.name, group.support) == (class_name, name, support), point
        assert choice.support == support
        assert choice.weakest == (None if support == AL else class_name)


# --- levels that changed ------------------------------


@pytest.mark.parametrize(
    ("backend", "model", "capability", "history"),
    [
        ("FLASH_ATTN", LLAMA, (10, 0), {"0.19.1": UB, "0.33.0": AL}),
        ("FLASH_ATTN", LLAMA, (9, 0), {"0.19.1": AL}),
        ("FLASH_ATTN", LLAMA, (8, 0), {"0.19.1": UB}),
        ("FLASHINFER", LLAMA, (8, 0), {"0.19.1": STD, "0.33.0": UB}),
        ("FLASHINFER", LLAMA, (9, 0), {"0.19.1": STD, "0.30.0": UB}),
        ("FLASHINFER", LLAMA, (10, 0), {"0.19.1": UB}),
        ("FLASHINFER", LLAMA, (12, 0), {"0.19.1": STD, "0.28.0": UB}),
        ("FLEX_ATTENTION", LLAMA, (9, 0), {"0.19.1": NV, "0.20.2": AL}),
        ("TRITON_MLA", DEEPSEEK, (8, 0), {"0.19.1": NV, "0.22.1": UB, "0.26.0": STD, "0.31.0": UB}),
        ("FLASHINFER_MLA", DEEPSEEK, (10, 0), {"0.19.1": UB, "0.31.0": AL}),
        ("FLASHINFER_MLA_SPARSE", DEEPSEEK_SPARSE, (10, 0), {"0.19.1": UB, "0.29.0": AL, "0.32.0": UB}),
    ],
)
def test_levels_over_the_releases(
    backend: str, model: ModelShape, capability: tuple[int, int], history: dict[str, AttentionCGSupport]
) -> None:
    expected = NV
    for release in given.RELEASES:
        expected = history.get(release, expected)
        main = choose(release, model, capability, attention_backend=backend).groups[0]
        assert (release, main.support) == (release, expected)


@pytest.mark.parametrize(
    ("release", "capability", "deep_gemm", "drafts", "support"),
    [
        ("0.27.1", (10, 0), True, 3, UB),
        ("0.28.0", (10, 0), True, 0, AL),
        ("0.28.0", (9, 0), True, 2, UB),
        ("0.29.0", (9, 0), True, 2, AL),
    ],
)
def test_indexer(
    release: str, capability: tuple[int, int], deep_gemm: bool, drafts: int, support: AttentionCGSupport
) -> None:
    spec = SpeculativeOptions(method="ngram", num_speculative_tokens=drafts) if drafts else None
    software = Software(deep_gemm=deep_gemm)
    choice = choose(release, DEEPSEEK_SPARSE, capability, software=software, speculative_config=spec)
    assert [(g.kind, g.support) for g in choice.groups[1:]] == [("indexer", support)]


def test_rules_of_levels_hold_for_their_releases() -> None:
    cases = [
        ("FLASH_ATTN", LLAMA, (9, 0)),
        ("FLASHINFER", LLAMA, (10, 0)),
        ("FLASHINFER_MLA_SPARSE", DEEPSEEK_SPARSE, (10, 0)),
    ]
    for release in given.RELEASES:
        for backend, model, capability in cases:
            trace = Trace()
            deployment = Deployment(
                vllm=release, model=model, gpu=Gpu(capability=capability), attention_backend=backend
            )
            choose_backends(deployment, dtype="bfloat16", trace=trace)
            for code in {decision.code for decision in trace.decisions}:
                rule = RULES[code]
                assert releases.holds(release, rule.since, rule.until), (release, code)


def test_chunked_local_attention_was_never_captured() -> None:
    model = shape(architectures=("Llama4ForCausalLM",), attention_chunk_size=8192)
    assert {choose(release, model).support for release in given.RELEASES} == {NV}


# --- names ------------------------------


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("TREE_ATTN", "0.19.1", "0.20.2"),
        ("TURBOQUANT", "0.20.2", "0.33.0"),
        ("TOKENSPEED_MLA", "0.21.0", "0.33.0"),
        ("FLASHMLA_SPARSE_DSV4", "0.23.0", "0.33.0"),
        ("TRITON_ATTN_DIFFKV", "0.24.0", "0.33.0"),
        ("FLASHINFER_MLA_SPARSE_SM120", "0.24.0", "0.33.0"),
        ("HPC_ATTN", "0.25.1", "0.33.0"),
        ("CUTLASS_MSA", "0.27.1", "0.33.0"),
        ("CPU_MLA", "0.28.0", "0.33.0"),
        ("AMX_MLA", "0.29.0", "0.33.0"),
        ("B12X", "0.30.0", "0.33.0"),
        ("TRITON_FLASH_ATTN", "0.30.0", "0.33.0"),
        ("FLASHMLA_MEGA_ATTN_DSV41", "0.31.0", "0.33.0"),
        ("ULTRAQUANT", "0.32.0", "0.33.0"),
        ("STEP5_DSA", "0.33.0", "0.33.0"),
    ],
)
def test_names_by_release(name: str, first: str, last: str) -> None:
    known = [release for release in given.RELEASES if name in catalogue(release).backends]
    assert (known[0], known[-1]) == (first, last)
    assert len(known) == given.RELEASES.index(last) - given.RELEASES.index(first) + 1


def test_unknown_names_are_refused_with_the_nearest_of_the_release() -> None:
    for release, name, near in (("0.20.2", "FLASHMLA_SPARSE_DSV4", "FLASHMLA_SPARSE"), ("0.33.0", "TREE_ATTN", None)):
        with pytest.raises(InputError) as unknown:
            choose(release, attention_backend=name)
        assert unknown.value.code == "CG305"
        assert near is None or near in (unknown.value.fix or "")


def test_number_of_names() -> None:
    counts = {release: len(catalogue(release).backends) for release in given.RELEASES}
    assert (counts["0.19.1"], counts["0.24.0"], counts["0.29.0"], counts["0.33.0"]) == (24, 31, 37, 50)


# --- selection ------------------------------


@pytest.mark.parametrize(
    ("release", "model", "capability", "options", "name"),
    [
        ("0.25.1", LLAMA, (10, 0), {"attention_config": AttentionOptions(use_non_causal=True)}, "FLASHINFER"),
        ("0.26.0", LLAMA, (10, 0), {"attention_config": AttentionOptions(use_non_causal=True)}, "FLASH_ATTN"),
        ("0.23.0", shape(is_mm_prefix_lm=True, head_size=128), (9, 0), {}, "TRITON_ATTN"),
        (
            "0.24.0",
            shape(is_mm_prefix_lm=True, head_size=128),
            (9, 0),
            {"attention_config": AttentionOptions(flash_attn_version=4)},
            "FLASH_ATTN",
        ),
        ("0.29.0", shape(is_mm_prefix_lm=True, head_size=256), (10, 0), {}, "TRITON_ATTN"),
        ("0.30.0", shape(is_mm_prefix_lm=True, head_size=256), (10, 0), {}, "TRITON_FLASHINFER"),
        ("0.19.1", shape(head_size=512), (9, 0), {}, "TRITON_ATTN"),
        ("0.21.0", shape(head_size=512), (9, 0), {}, "FLASH_ATTN"),
        ("0.23.0", shape(head_size=64), (7, 5), {}, "FLASHINFER"),
        ("0.24.0", shape(head_size=64), (7, 5), {}, "TRITON_ATTN"),
        ("0.23.0", DEEPSEEK, (12, 0), {}, "TRITON_MLA"),
        ("0.24.0", DEEPSEEK_SPARSE, (9, 0), {}, "FLASHMLA_SPARSE"),
        ("0.25.1", DEEPSEEK_SPARSE, (9, 0), {}, "FLASH_ATTN_MLA_SPARSE"),
        ("0.32.0", DEEPSEEK_SPARSE, (10, 0), {"tensor_parallel_size": 8}, "FLASHINFER_MLA_SPARSE"),
        ("0.33.0", DEEPSEEK_SPARSE, (10, 0), {"tensor_parallel_size": 8}, "FLASH_ATTN_MLA_SPARSE_FA4"),
        ("0.29.0", shape(has_sinks=True, head_size=64), (12, 0), {}, "FLASHINFER"),
        ("0.27.1", shape(has_sinks=True, head_size=64), (12, 0), {}, "TRITON_ATTN"),
        ("0.23.0", shape(architectures=("Gemma4ForCausalLM",), head_size=256), (9, 0), {}, "TRITON_ATTN"),
        ("0.24.0", shape(architectures=("Gemma4ForCausalLM",), head_size=256), (9, 0), {}, "FLASH_ATTN"),
    ],
)
def test_selection(
    release: str, model: ModelShape, capability: tuple[int, int], options: dict[str, Any], name: str
) -> None:
    assert choose(release, model, capability, **options).name == name


@pytest.mark.parametrize(
    ("release", "capability", "names"),
    [
        ("0.20.2", (9, 0), ["V4_FLASHMLA_SPARSE", UB, UB, AL, UB]),
        ("0.23.0", (12, 0), ["FLASHMLA_SPARSE_DSV4", UB, UB, AL, UB]),
        ("0.24.0", (12, 0), ["FLASHINFER_MLA_SPARSE_DSV4", UB, UB, AL, UB]),
        ("0.28.0", (9, 0), ["FLASHMLA_SPARSE_DSV4", AL, UB, AL, AL]),
        ("0.29.0", (12, 0), ["FLASHINFER_MLA_SPARSE_DSV4", UB, UB, AL, UB]),
        ("0.30.0", (12, 0), ["FLASHINFER_MLA_SPARSE_DSV4", AL, UB, AL, AL]),
    ],
)
def test_deepseek_v4(release: str, capability: tuple[int, int], names: list[Any]) -> None:
    model = DEEPSEEK_SPARSE.model_copy(update={"architectures": ("DeepseekV4ForCausalLM",), "head_size": 512})
    choice = choose(release, model, capability)
    assert [choice.name, *(group.support for group in choice.groups)] == names


def test_state_space_layers() -> None:
    bailing = shape(architectures=("BailingMoeV2_5ForCausalLM",), mamba_backends=("LINEAR",))
    assert choose("0.24.0", bailing).groups[1].support == STD
    assert choose("0.25.1", bailing).groups[1].support == UB
    kimi = shape(architectures=("KimiK3ForConditionalGeneration",), mamba_backends=("GDN_ATTN",))
    assert [choose(r, kimi).groups[1].support for r in ("0.27.1", "0.30.0", "0.31.0")] == [UB, UB, AL]


def test_batch_invariance_asks_for_a_named_backend_in_the_oldest_release() -> None:
    on = {"VLLM_BATCH_INVARIANT": "1"}
    with pytest.raises(StartupError) as refused:
        choose("0.19.1", env=on)
    assert (refused.value.code, refused.value.raised_as) == ("CG345", "RuntimeError")
    assert choose("0.19.1", env=on, attention_backend="FLASH_ATTN").name == "FLASH_ATTN"
    assert choose("0.20.2", env=on).name == "FLASH_ATTN"


def test_reference_sliding_window() -> None:
    ocr = shape(architectures=("UnlimitedOCRForCausalLM",))
    assert choose("0.25.1", ocr).name == "FLASH_ATTN"
    assert choose("0.25.1", ocr, (8, 0)).name == "TRITON_ATTN"
    for backend, error in (("FLASHINFER", "ValidationError"), ("FLASH_ATTN", "RuntimeError")):
        with pytest.raises(StartupError) as refused:
            choose("0.33.0", ocr, (8, 0), attention_backend=backend)
        assert (refused.value.code, refused.value.raised_as) == ("CG344", error)


# --- other platforms ------------------------------


@pytest.mark.parametrize(
    ("release", "platform", "model", "name", "support"),
    [
        ("0.21.0", "xpu", LLAMA, "FLASH_ATTN", UB),
        ("0.22.1", "xpu", LLAMA, "FLASH_ATTN", AL),
        ("0.25.1", "xpu", LLAMA, "FLASH_ATTN", UB),
        ("0.33.0", "xpu", LLAMA, "FLASH_ATTN", AL),
        ("0.31.0", "xpu", DEEPSEEK, "TRITON_MLA", UB),
        ("0.32.0", "xpu", DEEPSEEK, "FLASH_ATTN_MLA", STD),
        ("0.32.0", "xpu", shape(is_mm_prefix_lm=True, head_size=256), "TRITON_ATTN", AL),
        ("0.24.0", "xpu", shape(is_mm_prefix_lm=True, head_size=256), "FLASH_ATTN", AL),
        ("0.28.0", "cpu", DEEPSEEK, "CPU_MLA", NV),
        ("0.19.1", "rocm", LLAMA, "ROCM_ATTN", AL),
        ("0.24.0", "rocm", DEEPSEEK_SPARSE, "ROCM_AITER_MLA_SPARSE", STD),
    ],
)
def test_platforms(release: str, platform: str, model: ModelShape, name: str, support: AttentionCGSupport) -> None:
    choice = choose(release, model, platform=platform)
    assert (choice.name, choice.groups[0].support) == (name, support)


def test_mla_on_the_cpu_is_newer_than_0_27() -> None:
    with pytest.raises(StartupError) as refused:
        choose("0.27.1", DEEPSEEK, platform="cpu")
    assert refused.value.raised_as == "NotImplementedError"
