"""What is said of a server that came up and died: the place, the cause, and a fix that fits serving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from startup_helpers import GIB, MIB, on, oom, rank, size, start

from cgplan.report.logs_words import headline
from cgplan.resolve.other_backend import remedy
from cgplan.startup.against_plan import compare
from cgplan.startup.analysis import report_of
from cgplan.startup.crashes import classify
from cgplan.startup.deployment import served
from cgplan.startup.diagnosis import Diagnosis, diagnose
from cgplan.startup.known import gpu_memory
from cgplan.startup.record import Crash, Phase, Place, Start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
OUT = oom("1.17 GiB", "820.00 MiB", 79.19, 78.3)


def died(text: str, function: str = "", step: str = "serving", **more: Any) -> Start:
    one = start(
        rank(weights=15.0, kv=50.0, utilization=0.9, total=79.19, free=78.7, graph_actual=0.9),
        version=more.pop("version", "0.30.0"), phases=(Phase("init engine", 21.0, "EngineCore"),), ready=True,
        max_num_batched_tokens=8192, max_num_seqs=1024, **more,
    )  # fmt: skip
    kind, values = classify(text)
    return replace(one, crash=Crash(kind, text, Place(90, text), "", values, (text,), step, function))


def diagnosed(one: Start) -> Diagnosis:
    found = diagnose(one)
    assert found is not None
    return found


class TestOutOfMemoryInAStep:
    def test_the_fix_fits_serving(self) -> None:
        found = diagnosed(died(OUT))
        assert (found.code, found.step) == ("CG825", "serving")
        assert "max_num_seqs" not in found.largest
        assert "--max-num-batched-tokens 4096" in found.fix
        # 1.17 GiB less 0.80 that were free, and 2% of the GPU.
        missing = size(1.17) - 820 * MIB + round(0.02 * size(79.19))
        assert found.largest["gpu_memory_utilization"] == int(100 * (0.9 - missing / size(79.19))) / 100
        assert found.largest["kv_cache_memory_bytes"] <= size(50.0) - missing

    def test_the_same_after_capture_is_of_the_sampler(self) -> None:
        found = diagnosed(died(OUT, step=""))
        assert (found.code, found.step) == ("CG509", "warm-up")

    def test_a_prefill_that_is_not_profiled_is_named(self) -> None:
        assert "Gated DeltaNet prefill" in diagnosed(died(OUT, "chunk_gated_delta_rule_fwd_h")).what
        assert "Gated DeltaNet" not in diagnosed(died(OUT, "apply_mlp")).what
        assert "(apply_mlp)" in diagnosed(died(OUT, "apply_mlp")).what

    def test_pieces_that_torch_cannot_use(self) -> None:
        pieces = OUT.replace("12.00 MiB is reserved", "2.50 GiB is reserved")
        assert "expandable_segments:True, for torch holds 2.50 GiB" in diagnosed(died(pieces)).fix
        assert "expandable_segments" not in diagnosed(died(OUT)).fix


ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (ILLEGAL, "CG821", "PIECEWISE"),
        ("RuntimeError: NCCL error: remote process exited or there was a network error", "CG826", "first rank that"),
        ("TimeoutError: RPC call to sample_tokens timed out.", "CG827", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"),
        ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "CG828", "all processes"),
        ("KeyError: 'visual'", "CG829", "read the message"),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down", "CG830", "memory of the host"),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -11), shutting down", "CG830", "native code"),
        ("Worker proc VllmWorker-0 died unexpectedly, shutting down", "CG830", "OOMKilled"),
    ],
)
def test_other_ends_have_pages_of_their_own(text: str, code: str, said: str) -> None:
    found = diagnosed(died(text))
    assert found.code == code
    assert said.casefold() in found.fix.casefold()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("RuntimeError: NCCL error: unhandled cuda error", "CG817"),
        ("RuntimeError: Engine core initialization failed. See root cause above.", "CG819"),
        ("KeyError: 'visual'", "CG820"),
    ],
)
def test_those_of_a_start_stay(text: str, code: str) -> None:
    assert diagnosed(start(rank(weights=15.0), crash=text)).code == code


class TestTheHeadline:
    def test_it_came_up_and_died(self) -> None:
        report = report_of(died(OUT), 1, (), None)
        assert report.came_up
        assert report.worst == "error"
        text, style = headline(report)
        assert text.startswith("Came up, the engine in 21 s, then died while serving: CUDA out of memory in a step")
        assert style == "error"

    def test_a_start_that_failed_did_not(self) -> None:
        text, _ = headline(report_of(start(rank(weights=15.0), crash=ILLEGAL), 1, (), None))
        assert text.startswith("Did not start")

    def test_where_the_log_shows_neither(self) -> None:
        text, _ = headline(report_of(start(crash=ILLEGAL, engine={"tensor_parallel_size": 8}), 1, (), None))
        assert text.startswith("Ended, at a step that the log does not show: a kernel")


class TestDecodeContextParallelism:
    def fix(self, version: str = "0.13.0", size: int = 2, mode: str | None = "FULL_AND_PIECEWISE") -> str:
        engine = {"decode_context_parallel_size": size}
        return diagnosed(died(ILLEGAL, version=version, engine=engine, cudagraph_mode=mode)).fix

    def test_with_full_graphs_before_014(self) -> None:
        assert "-cc.cudagraph_mode=PIECEWISE, or vLLM 0.14 or later" in self.fix()
        assert "here 2" in self.fix()
        assert "0.14 or later" in self.fix(mode=None)

    @pytest.mark.parametrize(
        "other", [{"version": "0.14.0"}, {"version": "0.33.0"}, {"size": 1}, {"mode": "PIECEWISE"}]
    )
    def test_not_otherwise(self, other: dict[str, Any]) -> None:
        assert "0.14" not in self.fix(**other)


class TestTheMemoryOfTheGPU:
    def advised(self, **more: float) -> Start:
        values = {"utilization": 0.92, "raised_utilization": 0.9271, "graph_estimate": 0.17, **more}
        one = rank(kv=15.72, **values)
        return start(replace(one, equivalent_utilization=0.9129), version="0.21.0", model=LLAMA)

    def test_comes_of_the_advice_with_bounds(self) -> None:
        found = gpu_memory(self.advised())
        assert found is not None
        assert found.low / GIB == pytest.approx(0.165 / 0.00715, abs=0.01)
        assert found.high / GIB == pytest.approx(0.175 / 0.00705, abs=0.01)

    def test_says_that_the_card_is_another(self) -> None:
        one = self.advised()
        found = compare(one, served(one, on("h100"))).findings
        assert [finding.code for finding in found] == ["CG538"]
        assert "23.1 to 24.8 GiB by its advice" in found[0].message
        assert "rtx3090" in (found[0].fix or "")
        assert "CG538" not in {finding.code for finding in compare(one, served(one, on("rtx3090"))).findings}

    def test_little_estimates_say_nothing(self) -> None:
        assert gpu_memory(self.advised(graph_estimate=0.01, raised_utilization=0.9204)) is None

    def test_what_torch_says_of_it_counts(self) -> None:
        one = start(model=LLAMA, crash=OUT)
        assert "CG538" in {finding.code for finding in compare(one, served(one, on("l40s"))).findings}
        assert "CG538" not in {finding.code for finding in compare(one, served(one, on("h100"))).findings}


def test_the_share_is_at_most_what_plan_and_check_name() -> None:
    """An RTX 4090 has 23.5 GiB; 0.97 of it may not be free, and 0.94 is."""
    one = start(
        rank(kv=6.37, graph_estimate=0.52, utilization=0.9764, raised_utilization=0.9984),
        version="0.21.0", model="Qwen/Qwen3-8B", kv_tokens=46368,
        crash="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    )  # fmt: skip
    found = report_of(one, 1, (one,), on("rtx4090")).diagnosis
    assert found is not None
    assert found.largest["gpu_memory_utilization"] == 0.94
    alone = report_of(one, 1, (one,), None).diagnosis
    assert alone is not None
    assert alone.largest["gpu_memory_utilization"] == 0.97


class TestAPlugin:
    def of(self, mode: str, plugin: str | None = "acme", **more: Any) -> list[Any]:
        engine = {"model": LLAMA, "data_parallel_size": 2, "compilation_config": {"cudagraph_mode": mode}}
        one = start(version="0.28.0", engine=engine, cudagraph_mode=mode, model=LLAMA, platform_plugin=plugin, **more)
        return [report_of(one, 1, (one,), on("h100"))]

    def test_its_rules_are_not_those_of_the_plan(self) -> None:
        (found,) = self.of("NONE")
        (finding,) = [one for one in found.findings if one.code != "CG823"]
        assert finding.code == "CG831"
        assert "acme" in finding.message
        assert "data parallelism of 2" in finding.message

    def test_with_arguments_as_well(self) -> None:
        (found,) = self.of("NONE", arguments={"model_tag": LLAMA, "data_parallel_size": 2})
        assert [finding.code for finding in found.findings if finding.code != "CG823"] == ["CG831"]
        (plain,) = self.of("NONE", None, arguments={"model_tag": LLAMA, "data_parallel_size": 2})
        assert [finding.code for finding in plain.findings if finding.code != "CG823"] == ["CG534"]

    def test_a_mode_is_not_held_against_itself(self) -> None:
        (found,) = self.of("NONE", None)
        assert [row.key for row in found.comparison.rows] == []
        (lowered,) = self.of(
            "FULL", None, arguments={"model_tag": LLAMA, "compilation_config": {"cudagraph_mode": "FULL"}}
        )
        assert [row.key for row in lowered.comparison.rows] == ["cudagraph_mode"]


def test_the_fix_of_a_lowered_mode_names_the_backend() -> None:
    from cgplan.deployment import Deployment
    from cgplan.resolve import resolve
    from cgplan.sections import SpeculativeOptions

    drafts = SpeculativeOptions(method="ngram", num_speculative_tokens=3)
    low = Deployment(vllm="0.23.0", attention_backend="FLASHINFER", speculative_config=drafts)
    deployment = low.model_copy(update={"gpu": on("a100").gpu})
    now = resolve(deployment)
    assert "CG333" in {finding.code for finding in now.findings}
    fix = remedy(deployment, now)
    assert fix == "use --attention-backend FLASH_ATTN, which gives FULL_AND_PIECEWISE"
    with_fix = replace(now, mode_fix=fix)
    assert fix in {finding.fix for finding in with_fix.findings}
    plain = deployment.model_copy(update={"attention_backend": "FLASH_ATTN"})
    assert remedy(plain, resolve(plain)) is None


def test_a_log_that_was_cut_has_the_share_of_the_plan() -> None:
    one = start(
        rank(utilization=0.9764, raised_utilization=0.9984), version="0.21.0", model="Qwen/Qwen3-8B",
        crash="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    )  # fmt: skip
    found = report_of(one, 1, (one,), on("rtx4090")).diagnosis
    assert found is not None
    assert (found.code, found.largest) == ("CG507", {"gpu_memory_utilization": 0.94})
