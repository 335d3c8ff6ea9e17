"""What a failure says beside its fix: each GPU, outside the budget, since when, and what fails next."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from startup_helpers import on, oom, public, rank, start

from cgplan.inputs.launches.asked import Context
from cgplan.inputs.vllm_logs.quoted import REMARK_OF_PARTS
from cgplan.report.logs_words import correction_lines
from cgplan.startup.analysis import StartReport, analyse
from cgplan.startup.diagnosis import Diagnosis, diagnose, unfinished
from cgplan.startup.record import Start, StartupLog

SWITCH = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0"
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
LENGTH = (
    "ValueError: To serve at least one request with the model's max seq len ({length}), ({needed} GiB KV cache is"
    " needed, which is larger than the available KV cache memory ({there} GiB). Try increasing"
)
MAMBA = "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (658)."
ACCESS = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def of(one: Start, **more: Any) -> Diagnosis:
    found = diagnose(one, (one,), **more)
    assert found is not None
    return found


def report(one: Start, context: Context) -> StartReport:
    (found,) = analyse(StartupLog((one,)), context)
    return found


class TestAnEstimateThatCannotBe:
    def test_without_the_line_of_the_kv_cache(self) -> None:
        found = of(start(rank(graph_estimate=118.65), crash=NO_BLOCKS))
        assert found.fix.startswith(f"{SWITCH}, for an estimate of 118.65 GiB is implausible")
        assert "more GPUs" not in found.fix

    @pytest.mark.parametrize("other", [{"graph_estimate": 1.2}, {}])
    def test_not_of_one_that_can(self, other: dict[str, Any]) -> None:
        assert SWITCH not in of(start(rank(**other), crash=NO_BLOCKS)).fix

    def test_not_where_it_is_not_taken_off(self) -> None:
        assert SWITCH not in of(start(rank(graph_estimate=118.65), version="0.19.1", crash=NO_BLOCKS)).fix


class TestLengths:
    def test_by_the_share_of_what_is_there(self) -> None:
        found = of(start(crash=LENGTH.format(length=1048576, needed="24.00", there="9.97")))
        assert found.largest["max_model_len"] == 435584
        assert "--max-model-len 435584" in found.fix

    def test_vllms_own_goes_first(self) -> None:
        text = LENGTH.format(length=1048576, needed="24.00", there="9.97").replace(
            "Try", "Based on the available memory, the estimated maximum model length is 400000. Try"
        )
        assert of(start(crash=text)).largest["max_model_len"] == 400000


class TestEachGpu:
    TEXT = LENGTH.format(length=131072, needed="12.00", there="5.27")

    def test_of_several(self) -> None:
        found = of(start(rank(kv=5.27), crash=self.TEXT, arguments={"tensor_parallel_size": 2}))
        assert "there are 5.27 GiB on each GPU; the GiB of several GPUs do not add up" in found.what

    def test_as_the_user_says_it(self) -> None:
        found = of(start(rank(kv=5.27), crash=self.TEXT, said={"tensor_parallel_size": 2}))
        assert "on each GPU" in found.what

    def test_of_one(self) -> None:
        assert "each GPU" not in of(start(rank(kv=5.27), crash=self.TEXT)).what

    def test_no_blocks_and_weights(self) -> None:
        two = {"tensor_parallel_size": 2}
        assert "-0.12 GiB on each GPU" in of(start(rank(kv=-0.12), crash=NO_BLOCKS, arguments=two)).what
        text = oom("1.00 GiB", "0.10 GiB", 24.0, 23.0)
        loading = of(start(crash=text, arguments=two, architecture="LlamaForCausalLM"))
        assert (loading.code, "of each GPU" in loading.what) == ("CG597", True)


class TestOutsideTheBudget:
    TEXT = oom("136.00 MiB", "120.88 MiB", 22.36, 22.0)

    def test_the_sum(self) -> None:
        one = start(
            rank(kv=2.97, utilization=0.98, graph_actual=0.46, graph_estimate=0.40), kv_tokens=1, crash=self.TEXT
        )
        said = "outside the budget lay 0.45 GiB, 2% of 22.36 GiB, and the graphs took 0.46 GiB, for which 0.40 GiB"
        assert said in of(one).what

    def test_without_the_share_it_is_not_known(self) -> None:
        assert (
            "does not name --gpu-memory-utilization"
            in of(start(rank(kv=2.97, graph_actual=0.46), crash=self.TEXT)).what
        )

    def test_not_of_the_profile_run_or_of_bytes(self) -> None:
        early = start(rank(weights=9.0, utilization=0.98), crash=self.TEXT)
        manual = start(rank(kv=2.97, utilization=0.98, graph_actual=0.46, kv_is_given=True), crash=self.TEXT)
        assert "outside the budget" not in of(early).what
        assert "outside the budget" not in of(manual).what


class TestSinceWhen:
    SAID = "refused since 0.20.2, until 0.19.1 the sizes are cut to the blocks instead"

    @pytest.mark.parametrize("release", ["0.20.2", "0.33.0", None])
    def test_a_refusal_of_a_release(self, release: str | None) -> None:
        fix = of(start(crash=MAMBA, version=release)).fix  # type: ignore[arg-type]
        assert self.SAID in fix
        assert "cgplan diff --from 0.19.1 --to 0.20.2" in fix

    def test_not_of_one_that_all_have(self) -> None:
        assert "refused since" not in of(start(crash=NO_BLOCKS)).fix


class TestContextParallelism:
    def fix(self, arguments: dict[str, Any], mode: str = "FULL_AND_PIECEWISE") -> str:
        one = start(crash=ACCESS, version="0.21.0", arguments=arguments, cudagraph_mode=mode)
        return of(one).fix

    def test_piecewise_first(self) -> None:
        fix = self.fix({"decode_context_parallel_size": 8})
        assert fix.startswith("-cc.cudagraph_mode=PIECEWISE first: --decode-context-parallel-size 8 is a suspect")

    def test_not_without_it_or_without_full_graphs(self) -> None:
        assert "suspect" not in self.fix({"tensor_parallel_size": 8})
        assert "suspect" not in self.fix({"decode_context_parallel_size": 8}, "PIECEWISE")


class TestFewerRequests:
    TEXT = oom("1.45 GiB", "1.20 GiB", 31.36, 30.0)

    def test_by_the_number_of_the_plan(self) -> None:
        found = of(start(rank(weights=18.0), crash=self.TEXT), seqs=256)
        assert found.code == "CG512"
        assert "--max-num-seqs 16, where so few run at once (now 256)" in found.fix

    def test_the_log_goes_first(self) -> None:
        assert "(now 64)" in of(start(rank(weights=18.0), max_num_seqs=64, crash=self.TEXT), seqs=256).fix

    def test_not_where_as_few_run(self) -> None:
        assert (
            "--max-num-seqs"
            not in of(start(rank(weights=18.0), max_num_seqs=16, max_num_batched_tokens=8192, crash=self.TEXT)).fix
        )


class TestTheSum:
    def test_it_is_right(self) -> None:
        (one,) = public("B02").starts
        fix = of(one).fix
        share = float(fix.split("--gpu-memory-utilization ")[1].split()[0])
        gained = float(fix.split(" GiB more")[0].rsplit(" ", 1)[1])
        total = float(fix.split(" of ")[1].split(" GiB")[0])
        assert gained == pytest.approx((share - 0.80) * total, abs=0.01)
        assert f"-0.12 GiB + {gained:.2f} GiB = {gained - 0.12:.2f} GiB of KV cache" in fix


class TestWhatFailsNext:
    ARGUMENTS: ClassVar = {"model_tag": "Qwen/Qwen3.6-27B", "tensor_parallel_size": 2, "max_model_len": 132000}

    def test_without_a_gpu(self) -> None:
        one = start(
            rank("EngineCore", kv=3.86), version="0.23.0", arguments=self.ARGUMENTS, model="Qwen/Qwen3.6-27B",
            crash=LENGTH.format(length=132000, needed="4.11", there="3.86"),
        )  # fmt: skip
        found = report(one, Context()).diagnosis
        assert found is not None
        assert [(each.code, "--max-num-seqs 128" in str(each.fix)) for each in found.also] == [("CG501", True)]

    def test_not_by_the_rules_of_a_plugin(self) -> None:
        one = start(
            rank("EngineCore", kv=3.86), version="0.23.0", arguments=self.ARGUMENTS, model="Qwen/Qwen3.6-27B",
            crash=LENGTH.format(length=132000, needed="4.11", there="3.86"), platform_plugin="metal",
        )  # fmt: skip
        found = report(one, Context()).diagnosis
        assert found is not None
        assert found.also == ()

    def test_nothing_where_the_blocks_are_enough(self) -> None:
        one = start(
            rank("EngineCore", kv=3.86), version="0.23.0", arguments={**self.ARGUMENTS, "max_num_seqs": 16},
            model="Qwen/Qwen3.6-27B", crash=LENGTH.format(length=132000, needed="4.11", there="3.86"),
        )  # fmt: skip
        found = report(one, Context()).diagnosis
        assert found is not None
        assert found.also == ()

    def test_past_the_layout_it_is_the_plan_that_is_wrong(self) -> None:
        arguments = {"model_tag": "Qwen/Qwen3.6-27B", "max_model_len": 132000, "max_num_seqs": 4}
        one = start(
            rank("EngineCore", kv=3.0, utilization=0.9, graph_actual=0.4), version="0.29.0", arguments=arguments,
            kv_tokens=150000, model="Qwen/Qwen3.6-27B", crash=oom("136.00 MiB", "120.00 MiB", 31.84, 31.0),
        )  # fmt: skip
        found = report(one, on("rtx5090"))
        assert found.diagnosis is not None
        assert "CG561" not in {each.code for each in found.diagnosis.also}
        assert [each.severity for each in found.findings if "vLLM went on with it" in each.message] == ["info"]


class TestChargedInFull:
    def said(self, needed: str, plugin: str | None = None) -> list[str]:
        arguments = {"model_tag": "google/gemma-4-31B-it"}
        one = start(
            rank("EngineCore", kv=20.13), version="0.33.0", arguments=arguments, model="google/gemma-4-31B-it",
            crash=LENGTH.format(length=262144, needed=needed, there="20.13"),
            platform_plugin=plugin,
        )  # fmt: skip
        found = report(one, Context()).diagnosis
        assert found is not None
        return [each.message for each in found.also if each.code == "CG578"]

    def test_the_manager_is_off(self) -> None:
        (text,) = self.said("220.00")
        assert "the hybrid KV cache manager is off" in text
        assert "--disable-hybrid-kv-cache-manager" in text

    def test_a_plugin_may_have_done_it(self) -> None:
        (text,) = self.said("220.00", "metal")
        assert text.endswith("What switches it off: the rules of metal")

    def test_another_need(self) -> None:
        assert self.said("150.00") == []


class TestWhatFitsBesideTheGraphs:
    def test_less_where_the_sampler_needs_more(self) -> None:
        """The start ended in the sampler's warm-up: what fits beside the graphs alone is too much."""
        (found,) = analyse(public("B01"))
        assert found.diagnosis is not None
        assert found.corrections == ()
        assert correction_lines(found) == []

    def test_what_runs_fits_too(self) -> None:
        (found,) = analyse(public("A01"))
        assert any("58.11 GiB, which fits too: 2.39 GiB stay free" in line for line in correction_lines(found))

    def test_not_where_it_is_the_smaller_one(self) -> None:
        one = start(
            rank(utilization=0.9, total=80.0, requested=72.0, free=79.0, kv=40.0, graph_estimate=3.0, graph_actual=1.0),
            ready=True,
        )
        lines = correction_lines(report(one, Context()))
        assert any("in use are 40.00 GiB" in line for line in lines)
        assert not any("fits too" in line for line in lines)


class TestExcerpts:
    def test_one_remark_without_a_beginning(self) -> None:
        found = unfinished(start(rank(weights=9.0), version=None))  # type: ignore[arg-type]
        assert found is not None
        assert found.code == "CG834"

    def test_a_start_may_have_been_killed(self) -> None:
        found = unfinished(start(rank(weights=9.0), arguments={"model": "org/M"}))
        assert found is not None
        assert found.code == "CG823"

    def test_a_few_lines_have_the_readers_remark(self) -> None:
        assert unfinished(start(rank(weights=9.0), is_part=True)) is None
        assert "read by itself" in REMARK_OF_PARTS
