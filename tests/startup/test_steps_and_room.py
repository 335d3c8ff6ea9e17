"""Where memory ran out, by the traceback, and the KV cache that would have fit there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import GIB, rank, size, start

from cgplan.startup.crashes import classify
from cgplan.startup.diagnosis import diagnose
from cgplan.startup.known import step_of
from cgplan.startup.record import Crash, Place, Start

ALLOCATED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} GiB. GPU 0 has a total capacity of 79.19 GiB"
    " of which {free} is free. Including non-PyTorch memory, this process has 78.95 GiB memory in use. Of the allocated"
    " memory {held} GiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated."
)


def ended(one: Start, step: str, text: str) -> Start:
    kind, values = classify(text)
    return replace(one, crash=Crash(kind, text, Place(90, text), "", values, (text,), step))


class TestTheKVCacheThatFits:
    """70 GiB were asked for beside 14.99 of weights on 79.19: the 30th of 32 tensors did not fit."""

    TEXT = ALLOCATED.format(tried="2.19", free="240.00 MiB", held="78.42")

    def test_is_what_torch_held_less_the_weights(self) -> None:
        one = start(rank(weights=14.99, kv=70.0, kv_is_given=True, total=79.19), version="0.33.0", kv_tokens=1)
        found = diagnose(ended(one, "cache", self.TEXT))
        assert found is not None
        assert (found.code, found.step) == ("CG508", "cache")
        fits = size(78.42) - size(14.99) + 240 * 2**20
        margin = round(0.02 * size(79.19))
        assert fits - margin - 2**20 <= found.largest["kv_cache_memory_bytes"] <= fits - margin
        assert "less what a step takes" in found.fix

    def test_less_steps_and_graphs_where_a_plan_says_them(self) -> None:
        one = start(rank(weights=14.99, kv=70.0, kv_is_given=True, total=79.19), version="0.33.0", kv_tokens=1)
        found = diagnose(ended(one, "cache", self.TEXT), beside=3 * GIB)
        assert found is not None
        assert found.largest["kv_cache_memory_bytes"] / GIB == pytest.approx(63.66 - 3, abs=0.01)
        assert "less what" not in found.fix

    def test_what_torch_held_beside_is_not_known(self) -> None:
        """More than weights and cache were held: the cache has to shrink by what was missing, at the least."""
        one = start(rank(weights=17.0, kv=48.27, utilization=0.9, total=79.19, graph_estimate=2.5), version="0.33.0")
        text = ALLOCATED.format(tried="1.51", free="1.20 GiB", held="74.91")
        found = diagnose(ended(one, "cache", text))
        assert found is not None
        assert found.largest["kv_cache_memory_bytes"] < size(48.27) - size(0.31)
        assert "or less of either" in found.fix

    def test_no_value_without_what_torch_held(self) -> None:
        one = start(rank(weights=14.99, kv=70.0, kv_is_given=True, total=79.19), version="0.33.0")
        text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.19 GiB."
        found = diagnose(ended(one, "cache", text))
        assert found is not None
        assert (found.code, found.largest) == ("CG508", {})


class TestTheStepOfTheTraceback:
    OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."

    @pytest.mark.parametrize(
        ("step", "code"),
        [
            ("loading", "CG597"), ("profiling", "CG512"), ("cache", "CG508"), ("capture", "CG507"),
            ("start-up", "CG507"), ("warm-up", "CG509"), ("", "CG507"),
        ],
    )  # fmt: skip
    def test_goes_before_the_lines(self, step: str, code: str) -> None:
        one = start(rank(weights=15.0, kv=50.0), kv_tokens=100)
        found = diagnose(ended(one, step, self.OUT))
        assert found is not None
        assert found.code == code

    def test_after_capture_what_is_left_is_the_warm_up(self) -> None:
        one = start(rank(weights=15.0, kv=50.0, graph_actual=1.0), kv_tokens=100)
        assert step_of(ended(one, "start-up", self.OUT)) == "warm-up"


class TestNumbersOfTheMessage:
    @pytest.mark.parametrize(
        ("text", "code", "largest", "said"),
        [
            (
                "ValueError: World size (8) is larger than the number of available GPUs (4) in this node. If this is",
                "CG605", {"tensor_parallel_size": 4}, "8 GPUs",
            ),
            (
                "ValueError: tp_size=8 must be divisible by dcp_size=3.",
                "CG607", {"decode_context_parallel_size": 2}, "1, 2, 4, 8",
            ),
            (
                "ValueError: max_num_batched_tokens (4096) is smaller than max_model_len (8192). This",
                "CG121", {"max_num_batched_tokens": 8192}, "--max-model-len 4096 or less",
            ),
            (
                "ValueError: max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256).",
                "CG120", {"max_num_batched_tokens": 256}, "--max-num-seqs 128 or less",
            ),
            (
                "ValueError: Externally held weights on device cuda:0 (75.00/79.19 GiB) exceed the desired GPU memory"
                " utilization (0.9, 71.27 GiB). Increase",
                "CG516", {}, "above 0.948",
            ),
            (
                "ValueError: Free memory on device cuda:0 (50.12/79.19 GiB) on startup is less than the engine's budget"
                " after excluding external process's weights (0.9, 61.27 GiB). Decrease",
                "CG504", {"gpu_memory_utilization": 0.75}, "driver hold 19.07 GiB, and 10.00 GiB are weights",
            ),
        ],
    )  # fmt: skip
    def test_are_what_would_have_worked(self, text: str, code: str, largest: dict[str, float], said: str) -> None:
        found = diagnose(start(crash=text, arguments={"tensor_parallel_size": 8}))
        assert found is not None
        assert (found.code, found.largest) == (code, largest)
        assert said in found.fix

    def test_blocks_of_quantised_experts(self) -> None:
        text = (
            "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization"
            " block_n = 128."
        )
        found = diagnose(start(crash=text))
        assert found is not None
        assert found.code == "CG559"

    def test_the_pooler_is_no_sampler(self) -> None:
        text = (
            "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with 256 dummy requests."
        )
        found = diagnose(start(crash=text))
        assert found is not None
        assert (found.code, found.what) == ("CG513", "CUDA out of memory when the pooler was warmed up with 256 rows")

    def test_the_platform_is_the_one_of_the_message(self) -> None:
        text = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."
        found = diagnose(start(crash=text, architecture="LlamaForCausalLM"))
        assert found is not None
        assert found.what.startswith("HIP out of memory while the model")


def test_the_advice_on_the_utilization_ends_the_profile_run() -> None:
    one = start(rank(utilization=0.9764, raised_utilization=0.9984), version="0.21.0")
    assert step_of(one) == "capture"
    assert step_of(start(rank(utilization=0.9764), version="0.21.0")) == "loading"
