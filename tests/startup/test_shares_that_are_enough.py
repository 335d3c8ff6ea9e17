"""What a utilization can give and what none can; the sum by which nothing is left; the manager and its code."""

from __future__ import annotations

from startup_helpers import GIB, oom, rank, start, took

from cgplan.inputs.launches.asked import Context
from cgplan.startup import any_gpu
from cgplan.startup.analysis import report_of
from cgplan.startup.diagnosis import Diagnosis, diagnose
from cgplan.startup.record import Start

LENGTH = (
    "ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache is"
    " needed, which is larger than the available KV cache memory ({there} GiB). Based on the available memory, the"
    " estimated maximum model length is {fits}."
)
TOO_LONG = LENGTH.format(length=262144, needed="220.0", there="20.13", fits=23984)
NEAR = LENGTH.format(length=32768, needed="4.0", there="2.5", fits=20480)


def of(one: Start, **more: int) -> Diagnosis:
    found = diagnose(one, **more)
    assert found is not None
    return found


class TestNoShareReachesIt:
    def test_of_a_gpu_that_is_known(self) -> None:
        fix = of(start(crash=TOO_LONG), gpu_bytes=round(140.4 * GIB)).fix
        assert fix.startswith("--max-model-len 23984 or less")
        assert "no --gpu-memory-utilization reaches it: 199.87 GiB more are missing" in fix
        assert "higher by" not in fix

    def test_of_one_that_is_not(self) -> None:
        fix = of(start(crash=TOO_LONG)).fix
        assert "no --gpu-memory-utilization reaches it on a GPU of 80 GiB" in fix
        assert " of 24" not in fix

    def test_a_small_gpu_alone_is_left_out(self) -> None:
        far = LENGTH.format(length=262144, needed="50.0", there="8.0", fits=40000)
        assert "42.00 GiB of the GPU's memory (0.53 of 80 GiB)" in of(start(crash=far)).fix

    def test_one_that_does_is_named(self) -> None:
        assert "higher by 0.02, 1.50 GiB of 79.19 GiB" in of(start(crash=NEAR), gpu_bytes=round(79.19 * GIB)).fix
        assert "(0.07 of 24 GiB, 0.02 of 80)" in of(start(crash=NEAR)).fix

    def test_the_weights_count_as_well(self) -> None:
        made = start(rank(weights=20.0, kv=2.5), crash=NEAR)
        assert "no --gpu-memory-utilization" in of(made, gpu_bytes=24 * GIB).fix
        assert "higher by" in of(made, gpu_bytes=32 * GIB).fix

    def test_half_as_many_bytes_only_where_they_fit(self) -> None:
        full = start(rank(weights=20.0, kv=2.5), crash=NEAR)
        assert "--kv-cache-dtype fp8" in of(full, gpu_bytes=24 * GIB).fix
        assert "--kv-cache-dtype fp8" not in of(start(crash=TOO_LONG), gpu_bytes=round(140.4 * GIB)).fix


class TestTheManagerIsOff:
    def test_the_need_with_it_on_is_held_against_what_is_there(self) -> None:
        made = start(
            rank("EngineCore", kv=20.13), version="0.33.0", arguments={"model_tag": "google/gemma-4-31B-it"},
            model="google/gemma-4-31B-it", crash=TOO_LONG,
        )  # fmt: skip
        found = report_of(made, 1, (made,), Context()).diagnosis
        assert found is not None
        (said,) = (one for one in found.also if one.code == "CG578")
        assert "as well" in said.message
        assert "leave out what switches it off, with --max-model-len" in said.fix
        assert not any(one.code == "CG580" for one in found.also)

    def test_where_it_is_enough_no_shorter_length_is_asked_for(self) -> None:
        made = start(version="0.33.0", arguments={"model_tag": "google/gemma-4-31B-it"}, model="google/gemma-4-31B-it")
        (plan, *_) = any_gpu.planned(made, Context())
        assert plan[0].deployment is not None
        said = any_gpu.charged_in_full(plan[0].deployment, 262144, 220 * GIB, None, 60 * GIB)
        assert said is not None
        assert "as well" not in said.text
        assert said.fix == "leave out what switches it off, or a --max-model-len that fits"


class TestNothingIsLeft:
    NONE = "ValueError: No available memory for the cache blocks."

    def test_the_sum(self) -> None:
        made = start(rank(weights=21.88, kv=-0.12, utilization=0.8, total=31.93), version="0.19.1", crash=self.NONE)
        assert of(made).what == (
            "no memory is left for the KV cache: -0.12 GiB; 25.54 GiB are asked for, 0.8 x 31.93, less 21.88 GiB of"
            " weights 3.66 GiB, and the profile run took 3.78 GiB"
        )

    def test_an_estimate_that_is_taken_off_is_told_apart(self) -> None:
        made = start(
            rank(weights=21.88, kv=-0.12, utilization=0.8, total=31.93, graph_estimate=1.2), version="0.30.0",
            crash=self.NONE,
        )  # fmt: skip
        assert of(made).what.endswith("the profile run took 2.58 GiB, the graphs' estimate 1.20 GiB")

    def test_weights_that_are_more_than_the_share(self) -> None:
        made = start(rank(weights=26.0, kv=-3.0, utilization=0.8, total=31.93), version="0.30.0", crash=self.NONE)
        assert of(made).what.endswith("and the weights alone take 26.00 GiB")

    def test_without_the_weights_there_is_no_sum(self) -> None:
        made = start(rank(kv=-0.12, utilization=0.8, total=31.93), crash=self.NONE)
        assert of(made).what == "no memory is left for the KV cache: -0.12 GiB"

    def test_what_the_share_leaves_for_the_graphs(self) -> None:
        held = {"weights": 21.88, "kv": -0.12, "total": 31.93}
        room = start(rank(utilization=0.8, graph_estimate=1.2, **held), version="0.19.1", crash=self.NONE)
        assert "outside it stay 3.83 GiB for the graphs, about 1.20 GiB" in of(room).fix
        assert "has to stay free" not in of(room).fix
        tight = start(rank(utilization=0.8, graph_estimate=2.6, **held), version="0.19.1", crash=self.NONE)
        assert "has to stay free: fewer of them" in of(tight).fix
        inside = start(rank(utilization=0.8, graph_estimate=1.2, **held), version="0.30.0", crash=self.NONE)
        assert "outside it stay" not in of(inside).fix


class TestBehindTheFirstRun:
    TEXT = oom("256.00 MiB", "100.00 MiB", 31.36, 31.0, "0 bytes")

    def test_fewer_requests_go_first(self) -> None:
        made = start(rank(weights=18.3), crash=self.TEXT, max_num_batched_tokens=2048, phases=(took("warm-up", 54.0),))
        assert (of(made).code, of(made).fix[:17]) == ("CG512", "--max-num-seqs 16")

    def test_before_it_fewer_tokens_do(self) -> None:
        made = start(rank(weights=18.3), crash=self.TEXT, max_num_batched_tokens=2048)
        assert of(made).fix.startswith("--max-num-batched-tokens 1024")

    def test_a_step_that_fits_by_the_plan(self) -> None:
        made = start(rank(weights=18.3), crash=self.TEXT, max_num_batched_tokens=2048)
        assert "look with nvidia-smi at what else" in of(made, beside=3 * GIB).fix
        assert "nvidia-smi" not in of(made, beside=12 * GIB).fix
