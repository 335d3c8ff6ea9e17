"""The vision encoder in the budget: which items the profile run has, what they take, and the options that drop them."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, load_model, resolve
from cgplan.memory.budget.activation import StageActivation, estimate_activation
from cgplan.memory.budget.encoder import encoder_run, has_tower
from cgplan.memory.budget.weights import estimate_weights
from cgplan.releases.gpus import gpu

GIB = 1 << 30
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
NO_IMAGES: dict[str, Any] = {"limit_mm_per_prompt": {"image": 0, "video": 0}}


def deployed(model: str, release: str = "0.25.1", **fields: Any) -> Deployment:
    return Deployment(**{"vllm": release, "model": load_model(model), "gpu": gpu("l40s"), "env": V1, **fields})


def stage_of(model: str, release: str = "0.25.1", **fields: Any) -> StageActivation:
    line = deployed(model, release, **fields)
    return estimate_activation(line, resolve(line)).stages[0]


def items_of(model: str, release: str = "0.25.1", **fields: Any) -> tuple[int, int, str] | None:
    line = deployed(model, release, **fields)
    return encoder_run(line, resolve(line), first=True)


class TestItems:
    @pytest.mark.parametrize(
        ("model", "fields", "wanted"),
        [
            # As logs say: 1 of 16,384 tokens, 4 in a budget of 65,536, 32 of 256 in one of 8,192.
            ("Qwen/Qwen3.5-9B", {"max_num_batched_tokens": 8192}, (1, 16384, "image")),
            ("Qwen/Qwen3.6-27B", {"max_num_batched_tokens": 65536}, (4, 16384, "image")),
            ("google/gemma-3-27b-it", {"max_num_batched_tokens": 8192, "max_model_len": 8192}, (32, 256, "image")),
            # Qwen2.5: 14 frames in pairs, as many as fit into the length.
            ("Qwen/Qwen2.5-VL-7B-Instruct", {"max_model_len": 128000}, (1, 114688, "video")),
            ("Qwen/Qwen2.5-VL-7B-Instruct", {"max_model_len": 40000}, (1, 32768, "video")),
            ("Qwen/Qwen3.6-27B", {"limit_mm_per_prompt": {"image": 0}}, (1, 12288, "video")),
        ],
    )
    def test_the_largest(self, model: str, fields: dict[str, Any], wanted: tuple[int, int, str]) -> None:
        assert items_of(model, **fields) == wanted

    def test_a_smaller_image_of_the_user(self) -> None:
        sized = {"limit_mm_per_prompt": {"image": {"count": 1, "width": 512, "height": 512}, "video": 0}}
        assert items_of("Qwen/Qwen3.6-27B", **sized) == (1, 256, "image")
        assert items_of("Qwen/Qwen3.6-27B", mm_processor_kwargs={"max_pixels": 1 << 24}) == (1, 16384, "image")
        few = {"mm_processor_kwargs": {"size": {"longest_edge": 1 << 20}}, "limit_mm_per_prompt": {"video": 0}}
        assert items_of("Qwen/Qwen3.6-27B", max_num_batched_tokens=8192, **few) == (8, 1024, "image")

    @pytest.mark.parametrize("fields", [NO_IMAGES, {"language_model_only": True}, {"skip_mm_profiling": True}])
    def test_none(self, fields: dict[str, Any]) -> None:
        assert items_of("Qwen/Qwen3.6-27B", **fields) is None

    @pytest.mark.parametrize(("release", "runs"), [("0.26.0", False), ("0.27.1", True)])
    def test_runner_v2_has_it_since_0_27(self, release: str, runs: bool) -> None:
        env = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
        assert (items_of("Qwen/Qwen3-VL-8B-Instruct", release, env=env) is not None) == runs


class TestPeak:
    @pytest.mark.parametrize(
        ("release", "fields", "seen"),
        [
            # Public starts on an L40S: what was asked for, less weights, KV cache and the estimate taken off.
            ("0.19.1", {"max_num_batched_tokens": 8192}, 2.05),
        ],
    )
    def test_against_logs(self, release: str, fields: dict[str, Any], seen: float) -> None:
        """Peak and libraries together; 0.24 GiB are the libraries'."""
        peak = stage_of("Qwen/Qwen3.5-9B", release, **fields)
        assert peak.moment == "encoder"
        assert peak.total.best / GIB + 0.24 == pytest.approx(seen, rel=0.06)

    def test_without_images_only_text_is_left(self) -> None:
        whole, text = (
            stage_of("google/gemma-3-4b-it"),
            stage_of("google/gemma-3-4b-it", limit_mm_per_prompt={"image": 0}),
        )
        assert "encoder" in whole.moments
        assert "encoder" not in text.moments
        # Text alone is embedded in the compiled graph, whose kernel is timed with the whole embedding.
        assert text.moment == "compilation"
        largest = stage_of("Qwen/Qwen3.6-27B", max_num_batched_tokens=2048)
        assert largest.moment == "encoder"
        assert largest.total.source.endswith(", in the vision encoder")
        assert "encoder" not in text.total.source

    def test_ranks_share_the_encoder_or_the_images(self) -> None:
        one, weights, data = (
            stage_of("Qwen/Qwen3.6-27B", max_num_batched_tokens=65536, **fields).moments["encoder"]
            for fields in (
                {},
                {"tensor_parallel_size": 4},
                {"tensor_parallel_size": 4, "mm_encoder_tp_mode": "data"},
            )
        )
        assert data < weights < one

    def test_nvfp4_on_cards_of_blackwell(self) -> None:
        line = {"max_num_batched_tokens": 8192, "max_num_seqs": 32}
        card, other = (
            stage_of("nvidia/Qwen3.6-35B-A3B-NVFP4", "0.25.1", gpu=gpu(name), **line) for name in ("rtx5090", "b200")
        )
        assert "seen in reports" in card.terms
        assert "seen in reports" not in other.terms
        assert card.total.low < card.total.best - 1.3 * GIB


class TestWeights:
    def test_no_tower_without_images(self) -> None:
        line = deployed("Qwen/Qwen3.6-27B")
        text = line.model_copy(update=NO_IMAGES)
        assert has_tower(line)
        assert not has_tower(text)
        whole, less = (estimate_weights(d).stages[0].parts for d in (line, text))
        assert "vision" in whole
        assert {name: size for name, size in whole.items() if name != "vision"} == less

    def test_one_kind_left_keeps_it(self) -> None:
        assert has_tower(deployed("Qwen/Qwen3.6-27B", limit_mm_per_prompt={"image": 0}))
        assert not has_tower(deployed("google/gemma-3-27b-it", limit_mm_per_prompt={"image": 0}))

    def test_the_encoder_alone(self) -> None:
        line = deployed("Qwen/Qwen3.6-27B", mm_encoder_only=True)
        assert set(estimate_weights(line).stages[0].parts) == {"vision"}
        assert stage_of("Qwen/Qwen3.6-27B", mm_encoder_only=True).moment == "encoder"

    def test_a_text_model_does_not_care(self) -> None:
        assert bytes_alike(deployed("Qwen/Qwen3-8B"), deployed("Qwen/Qwen3-8B", language_model_only=True))


def bytes_alike(one: Deployment, other: Deployment) -> bool:
    return estimate_weights(one) == estimate_weights(other)
