"""Several starts of one server: no fix names what failed already."""

from __future__ import annotations

from typing import Any

import pytest
from startup_helpers import oom, public, rank, size, start

from cgplan.startup.analysis import report_of
from cgplan.startup.diagnosis import Diagnosis, diagnose
from cgplan.startup.record import Captured, Start
from cgplan.startup.siblings import Failed, in_use, not_moved

NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
LENGTH = (
    "ValueError: To serve at least one request with the model's max seq len ({length}), (4.11 GiB KV cache is needed,"
    " which is larger than the available KV cache memory (3.86 GiB). Based on the available memory, the estimated"
    " maximum model length is {fits}."
)
MAMBA = "ValueError: max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks})."
HIP = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 255.98 GiB"
    " of which 900.00 MiB is free. Of the allocated memory 200.00 GiB is allocated by PyTorch, with {pools} allocated"
    " in private pools"
)


def capture(share: float, kv: float, crash: str | None = None, **more: Any) -> Start:
    more.setdefault("model", "org/M")
    crash = crash or oom("0.20 GiB", "0.10 GiB", 24.0, 23.0, pools="2.00 GiB")
    total = 255.98 if "255.98" in crash else 24.0
    one = rank(utilization=share, total=total, kv=kv, graph_estimate=0.5)
    return start(one, version="0.30.0", kv_tokens=1, crash=crash, **more)


def of(one: Start, *others: Start) -> Diagnosis:
    found = diagnose(one, (one, *others))
    assert found is not None
    return found


class TestTooMuch:
    def test_a_share_that_another_start_had_is_not_proposed(self) -> None:
        first = capture(0.98, 6.0)
        assert of(first).largest["gpu_memory_utilization"] == 0.97
        second = capture(0.97, 5.7)
        found = of(first, second)
        assert found.largest["gpu_memory_utilization"] == 0.96
        assert found.largest["kv_cache_memory_bytes"] < size(5.7)

    def test_another_server_says_nothing(self) -> None:
        second = capture(0.97, 5.7, model="org/Other")
        assert of(capture(0.98, 6.0), second).largest["gpu_memory_utilization"] == 0.97

    def test_nor_does_a_start_that_came_up(self) -> None:
        second = start(rank(utilization=0.97, total=24.0, kv=5.7), model="org/M", ready=True)
        assert of(capture(0.98, 6.0), second).largest["gpu_memory_utilization"] == 0.97

    def test_where_the_share_below_was_too_little_only_bytes_are_left(self) -> None:
        second = start(rank(utilization=0.97, total=24.0, kv=-0.1), crash=NO_BLOCKS, model="org/M")
        found = of(capture(0.98, 6.0), second)
        assert "gpu_memory_utilization" not in found.largest
        assert "kv_cache_memory_bytes" in found.largest

    def test_fewer_rows_than_those_that_failed(self) -> None:
        text = "RuntimeError: CUDA out of memory occurred when warming up sampler with {} dummy requests."
        first = capture(0.95, 6.0, text.format(1024))
        assert of(first).largest["max_num_seqs"] == 512
        assert of(first, capture(0.95, 6.0, text.format(512))).largest["max_num_seqs"] == 256


class TestTooLittle:
    def test_a_share_that_was_too_little_is_not_proposed(self) -> None:
        first = start(rank(utilization=0.80, total=24.0, kv=-0.1), crash=NO_BLOCKS, model="org/M")
        alone = of(first).largest["gpu_memory_utilization"]
        second = start(rank(utilization=0.88, total=24.0, kv=0.0), crash=NO_BLOCKS, model="org/M")
        assert alone <= 0.88
        assert of(first, second).largest["gpu_memory_utilization"] == 0.89

    def test_an_end_that_no_exception_says_counts(self) -> None:
        """-0.12 GiB for the KV cache is an end, though the error is not in the log."""
        first = start(rank(utilization=0.80, total=24.0, kv=-0.1), crash=NO_BLOCKS, model="org/M")
        second = start(rank(utilization=0.88, total=24.0, kv=-0.01), model="org/M")
        found = report_of(first, 1, (first, second), None).diagnosis
        assert found is not None
        assert found.largest["gpu_memory_utilization"] == 0.89

    def test_nor_one_at_which_memory_ran_out(self) -> None:
        first = start(rank(utilization=0.80, total=24.0, kv=-0.1), crash=NO_BLOCKS, model="org/M")
        found = of(first, capture(0.85, 1.0))
        assert "gpu_memory_utilization" not in found.largest
        assert "at --gpu-memory-utilization 0.85 another start ran out of memory" in found.fix

    def test_a_length_that_failed_too(self) -> None:
        first = start(rank(kv=3.86), crash=LENGTH.format(length=132000, fits=123872), model="org/M")
        again = start(rank(kv=3.80), crash=LENGTH.format(length=123872, fits=121600), model="org/M")
        longer = start(rank(kv=2.0), crash=LENGTH.format(length=200000, fits=64000), model="org/M")
        assert of(first, again).largest["max_model_len"] == 121600
        assert of(first, longer).largest["max_model_len"] == 123872

    def test_requests_that_failed_too(self) -> None:
        first = start(crash=MAMBA.format(seqs=1024, blocks=600), model="org/M")
        again = start(crash=MAMBA.format(seqs=512, blocks=500), model="org/M")
        assert of(first, again).largest["max_num_seqs"] == 500
        assert of(first).largest["max_num_seqs"] == 600


class TestNotMoved:
    def test_rocm_does_not_say_what_the_process_holds(self) -> None:
        starts = [capture(share, kv, HIP.format(pools="62.00 MiB")) for share, kv in ((0.89, 60.0), (0.88, 57.5))]
        found = of(*starts)
        assert found.also[0].code == "CG531"
        assert "255.10 GiB are in use at each" in found.also[0].message

    def test_one_cause_one_fix(self) -> None:
        starts = [
            capture(share, kv, HIP.format(pools="62.00 MiB"))
            for share, kv in ((0.89, 60.0), (0.88, 57.5), (0.87, 55.0))
        ]
        fixes = {of(one, *(other for other in starts if other is not one)).fix for one in starts}
        assert len(fixes) == 1
        (fix,) = fixes
        assert fix.startswith("--kv-cache-memory-bytes ")
        assert "53.00 GiB" in fix
        assert "--gpu-memory-utilization 0" not in fix
        found = of(starts[0], *starts[1:])
        assert found.largest == {"kv_cache_memory_bytes": size(53)}
        assert str(found.also[0].fix) in fix

    def test_graphs_that_got_further_took_the_room(self) -> None:
        """At the smaller share 2.5 GiB more of graphs were captured: capture is what is too large."""
        first = capture(0.89, 60.0, HIP.format(pools="1.00 GiB"))
        second = capture(0.88, 57.5, HIP.format(pools="3.50 GiB"))
        assert "CG531" not in {one.code for one in of(first, second).also}

    @pytest.mark.parametrize(
        ("values", "size_of"),
        [
            ({"process_bytes": 5, "total_bytes": 9, "free_bytes": 1}, 5),
            ({"total_bytes": 9, "free_bytes": 1}, 8),
            ({"total_bytes": 9}, None),
            ({}, None),
        ],
    )
    def test_in_use(self, values: dict[str, int], size_of: int | None) -> None:
        assert in_use(values) == size_of

    def test_shares_that_are_near_say_nothing(self) -> None:
        own = Failed("", 0.89, None, size(23))
        assert not_moved(own, [Failed("out_of_memory", 0.885, None, size(23))], size(24)) == ()
        assert not_moved(own, [Failed("out_of_memory", 0.80, None, size(23))], size(24)) == (0.80, 0.89)
        assert not_moved(own, [Failed("out_of_memory", 0.80, None, size(20))], size(24)) == ()


class TestAnUpgrade:
    """Before 0.20 the estimate is only printed; a KV cache that was too large is none to keep after an upgrade."""

    def codes(self, name: str) -> set[str]:
        (one,) = public(name).starts
        return {finding.code for finding in report_of(one, 1, (one,), None).findings}

    def test_not_where_memory_ran_out(self) -> None:
        assert "CG845" not in self.codes("B01")

    def test_of_a_start_that_came_up(self) -> None:
        assert "CG845" in self.codes("A01")


class TestOneStart:
    SAME = "if the same amount is missing at another utilization"

    def test_what_it_cannot_say(self) -> None:
        fix = of(capture(0.98, 6.0)).fix
        assert f"{self.SAME}, --kv-cache-memory-bytes {size(4)} (4.00 GiB), 2 GiB less than now" in fix

    def test_without_the_size_of_the_kv_cache_or_the_share(self) -> None:
        one = start(
            rank(graph_estimate=0.5), is_part=True, captured=(Captured("PIECEWISE", 1, total=51),),
            crash=HIP.format(pools="62.00 MiB"),
        )  # fmt: skip
        fix = of(one).fix
        assert fix.startswith("a --gpu-memory-utilization at least 0.01 below what it was, which frees 2.56 GiB")
        assert f"{self.SAME}, --kv-cache-memory-bytes, 2 GiB less than the line" in fix

    def test_not_of_several(self) -> None:
        assert self.SAME not in of(capture(0.98, 6.0), capture(0.97, 5.7)).fix

    def test_not_of_bytes_that_were_given(self) -> None:
        one = start(
            rank(utilization=0.98, total=24.0, kv=6.0, kv_is_given=True), kv_tokens=1, model="org/M",
            crash=oom("0.20 GiB", "0.10 GiB", 24.0, 23.0, pools="2.00 GiB"),
        )  # fmt: skip
        assert self.SAME not in of(one).fix
