"""Bytes a parameter of every model of the catalogue: a scheme that is not read, or a shape that is another's, shows."""

from __future__ import annotations

import pytest

from cgplan import Deployment, InputError, ModelShape, load_model, resolve
from cgplan.inputs.catalogue import CatalogueEntry, catalogue_ids, load
from cgplan.inputs.hf_config import shape_of
from cgplan.inputs.served_model import named_model
from cgplan.memory.budget.measured import Measured
from cgplan.memory.budget.weights import estimate_weights
from cgplan.memory.plan import plan
from cgplan.releases.gpus import gpu
from cgplan.weight_shape import NOT_SAID

ENTRIES = {entry.model_id: entry for entry in catalogue_ids()}
UNKNOWN = {
    "MiniMaxAI/MiniMax-M3": "vLLM's registry lacks its architecture",
    "stepfun-ai/Step-3.7-Flash": "vLLM's registry lacks its architecture",
    "stepfun-ai/Step-3.7-Flash-FP8": "vLLM's registry lacks its architecture",
    "tiiuae/Falcon-H1-0.5B-Base": "how its layers with a state are laid out is not known",
}
RANGES = {"plain": (1.95, 2.10), "8": (0.98, 1.17), "4": (0.51, 0.73)}
"""Bytes a parameter by bits of a weight: scales, embeddings and heads of full precision come on top."""
EXCEPTIONS = {
    "google/gemma-3-4b-it": (2.10, 2.16, "the rotary tables are much beside so few weights"),
    "nvidia/Gemma-4-26B-A4B-NVFP4": (0.70, 0.80, "attention and the MLP beside the experts are left in bf16"),
    "nvidia/Gemma-4-31B-IT-NVFP4": (1.00, 1.12, "attention is left in bf16"),
    "nvidia/Qwen3.6-27B-NVFP4": (0.73, 0.85, "mixed: attention in fp8"),
}
APART = {
    "Qwen/Qwen3-0.6B": "the files hold the output head, which vLLM ties to the embedding",
    "Qwen/Qwen3-1.7B": "the files hold the output head, which vLLM ties to the embedding",
    "google/gemma-4-26B-A4B": "the files hold the output head, which vLLM ties to the embedding",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "the module that drafts is not in the record",
    "Qwen/Qwen3-Next-80B-A3B-Thinking": "the module that drafts is not in the record",
    "zai-org/GLM-4.7-Flash": "the module that drafts is not in the record",
}
"""Models whose record counts parameters that vLLM does not load."""
BY_NAME = {
    "moonshotai/Kimi-K2-Thinking",
    "nvidia/DeepSeek-V3-0324-NVFP4",
    "nvidia/DeepSeek-V3.1-NVFP4",
    "nvidia/DeepSeek-V3.2-NVFP4",
    "nvidia/GLM-5-NVFP4",
    "nvidia/Llama-3.1-70B-Instruct-FP8",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
    "nvidia/Qwen3-235B-A22B-NVFP4",
    "nvidia/Qwen3-30B-A3B-NVFP4",
    "zai-org/GLM-4.7-FP8",
}
_FOUR = ("fp4", "int4", "w4a16", "kimi-k2-thinking", "kimi-k2.5", "kimi-k2.6", "kimi-k2.7", "kimi-k3", "gpt-oss")
_EIGHT = ("fp8", "w8a8")


def bits(entry: CatalogueEntry) -> str:
    """By name and by what the record says of the checkpoint, not by the shape."""
    name, dtype = entry.model_id.casefold(), entry.dtype.casefold()
    if any(word in name for word in _FOUR) or name.startswith("deepseek-ai/deepseek-v4"):
        return "4"
    return "8" if any(word in name or word in dtype for word in _EIGHT) else "plain"


def shape_or_none(model_id: str) -> ModelShape | None:
    try:
        shape = load_model(model_id)
    except InputError:
        return None
    return shape if shape.weights is not None else None


@pytest.mark.parametrize("model_id", ENTRIES)
def test_bytes_a_parameter(model_id: str) -> None:
    shape = shape_or_none(model_id)
    if model_id in UNKNOWN:
        assert shape is None, "known by now: take it off the list"
        return
    assert shape is not None
    assert shape.weights is not None
    low, high = EXCEPTIONS[model_id][:2] if model_id in EXCEPTIONS else RANGES[bits(ENTRIES[model_id])]
    total = estimate_weights(Deployment(model=shape)).heaviest
    assert low <= total.best / shape.weights.parameters <= high


# Totals that count packed weights are not the parameters. Some count the module that drafts, and some do not.
@pytest.mark.parametrize("model_id", [i for i, e in ENTRIES.items() if bits(e) != "4" and e.params])
def test_parameters_are_those_of_the_record(model_id: str) -> None:
    shape = shape_or_none(model_id)
    if shape is None or shape.weights is None:
        assert model_id in UNKNOWN
        return
    known, weights = ENTRIES[model_id].params or 0, shape.weights
    draft = sum(matrix.elements for matrix in weights.draft)
    off = min(abs(known - weights.parameters), abs(known - weights.parameters - draft)) / known
    assert (off > 0.015) == (model_id in APART)


@pytest.mark.parametrize(("model_id", "gib"), [("Qwen/Qwen3.5-4B", 8.61), ("Qwen/Qwen3.5-9B", 17.66)])
def test_weights_are_those_that_logs_print(model_id: str, gib: float) -> None:
    release = "0.22.1" if "4B" in model_id else "0.19.1"
    total = estimate_weights(Deployment(model=load_model(model_id), vllm=release, gpu=gpu("l40s"))).heaviest
    assert total.best / 2**30 == pytest.approx(gib, abs=0.01)


def test_what_a_record_lacks_is_filled_and_nothing_else() -> None:
    whole, bare = load("Qwen/Qwen3.5-4B"), load("Qwen/Qwen3.5-4B", completed=False)
    assert whole.weights is not None
    assert bare.weights is not None
    assert (whole.weights.tied, bare.weights.tied) == (True, False)
    assert whole.weights.vision is not None
    assert bare.weights.vision is None
    assert whole.num_hidden_layers == bare.num_hidden_layers == 32
    assert whole.max_model_len == bare.max_model_len


def test_an_audio_tower_without_a_record_counts_with_the_encoders() -> None:
    whole, bare = load("google/gemma-4-E4B-it"), load("google/gemma-4-E4B-it", completed=False)
    assert whole.weights is not None
    assert bare.weights is not None
    assert "audio tower" in whole.weights.unsure
    assert "audio" not in bare.weights.unsure
    both, text = (
        estimate_weights(Deployment(model=whole, language_model_only=alone)).heaviest for alone in (False, True)
    )
    assert both.best - text.best > 2 * 364_000_000


def test_which_schemes_come_from_a_name() -> None:
    shapes = {model_id: shape_or_none(model_id) for model_id in ENTRIES}
    found = {i for i, shape in shapes.items() if shape and shape.weights and NOT_SAID in shape.weights.unsure}
    assert found == BY_NAME


@pytest.mark.parametrize(
    ("model_id", "gib"),
    [
        # Size of the published files; the others are what cgplan counts where the scheme is given.
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4", 328.13),
        ("moonshotai/Kimi-K2-Thinking", 554.32),  # of Kimi-K2.5, which is assumed to be stored alike
        ("nvidia/Llama-3.1-70B-Instruct-FP8", 68.3),
    ],
)
def test_schemes_by_name_hold_what_is_known(model_id: str, gib: float) -> None:
    total = estimate_weights(Deployment(model=load_model(model_id))).heaviest
    assert total.low <= gib * 2**30 <= total.high
    assert total.best / 2**30 == pytest.approx(gib, rel=0.05)


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("org/Small-1B-FP8", "fp8"),
        ("org/Small-1B-NVFP4-FP8", "nvfp4"),
        ("org/Small-1B-quantized.w4a16", "int4, groups of 128"),
        ("org/Small-1B-AWQ", "int4, groups of 128"),
        ("org/Small-1B-int8", "int8"),
        ("org/Small-1B", None),
        ("org/Small-1B-awqward", None),
        ("Small-1B-FP8", None),  # a folder: its files would say it
    ],
)
def test_names(name: str, scheme: str | None) -> None:
    weights = shape_of(CONFIG, name=name).weights
    assert weights is not None
    assert [known.name for known in weights.schemes] == ([scheme] if scheme else [])
    assert (NOT_SAID in weights.unsure) == (scheme is not None)


def test_the_configuration_goes_before_the_name() -> None:
    stored = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    weights = shape_of({**CONFIG, **stored}, name="org/Small-1B-AWQ").weights
    assert weights is not None
    assert [known.name for known in weights.schemes] == ["fp8, blocks of 128 x 128"]
    assert NOT_SAID not in weights.unsure


GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "num_hidden_layers": 4,
    "shared_intermediate_size": 512,
}


def test_granite_without_the_width_of_its_mlp_has_no_weights() -> None:
    kinds = {"layer_types": ["mamba", "attention", "mamba", "mamba"]}
    assert shape_of({**GRANITE, **kinds, "shared_intermediate_size": 512}).weights is not None
    bare = {key: value for key, value in GRANITE.items() if key != "shared_intermediate_size"}
    assert shape_of({**bare, **kinds}).weights is None


def test_granite_of_the_catalogue() -> None:
    small, nano = (load_model(f"ibm-granite/granite-4.0-h-{size}") for size in ("small", "1b"))
    assert small.max_model_len == 131072
    assert small.cache is not None
    assert sorted(len(found.layers) for found in small.cache.layers) == [4, 36]
    assert small.weights is not None
    assert "granite-4.0-h-1b" in small.weights.unsure
    assert estimate_weights(Deployment(model=nano)).heaviest.best / 2**30 == pytest.approx(2.72, rel=0.03)


def codes(deployment: Deployment) -> set[str]:
    return {finding.code for finding in plan(deployment).findings}


def test_a_plan_says_that_the_scheme_is_from_the_name() -> None:
    h200 = gpu("h200")
    named = Deployment(model=load_model("nvidia/Llama-3.1-70B-Instruct-FP8"), gpu=h200)
    assert "CG596" in codes(named)
    counted = plan(named, known=Measured(weights=73 * 10**9))
    assert "CG596" not in {finding.code for finding in counted.findings}
    assert "CG596" not in codes(Deployment(model=load_model("Qwen/Qwen3-30B-A3B-FP8"), gpu=h200))


@pytest.mark.parametrize(
    ("model_id", "method", "is_said"),
    [
        ("Qwen/Qwen3-8B", "awq", True),
        ("Qwen/Qwen3-8B", "gptq", True),
        ("Qwen/Qwen3-8B", "fp8", False),
        ("Qwen/Qwen3-8B", None, False),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "modelopt", False),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "gptq", False),
    ],
)
def test_a_method_that_reads_what_is_not_stored(model_id: str, method: str | None, is_said: bool) -> None:
    deployment = Deployment(model=load_model(model_id), gpu=gpu("h200"), quantization=method)
    assert ("CG143" in codes(deployment)) == is_said
    assert ("CG143" in {finding.code for finding in resolve(deployment).findings}) == is_said


def test_a_checkpoint_of_others_may_be_stored_otherwise() -> None:
    """B02: the catalogue has nvidia's; RedHatAI's takes 21.88 GiB. Of bf16 weights everybody's are the same."""
    names = ("RedHatAI/Qwen3.6-35B-A3B-NVFP4", "somebody/Qwen3-8B", "Qwen/Qwen2-7B")
    quantised, same, relative = (estimate_weights(Deployment(model=named_model(name).shape)).heaviest for name in names)
    assert quantised.low / 2**30 <= 21.88 <= quantised.high / 2**30
    assert NOT_SAID in quantised.source
    assert "stand in" in quantised.source
    assert "stand in" not in same.source
    assert same.high / same.best < 1.02
    assert "those of Qwen/Qwen2.5-7B stand in" in relative.source
    assert relative.high / relative.best > 1.04


def test_a_record_without_its_mtp_layer_is_completed() -> None:
    whole, bare = load("Qwen/Qwen3.8-27B"), load("Qwen/Qwen3.8-27B", completed=False)
    assert (whole.num_nextn_predict_layers, bare.num_nextn_predict_layers) == (1, None)
    assert whole.cache is not None
    assert len(whole.cache.draft_layers) == 1


@pytest.mark.parametrize(("model", "is_sure"), [
    ("google/gemma-3-27b-it", True), ("Qwen/Qwen3.5-27B", True), ("google/gemma-4-26B-A4B", False),
    ("nvidia/Qwen3.6-27B-NVFP4", False),
])  # fmt: skip
def test_the_number_of_parameters_settles_the_vision_tower(model: str, is_sure: bool) -> None:
    """B36: the doubt of a tower that takes 2% made all weights 5% either way."""
    weights = load_model(model).weights
    assert weights is not None
    assert ("vision tower" not in weights.unsure) is is_sure
