"""shape_of and read_config against the frozen answers of vLLM's own ModelConfig, and against hostile files."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.catalogue import load
from cgplan.inputs.hf_config import read_config, shape_of
from cgplan.inputs.hf_sidecars import Sidecars
from cgplan.inputs.safe_json import MAX_BYTES
from cgplan.model_shape import ModelShape

FIXTURES = Path(__file__).parents[2] / "fixtures"
ANSWERS: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "model_shapes.json.gz").read_bytes()))
ORACLE_MODELS: dict[str, Any] = json.loads((FIXTURES / "oracle_models.json").read_text())

# Answers that are known to differ, by the end of the variant's name: configurations that say next to nothing.
KNOWN_GAPS = (
    "InklingForCausalLM",  # vLLM refuses MTP of a checkpoint without mtp_config; the count is then of no use
    "InklingForConditionalGeneration",
    "MuseGlimmerAssistantModel",  # a draft without vocab_size
    "Cohere2MoeForCausalLM",  # rope_scaling of a class that has it beside rope_parameters
    "DeepseekV4ForCausalLM",  # qk_rope_head_dim worked out of head_dim
)

LLAMA = ORACLE_MODELS["llama"]["config"]


def differences(shape: ModelShape, expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    given = json.loads(shape.model_dump_json())
    return {field: (given[field], value) for field, value in expected.items() if given[field] != value}


def shape_or_code(config: dict[str, Any], runner: str = "auto") -> str | None:
    """None for a shape, the code of an InputError; anything else is a crash."""
    try:
        shape_of(config, runner=runner)
    except InputError as error:
        return error.code if "\n" not in error.message else "more than one line"
    return None


@pytest.mark.parametrize("name", sorted(ORACLE_MODELS))
def test_oracle_models_are_as_vllm_sees_them(name: str) -> None:
    model = ORACLE_MODELS[name]
    shape = shape_of(model["config"], name=name, runner=model.get("runner", "auto"))
    assert differences(shape, ANSWERS["oracle"][name]["expected"]) == {}


@pytest.mark.parametrize("model_id", sorted(ANSWERS["catalogue"]))
def test_catalogue_models_are_as_vllm_sees_them(model_id: str) -> None:
    answer = ANSWERS["catalogue"][model_id]
    if "refused" in answer:
        pytest.skip(f"vLLM refuses it: {answer['refused'][:60]}")
    assert differences(load(model_id, completed=False), answer["expected"]) == {}


def test_variants_are_as_vllm_sees_them() -> None:
    wrong = {}
    for variant in ANSWERS["variants"]:
        if "refused" in variant or variant["name"].endswith(KNOWN_GAPS):
            continue
        shape = shape_of(variant["config"], runner=variant.get("runner", "auto"))
        found = differences(shape, variant["expected"])
        if found:
            wrong[variant["name"]] = found
    assert wrong == {}


def test_variants_that_vllm_refuses_never_crash() -> None:
    for variant in ANSWERS["variants"]:
        if "refused" in variant:
            assert shape_or_code(variant["config"], variant.get("runner", "auto")) in (None, "CG912", "CG913")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("bamba", "MAMBA2"),
        ("jamba", "MAMBA1"),
        ("mamba2", "MAMBA2"),
        ("qwen3_next", "GDN_ATTN"),
        ("nemotron_h", "MAMBA2"),
    ],
)
def test_mamba_kinds(name: str, kinds: str) -> None:
    assert shape_of(ORACLE_MODELS[name]["config"]).mamba_backends == (kinds,)


def test_sinks() -> None:
    assert load("openai/gpt-oss-20b").has_sinks
    assert load("XiaomiMiMo/MiMo-V2-Flash").has_sinks
    assert not load("Qwen/Qwen3-8B").has_sinks
    assert not load("ibm-granite/granite-3.3-8b-instruct").has_sinks


def test_granite_without_mamba_layers_is_not_hybrid() -> None:
    config = {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 4,
        "layer_types": ["attention"] * 4,
    }
    shape = shape_of(config)
    assert not shape.is_hybrid
    assert shape.mamba_backends == ()


def test_unknown_architecture_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        shape_of({**LLAMA, "architectures": ["LamaForCausalLM"]})
    assert caught.value.code == "CG913"
    assert "LlamaForCausalLM" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("architecture", "fix"),
    [("Phi4FlashForCausalLM", "0.10.2"), ("Nemotron3_5AsrForRNNT", "plugin")],
)
def test_architecture_that_went_away(architecture: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        shape_of({**LLAMA, "architectures": [architecture]})
    assert caught.value.code == "CG913"
    assert fix in (caught.value.fix or "")


def test_runner_that_does_not_fit() -> None:
    with pytest.raises(InputError) as caught:
        shape_of(ORACLE_MODELS["bert"]["config"], runner="generate")
    assert caught.value.code == "CG912"


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": "4096"},
        {"hidden_size": True},
        {"hidden_size": -1},
        {"hidden_size": 10**30},
        {"hidden_size": 10**4000},
        {"hidden_size": float("nan")},
        {"hidden_size": float("inf")},
        {"hidden_size": 4096.5},
        {"hidden_size": [4096]},
        {"num_hidden_layers": 0},
        {"vocab_size": None},
        {"model_type": 7},
        {"model_type": None},
        {"architectures": "LlamaForCausalLM"},
        {"architectures": [1]},
        {"torch_dtype": "brainfloat"},
        {"torch_dtype": {}},
        {"rope_scaling": "yarn"},
        {"rope_scaling": {"rope_type": "linear", "factor": "2"}},
        {"rope_scaling": {"rope_type": "linear", "factor": 1e300}},
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": 8}},
        {"quantization_config": {"quant_method": "magic"}},
        {"sliding_window": "all"},
        {"layer_types": [1, 2]},
        {"is_encoder_decoder": "no"},
        {"max_position_embeddings": 0},
        {"use_sliding_window": 2, "model_type": "qwen2"},
    ],
)
def test_wrong_value_is_one_clear_line(change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        shape_of({**LLAMA, **change})
    error = caught.value
    assert error.code == "CG912"
    assert next(iter(change)) in error.message or "longest sequence" in error.message
    assert error.where
    assert error.fix
    assert len(error.message) < 300


def test_published_files_hold_infinity(tmp_path: Path) -> None:
    text = json.dumps({**ORACLE_MODELS["nemotron_h"]["config"], "time_step_limit": [0.0, float("inf")]})
    (tmp_path / "config.json").write_text(text)
    assert read_config(tmp_path).is_hybrid


# ------------------------------------------------------------------------------------------------------ files


def write(folder: Path, config: Any = LLAMA, name: str = "config.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(config if isinstance(config, str) else json.dumps(config))
    return folder / name


def test_directory_and_file_give_the_same(tmp_path: Path) -> None:
    file = write(tmp_path / "my-llama")
    assert read_config(file.parent) == read_config(str(file))
    assert read_config(file).name == "my-llama"


def test_modelopt_file_beside(tmp_path: Path) -> None:
    file = write(tmp_path)
    quantization = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
    }
    write(tmp_path, quantization, "hf_quant_config.json")
    shape = read_config(file)
    assert (shape.quantization, shape.is_nvfp4_quantized, shape.kv_cache_dtype) == ("modelopt_fp4", True, "fp8_e4m3")


def test_sentence_transformer(tmp_path: Path) -> None:
    write(tmp_path, ORACLE_MODELS["qwen3"]["config"])
    write(tmp_path, [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}], "modules.json")
    write(tmp_path / "1_Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False})
    write(tmp_path, {"max_seq_length": 512}, "sentence_bert_config.json")
    shape = read_config(tmp_path)
    assert (shape.runner_type, shape.max_model_len) == ("pooling", 512)
    assert not shape.chunked_prefill_default


def test_tokenizer_length_counts_for_absolute_positions(tmp_path: Path) -> None:
    write(tmp_path, ORACLE_MODELS["bert"]["config"])
    write(tmp_path, {"model_max_length": 128}, "tokenizer_config.json")
    assert read_config(tmp_path).max_model_len == 128
    write(tmp_path, {"model_max_length": 1e30}, "tokenizer_config.json")
    assert read_config(tmp_path).max_model_len == 512


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "CG911"),
        (b"{", "CG911"),
        (b"[1, 2]", "CG911"),
        (b'"text"', "CG911"),
        (b"null", "CG911"),
        (b"\xff\xfe{}", "CG911"),
        (b"[" * 200_000, "CG911"),
        (b'{"a":' * 200_000, "CG911"),
        (b'{"hidden_size": ' + b"9" * 100_000 + b"}", "CG911"),
        (b"{}", "CG912"),
        (b'{"model_type": "llama", "hidden_size": NaN}', "CG912"),
        (b" " * (MAX_BYTES + 1), "CG914"),
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "string",
        "null",
        "not-utf8",
        "deep-list",
        "deep-object",
        "digits",
        "bare",
        "nan",
        "big",
    ],
)
def test_hostile_content(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert time.perf_counter() - started < 1
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    assert str(tmp_path) in f"{caught.value.message} {caught.value.where}"


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, tmp_path / "a\0b", Path("x" * 5000)):
        with pytest.raises(InputError) as caught:
            read_config(path)
        assert caught.value.code == "CG910"


def test_symlink_loop(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "config.json")
    for path in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(InputError) as caught:
            read_config(path)
        assert caught.value.code == "CG910"


def test_fifo_and_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    for path in (tmp_path, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(InputError) as caught:
            read_config(path)
        assert caught.value.code == "CG910"


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "CG914"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads everything")
def test_no_permission(tmp_path: Path) -> None:
    write(tmp_path).chmod(0)
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "CG910"


def test_broken_file_beside(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "{", "hf_quant_config.json")
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert "hf_quant_config.json" in (caught.value.where or "")


def test_sidecars_may_be_given() -> None:
    shape = shape_of(LLAMA, sidecars=Sidecars(quantization_config={"quant_method": "fp8"}))
    assert shape.quantization == "fp8"


# --------------------------------------------------------------------------------------------------- anything

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["auto", "fp8"])
)
JSON = st.recursive(
    SCALARS,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=6), child, max_size=3),
    max_leaves=6,
)
KEYS = sorted({key for model in ORACLE_MODELS.values() for key in model["config"]} | {
    "text_config", "llm_config", "thinker_config", "quantization_config", "rope_parameters", "layers_block_type",
    "layer_types", "is_causal", "canvas_length", "block_configs", "attn_config", "language_config", "mtp_config",
    "compress_ratios", "vision_config", "vision_n_layers", "model", "compression_config", "num_nextn_predict_layers",
    "position_embedding_type", "model_max_length", "full_attn_idxs", "ple_layer_ids", "sliding_window_size",
})  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), JSON, max_size=8))
def test_any_object(config: dict[str, Any]) -> None:
    assert shape_or_code(config) in (None, "CG912", "CG913")


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([variant["config"] for variant in ANSWERS["variants"]]),
    st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3),
    st.sampled_from(["auto", "generate", "pooling", "draft"]),
    st.booleans(),
)
def test_any_value_in_a_known_config(config: dict[str, Any], change: dict[str, Any], runner: str, inside: bool) -> None:
    part = config.get("text_config")
    if inside and isinstance(part, dict):
        config = {**config, "text_config": {**part, **change}}
    else:
        config = {**config, **change}
    assert shape_or_code(config, runner) in (None, "CG912", "CG913")
