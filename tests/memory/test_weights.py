"""Weights by shape, against logs of models that were loaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import GIB, MIB, quantile, runs, single_stage

from cgplan import Deployment, InputError, ModelShape, SpeculativeOptions, load_model
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.budget.weights import Weights, estimate_weights, measured
from cgplan.weight_shape import WeightShape

LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct")
MIXTRAL = load_model("mistralai/Mixtral-8x7B-v0.1")


def bytes_of(model: ModelShape, **fields: object) -> int:
    return estimate_weights(Deployment(model=model, **fields)).heaviest.best


class TestAgainstMeasuredRuns:
    def test_error_and_bounds(self) -> None:
        errors, covered = [], []
        for run in single_stage():
            total, measured_bytes = estimate_weights(run.deployment).heaviest, run.record["weights"]
            errors.append(abs(total.best / measured_bytes - 1))
            covered.append(total.low - run.tolerance <= measured_bytes <= total.high + run.tolerance)
        assert len(errors) > 55
        assert quantile(errors, 0.5) < 0.002
        assert quantile(errors, 0.9) < 0.008
        assert sum(covered) >= 0.95 * len(covered)

    @pytest.mark.parametrize(
        ("model", "gib"),
        [
            # Never looked at while the rules were written.
            ("google/gemma-2-9b-it", 17.22),
            ("google/gemma-3-12b-it", 23.31),
            ("microsoft/phi-4", 27.39),
            ("ibm-granite/granite-3.1-2b-instruct", 4.74),
            ("Qwen/Qwen3-8B", 15.27),
            ("moonshotai/Kimi-VL-A3B-Instruct", 30.74),
            ("RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8", 24.07),
            ("openai/gpt-oss-20b", 13.64),
        ],
    )
    def test_models_that_were_kept_back(self, model: str, gib: float) -> None:
        total = estimate_weights(Deployment(vllm="0.19.1", model=load_model(model))).heaviest
        assert total.best / GIB == pytest.approx(gib, rel=0.008)
        assert total.low / GIB <= gib + 0.005 <= total.high / GIB + 0.01

    def test_every_measured_model_has_weights(self) -> None:
        assert all(run.deployment.model.weights is not None for run in runs())


class TestParameters:
    @pytest.mark.parametrize(
        ("model", "parameters"),
        [
            ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
            ("Qwen/Qwen2.5-72B-Instruct", 72_706_203_648),
            ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
            ("microsoft/phi-4", 14_659_507_200),
            ("nvidia/Nemotron-H-8B-Base-8K", 8_100_852_736),
            ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
            ("moonshotai/Kimi-K2-Instruct", 1_026_408_235_864),
        ],
    )
    def test_of_checkpoints(self, model: str, parameters: int) -> None:
        weights = load_model(model).weights
        assert weights is not None
        assert weights.parameters == pytest.approx(parameters, rel=0.003)

    def test_a_tied_head_counts_once(self) -> None:
        tied, untied = (shape_of({**_TINY, "tie_word_embeddings": tie}).weights for tie in (True, False))
        assert tied is not None
        assert untied is not None
        assert untied.parameters - tied.parameters == 1024 * 64


_TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}


class TestParallelism:
    @given(ranks=st.sampled_from([1, 2, 4, 8]))
    def test_ranks_together_hold_at_least_the_model(self, ranks: int) -> None:
        assert ranks * bytes_of(LLAMA, tensor_parallel_size=ranks) >= bytes_of(LLAMA)

    @given(ranks=st.sampled_from([2, 4, 8]))
    def test_more_ranks_hold_less_each(self, ranks: int) -> None:
        assert bytes_of(LLAMA, tensor_parallel_size=ranks) < bytes_of(LLAMA, tensor_parallel_size=ranks // 2)

    def test_key_and_value_heads_are_copied_past_their_number(self) -> None:
        def keys(ranks: int) -> int:
            # 8 heads of keys and values of 128, 4096 wide, 32 layers; queries and outputs are cut in any case.
            stage = estimate_weights(Deployment(model=LLAMA, tensor_parallel_size=ranks, vllm="0.20.2")).stages[0]
            return stage.parts["attention"] - 2 * 32 * 4096 * 4096 * 2 // ranks

        assert keys(8) == 32 * 2 * 128 * 4096 * 2
        assert keys(16) == keys(8)

    def test_pipeline_stages_share_the_layers(self) -> None:
        stages = estimate_weights(Deployment(model=LLAMA, pipeline_parallel_size=4, vllm="0.19.1")).stages
        # One log of Llama 3.1 8B in four stages says 4.26, 3.28, 3.28 and 4.26 GiB.
        assert [round(stage.total.best / GIB, 2) for stage in stages] == [4.26, 3.28, 3.28, 4.26]
        assert "embedding" in stages[0].parts
        assert "embedding" not in stages[1].parts
        assert "head" in stages[-1].parts

    def test_expert_parallelism_keeps_experts_whole(self) -> None:
        both = Deployment(model=MIXTRAL, tensor_parallel_size=2, data_parallel_size=2, enable_expert_parallel=True)
        spread = estimate_weights(both).stages[0].parts["experts"]
        cut = estimate_weights(Deployment(model=MIXTRAL, tensor_parallel_size=2)).stages[0].parts["experts"]
        assert spread == pytest.approx(cut / 2, rel=0.001)


class TestQuantisation:
    def test_made_while_loading(self) -> None:
        run = next(run for run in runs() if run.record["deployment"].get("quantization") == "fp8")
        assert bytes_of(run.deployment.model, quantization="fp8", vllm="0.19.1") / GIB == pytest.approx(8.49, abs=0.01)

    def test_a_quantised_checkpoint_is_not_quantised_again(self) -> None:
        model = load_model("Qwen/Qwen3-30B-A3B-FP8")
        assert bytes_of(model, quantization="fp8") == bytes_of(model)

    @pytest.mark.parametrize(
        ("config", "bits"),
        [
            ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 16 / 128),
            ({"quant_method": "awq", "bits": 4, "group_size": 64}, 4 + (16 + 4) / 64),
            ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
            ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4 + 8 / 16),
        ],
    )
    def test_bits_a_weight(self, config: dict[str, object], bits: float) -> None:
        shape = shape_of({**_TINY, "hidden_size": 1024, "intermediate_size": 2048, "quantization_config": config})
        stage = estimate_weights(Deployment(model=shape, vllm="0.20.2")).stages[0]
        assert stage.parts["mlp"] * 8 == pytest.approx(bits * 4 * 3 * 1024 * 2048, rel=0.001)
        assert stage.parts["embedding"] == 1024 * 1024 * 2

    def test_modules_that_are_left_out(self) -> None:
        config = {
            "quant_method": "fp8",
            "modules_to_not_convert": ["model.layers.1", "re:.*self_attn.*", "model.layers.2.mlp.down_proj"],
        }
        weights = shape_of({**_TINY, "quantization_config": config}).weights
        assert weights is not None
        schemes = _layers_by_scheme(weights)
        assert schemes["mlp.gate_up_proj"] == {0: {0, 2, 3}, None: {1}}
        assert schemes["mlp.down_proj"] == {0: {0, 3}, None: {1, 2}}
        assert schemes["self_attn.q_proj"] == {None: {0, 1, 2, 3}}

    def test_hostile_patterns_are_no_regular_expressions(self) -> None:
        config = {"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$", "re:" + "(x*)*" * 50, "*" * 200]}
        assert shape_of({**_TINY, "quantization_config": config}).weights is not None

    def test_a_scheme_that_had_to_be_assumed_widens_the_bounds(self) -> None:
        said = shape_of({**_TINY, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}})
        unsaid = shape_of({**_TINY, "quantization_config": {"quant_method": "compressed-tensors"}})
        narrow, wide = (estimate_weights(Deployment(model=model)).heaviest for model in (said, unsaid))
        assert (wide.high - wide.low) / wide.best > 3 * (narrow.high - narrow.low) / narrow.best


def _layers_by_scheme(weights: WeightShape) -> dict[str, dict[int | None, set[int]]]:
    found: dict[str, dict[int | None, set[int]]] = {}
    for matrix in weights.matrices:
        found.setdefault(matrix.name, {}).setdefault(matrix.scheme, set()).update(matrix.layers)
    return found


class TestAdaptersAndDrafts:
    def test_adapters(self) -> None:
        run = next(run for run in runs() if run.name == "l8-v1-lora4-64")
        stage = estimate_weights(run.deployment).stages[0]
        without = next(other for other in runs() if other.name == "l8-v1-def-256")
        assert stage.parts["lora"] == pytest.approx(run.record["weights"] - without.record["weights"], rel=0.03)
        assert "lora" not in estimate_weights(without.deployment).stages[0].parts

    def test_the_module_that_drafts_is_loaded_only_when_it_does(self) -> None:
        model = load_model("deepseek-ai/DeepSeek-V3")
        options = SpeculativeOptions(method="mtp", num_speculative_tokens=1)
        drafting = Deployment(model=model, tensor_parallel_size=8, speculative_config=options)
        assert estimate_weights(drafting).stages[0].parts["draft"] > GIB
        assert "draft" not in estimate_weights(Deployment(model=model, tensor_parallel_size=8)).stages[0].parts

    def test_ngrams_need_no_weights(self) -> None:
        options = SpeculativeOptions(method="ngram", num_speculative_tokens=3, prompt_lookup_max=4)
        assert bytes_of(LLAMA, speculative_config=options) == bytes_of(LLAMA)


def test_an_unknown_shape_is_an_error_and_a_known_one_is_not() -> None:
    model = LLAMA.model_copy(update={"weights": None})
    with pytest.raises(InputError) as caught:
        estimate_weights(Deployment(model=model))
    assert caught.value.code == "CG916"
    assert isinstance(estimate_weights(Deployment(model=LLAMA)), Weights)


def test_measured_weights_are_exact() -> None:
    stages = measured([3 * GIB, 4 * GIB], "a log").stages
    assert [stage.total.is_exact for stage in stages] == [True, True]
    assert measured([3 * GIB, 4 * GIB], "a log").heaviest.best == 4 * GIB


def test_large_tensors_take_whole_blocks_since_0_21() -> None:
    model = load_model("Qwen/Qwen2.5-7B-Instruct")
    # 28 layers with rests of 0.5, 1.5, 1 and 0.5 MiB, and two of 0.5 for embedding and head.
    assert (bytes_of(model, vllm="0.21.0") - bytes_of(model, vllm="0.20.2")) / MIB == pytest.approx(28 * 1.5, abs=0.1)
