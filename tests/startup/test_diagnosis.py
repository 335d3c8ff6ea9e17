"""How a start ended, and what would have worked."""

from __future__ import annotations

import pytest
from startup_helpers import GIB, on, oom, public, rank, size, start, took

from cgplan.startup.analysis import analyse
from cgplan.startup.diagnosis import came_up, diagnose, unfinished
from cgplan.startup.record import Captured, Crash, Place, Sample, Start

SAMPLER = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try"
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
MAMBA = (
    "ValueError: max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks}). Each decode sequence requires"
)
LENGTH = (
    "ValueError: To serve at least one request with the model's max seq len (132000), (4.11 GiB KV"
    " cache is needed, which"
    " is larger than the available KV cache memory (3.86 GiB). Based on the available memory, the"
    " estimated maximum model"
    " length is 123872. Try increasing"
)


class TestPublicCases:
    def test_b01_the_sampler_after_capture(self) -> None:
        (one,) = public("B01").starts
        found = diagnose(one)
        assert found is not None
        assert (found.code, found.kind) == ("CG509", "sampler_warm_up")
        assert found.largest["gpu_memory_utilization"] == 0.92
        assert found.largest["max_num_seqs"] == 512
        assert found.largest["kv_cache_memory_bytes"] < one.ranks[0].kv_bytes - size(1)  # type: ignore[operator]
        assert "786 MiB" in found.what
        assert not found.also

    def test_b02_nothing_is_left_though_no_exception_says_so(self) -> None:
        (one,) = public("B02").starts
        found = diagnose(one)
        assert found is not None
        assert (found.code, found.kind) == ("CG560", "no_blocks")
        assert 0.86 <= found.largest["gpu_memory_utilization"] <= 0.92
        assert "--max-num-batched-tokens 2048" in found.fix
        assert "--language-model-only" in found.fix

    @pytest.mark.parametrize(("blocks", "round_one"), [(856, 512), (161, 128), (30, 16), (512, 512), (1, 1)])
    def test_b10_a_round_number_of_requests(self, blocks: int, round_one: int) -> None:
        found = diagnose(start(crash=MAMBA.format(seqs=1024, blocks=blocks)))
        assert found is not None
        assert found.code == "CG501"
        assert f"--max-num-seqs {round_one}" in found.fix
        assert found.largest == {"max_num_seqs": blocks}

    def test_b08_all_constraints_of_the_log_at_once(self) -> None:
        first = start(rank(kv=3.86), crash=LENGTH, model="org/Hybrid", first_line=1)
        second = start(rank(kv=3.86), crash=MAMBA.format(seqs=256, blocks=161), model="org/Hybrid", first_line=200)
        found = diagnose(first, (first, second))
        assert found is not None
        assert found.largest["max_model_len"] == 123872
        assert [(one.code, "161 at most" in str(one.fix)) for one in found.also] == [("CG501", True)]
        again = diagnose(second, (first, second))
        assert again is not None
        assert [(one.code, "--max-model-len 123872" in str(one.fix)) for one in again.also] == [("CG561", True)]

    def test_starts_of_other_servers_are_not_mixed_in(self) -> None:
        first = start(rank(kv=3.86), crash=LENGTH, model="org/Hybrid")
        other = start(rank(kv=3.86), crash=MAMBA.format(seqs=256, blocks=161), model="org/Other", first_line=200)
        found = diagnose(first, (first, other))
        assert found is not None
        assert found.also == ()

    def test_b08_by_the_plan_where_the_log_has_one_start(self) -> None:
        arguments = {"model_tag": "Qwen/Qwen3.6-27B", "max_model_len": 262144, "max_num_seqs": 1024}
        text = LENGTH.replace("132000", "262144")
        one = start(
            rank("EngineCore", kv=3.86), crash=text, version="0.25.1", model="Qwen/Qwen3.6-27B", arguments=arguments,
        )  # fmt: skip
        from cgplan.startup.record import StartupLog

        (report,) = analyse(StartupLog((one,)), on("h100"))
        assert report.diagnosis is not None
        assert report.diagnosis.code == "CG561"
        assert "CG501" in {finding.code for finding in report.diagnosis.also}

    def test_c11_capture_with_a_full_cache(self) -> None:
        one = start(
            rank(kv=2.97, utilization=0.98), version="0.29.0", kv_tokens=150745,
            crash=oom("136.00 MiB", "120.88 MiB", 22.36, 22.0),
        )  # fmt: skip
        found = diagnose(one)
        assert found is not None
        assert (found.code, found.step) == ("CG507", "capture")
        assert found.largest["gpu_memory_utilization"] == 0.97
        assert found.largest["kv_cache_memory_bytes"] < size(2.97) - size(0.2)

    def test_c13_memory_beyond_the_budget_is_no_graph(self) -> None:
        one = start(
            rank(requested=29.81, kv=19.0, weights=9.98, utilization=0.95, total=31.38, graph_estimate=0.2),
            version="0.28.0", kv_tokens=1, crash=oom("100.00 MiB", "80.00 MiB", 31.38, 31.18),
        )  # fmt: skip
        found = diagnose(one)
        assert found is not None
        (beyond,) = found.also
        assert beyond.code == "CG530"
        assert "1.37 GiB more" in beyond.message
        assert "17.00 GiB" in str(beyond.fix)

    def test_c13_graphs_that_are_large_are_graphs(self) -> None:
        one = start(
            rank(requested=29.81, kv=19.0, utilization=0.95, total=31.38), version="0.28.0", kv_tokens=1,
            crash=oom("100.00 MiB", "80.00 MiB", 31.38, 31.18, pools="1.20 GiB"),
        )  # fmt: skip
        found = diagnose(one)
        assert found is not None
        assert found.also == ()

    def test_c07_the_same_at_every_utilization(self) -> None:
        starts = tuple(
            start(
                rank(utilization=share, total=256.0, kv=80.0), kv_tokens=1, model="org/M", first_line=at * 100,
                crash=oom("1.30 GiB", "1.00 GiB", 256.0, 248.0, pools="9.00 GiB"),
            )
            for at, share in enumerate((0.89, 0.88, 0.87))
        )  # fmt: skip
        found = diagnose(starts[0], starts)
        assert found is not None
        assert "CG531" in {one.code for one in found.also}
        alone = diagnose(starts[0], starts[:1])
        assert alone is not None
        assert "CG531" not in {one.code for one in alone.also}

    def test_b05_the_models_own_length(self) -> None:
        text = (
            "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len"
            " (max_position_embeddings=2048.0 or model_max_length=None in model's config.json)."
        )
        found = diagnose(start(crash=text))
        assert found is not None
        assert (found.code, found.largest) == ("CG129", {"max_model_len": 2048})

    def test_b04_sizes_that_divide(self) -> None:
        found = diagnose(start(crash="AssertionError: 151936 is not divisible by 5"))
        assert found is not None
        assert "of 1, 2, 4, 8:" in found.fix


class TestTheCause:
    def test_an_inner_cause_goes_before_the_wrapper(self) -> None:
        inner = MAMBA.format(seqs=8, blocks=4)
        crash = Crash("wrapper", WRAPPER, Place(9), "", {}, (inner, WRAPPER))
        found = diagnose(Start(1, 9, crash=crash))
        assert found is not None
        assert found.code == "CG501"

    def test_a_wrapper_alone_says_that_the_cause_is_missing(self) -> None:
        found = diagnose(start(crash=WRAPPER))
        assert found is not None
        assert found.code == "CG819"

    def test_numbers_of_torch_join_the_words_of_vllm(self) -> None:
        crash = Crash("sampler_warm_up", SAMPLER, Place(9), "", {}, (oom("64.00 MiB", "1.00 MiB", 80, 79), SAMPLER))
        found = diagnose(start(rank(kv=10, utilization=0.9, total=80.0), crash=None, version="0.19.1"))
        assert found is None
        found = diagnose(
            Start(1, 9, vllm_version="0.19.1", ranks=(rank(kv=10, utilization=0.9, total=80.0),), crash=crash)
        )
        assert found is not None
        assert found.values["tried_bytes"] == 64 << 20
        assert found.largest["gpu_memory_utilization"] < 0.9

    def test_an_unknown_error_is_said_to_be_one(self) -> None:
        found = diagnose(start(crash="KeyError: 'model.layers.0'"))
        assert found is not None
        assert (found.code, found.message) == ("CG820", "KeyError: 'model.layers.0'")


class TestTheStep:
    OUT = oom("1.00 GiB", "0 bytes", 80.0, 79.0)

    @pytest.mark.parametrize(
        ("made", "code"),
        [
            (start(crash=OUT), "CG514"),
            (start(crash=OUT, architecture="LlamaForCausalLM"), "CG597"),
            (start(rank(weights=15), crash=OUT, max_num_batched_tokens=8192), "CG512"),
            (start(rank(weights=15, kv=50), crash=OUT, kv_tokens=100), "CG507"),
            (
                start(
                    rank(weights=15, kv=50, kv_is_given=True), crash=OUT.replace("62.00 MiB", "0 bytes"), kv_tokens=100
                ),
                "CG508",
            ),
            (start(rank(weights=15, kv=50, kv_is_given=True), crash=OUT, kv_tokens=100), "CG507"),
            (start(rank(weights=15, kv=50, graph_actual=1), crash=OUT, kv_tokens=100), "CG509"),
        ],
    )
    def test_says_what_ran_out(self, made: Start, code: str) -> None:
        found = diagnose(made)
        assert found is not None
        assert found.code == code

    def test_the_profile_run_is_not_helped_by_the_utilization(self) -> None:
        found = diagnose(
            start(rank(weights=15, utilization=0.9, total=80.0), crash=self.OUT, max_num_batched_tokens=8192)
        )
        assert found is not None
        assert "gpu_memory_utilization" not in found.largest
        assert "--max-num-batched-tokens 4096" in found.fix

    def test_graphs_that_were_still_to_come_count(self) -> None:
        bars = (Captured("FULL", 10, None, 50, "decode, FULL"),)
        samples = (Sample("FULL", 100 << 20, 50, 20 << 20),)
        base = rank(kv=50, utilization=0.95, total=80.0, free=79.0)
        from dataclasses import replace

        early = start(replace(base, captured=bars, samples=samples), crash=self.OUT, version="0.19.1")
        late = start(replace(base, captured=bars), crash=self.OUT, version="0.19.1")
        first, second = diagnose(early), diagnose(late)
        assert first is not None
        assert second is not None
        assert first.largest["kv_cache_memory_bytes"] < second.largest["kv_cache_memory_bytes"]


def test_free_memory_names_the_share_that_is_free() -> None:
    text = (
        "ValueError: Free memory on device cuda:0 (70.0/79.19 GiB) on startup is less than desired"
        " GPU memory utilization"
        " (0.92, 72.86 GiB). Decrease"
    )
    found = diagnose(start(crash=text))
    assert found is not None
    assert (found.code, found.largest) == ("CG504", {"gpu_memory_utilization": 0.88})


def test_a_length_names_the_utilization_that_would_do() -> None:
    found = diagnose(start(rank(kv=3.86, utilization=0.85, total=20.0, free=19.0), crash=LENGTH, version="0.23.0"))
    assert found is not None
    assert found.largest == {"max_model_len": 123872, "gpu_memory_utilization": 0.87}


def test_a_gpu_that_is_too_small_is_said_to_be() -> None:
    text = LENGTH.replace("4.11 GiB", "44.11 GiB")
    found = diagnose(start(rank(kv=3.86, utilization=0.85, total=20.0, free=19.0), crash=text, version="0.23.0"))
    assert found is not None
    assert "more GPUs or smaller weights" in found.fix
    assert "gpu_memory_utilization" not in found.largest


def test_bytes_that_were_given_are_mended_in_bytes() -> None:
    one = start(
        rank(kv=1.0, kv_is_given=True), version="0.33.0",
        crash=LENGTH.replace("4.11 GiB", "2.0 GiB").replace("3.86 GiB", "1.0 GiB"),
    )  # fmt: skip
    found = diagnose(one)
    assert found is not None
    assert found.largest["kv_cache_memory_bytes"] == 2 * GIB


def test_a_start_that_came_up_did_not_end() -> None:
    one = start(rank(kv=1), phases=(took("init engine", 20.0),))
    assert came_up(one)
    assert diagnose(one) is None
    assert unfinished(one) is None


def test_a_log_that_ends_says_where() -> None:
    found = unfinished(start(rank(weights=1)))
    assert found is not None
    assert found.code == "CG823"
    assert "profiled" in found.message
