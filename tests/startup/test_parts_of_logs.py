"""What is said of a few quoted lines: causes and fixes by their numbers, and what each figure means."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from startup_helpers import GIB, rank, start

from cgplan.inputs.vllm_logs import read_log
from cgplan.startup.analysis import StartReport, analyse, report_of
from cgplan.startup.ends import with_sure_end

OOM = "CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} of which {free} is free."


def report(text: str, **said: float) -> StartReport:
    log = read_log(io.StringIO(text))
    (found,) = analyse(replace(log, starts=tuple(replace(one, said=said) for one in log.starts)))
    return found


def fix(text: str, **said: float) -> str:
    found = report(text, **said)
    assert found.diagnosis is not None
    return found.diagnosis.fix


def told(text: str, code: str) -> str:
    (finding,) = (one for one in report(text).findings if one.code == code)
    return f"{finding.message}; fix: {finding.fix}"


class TestNothingLeftForTheCache:
    def test_is_an_end_though_the_error_is_not_there(self) -> None:
        found = report("Available KV cache memory: -0.25 GiB")
        assert found.diagnosis is not None
        assert (found.diagnosis.code, found.diagnosis.what) == (
            "CG560", "no memory is left for the KV cache: -0.25 GiB",
        )  # fmt: skip
        assert "higher by 1.25 GiB of the GPU's memory (0.06 of 24 GiB, 0.02 of 80)" in found.diagnosis.fix

    def test_some_is_none(self) -> None:
        assert report("Available KV cache memory: 0.25 GiB").diagnosis is None

    def test_not_of_one_that_came_up_nor_of_bytes_that_were_given(self) -> None:
        one = start(rank(kv=-1.0))
        assert with_sure_end(one).crash is not None
        assert with_sure_end(replace(one, ready=True)).crash is None
        assert with_sure_end(start(rank(kv=-1.0, kv_is_given=True))).crash is None
        assert with_sure_end(start(rank(kv=-1.0), kv_tokens=5)).crash is None

    def test_a_crash_that_was_printed_stays(self) -> None:
        one = start(rank(kv=-1.0), crash="ValueError: something else")
        assert with_sure_end(one) is one


class TestOutOfMemoryAtNoStep:
    def test_by_how_much_without_the_share(self) -> None:
        text = fix(OOM.format(tried="500.00 MiB", total="40.00 GiB", free="100.00 MiB"))
        assert "at least 0.01 below what it was" in text
        assert "at most 0.98" in text
        assert "400 MiB were missing" in text
        assert "the share is no help" in text

    def test_with_the_share_the_one_to_set(self) -> None:
        text = OOM.format(tried="500.00 MiB", total="40.00 GiB", free="100.00 MiB")
        assert fix(text, gpu_memory_utilization=0.99).startswith("--gpu-memory-utilization 0.98;")
        assert fix(text, gpu_memory_utilization=0.9).startswith("--gpu-memory-utilization 0.89;")

    @pytest.mark.parametrize(
        "text",
        [
            "CUDA out of memory. Tried to allocate 500 MiB. GPU 0 has 40.00 GiB of which 100 MiB is free",
            "Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 40.00 GiB of which 100.00 MiB is free.",
            "CUDA out of memory. Tried to allocate 500.00 MiB (GPU 0; 40.00 GiB total capacity; 39.00 GiB already"
            " allocated; 100.00 MiB free; 39.10 GiB reserved in total by PyTorch)",
        ],
    )
    def test_in_each_of_torchs_wordings(self, text: str) -> None:
        assert "400 MiB were missing, and half a GiB or 2% of 40.00 GiB" in fix(text)

    def test_without_numbers_by_the_step(self) -> None:
        assert fix("CUDA out of memory").startswith("by where it was")

    def test_small_pools_are_not_to_blame(self) -> None:
        text = OOM.format(tried="20.00 MiB", total="31.00 GiB", free="10.00 MiB")
        text += (
            " Including non-PyTorch memory, this process has {} GiB memory in use. Of the allocated memory 28.00 GiB is"
            " allocated by PyTorch, with {} MiB allocated in private pools (e.g., CUDA Graphs), and 300 MiB is reserved"
        )
        assert "the graphs have 50 MiB of the 30.90 GiB in use, so fewer of them are no help" in fix(
            text.format("30.90", "50.00")
        )
        assert "no help: workspaces" not in fix(text.format("30.90", "3000.00"))
        (finding,) = report(text.format("30.90", "50.00"), gpu_memory_utilization=0.9).diagnosis.also
        assert finding.code == "CG530"
        assert "3.00 GiB more than it asked for" in finding.message


class TestWhatAFigureMeans:
    def test_the_estimate(self) -> None:
        assert "since 0.20.2 the KV cache gets that much less" in told(
            "Estimated CUDA graph memory: 1.00 GiB total", "CG834"
        )

    def test_capture(self) -> None:
        text = told("Graph capturing finished in 24 secs, took 1.25 GiB", "CG834")
        assert text.startswith("capture took 1.25 GiB in 24 s")

    def test_tokens_and_blocks(self) -> None:
        assert "141,107 tokens fit at once" in told("GPU KV cache size: 141,107 tokens", "CG834")
        line = "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size."
        assert "as large as a state of the model" in told(line, "CG834")

    def test_graphs_of_both_kinds_tell_the_requests(self) -> None:
        text = told("Profiling CUDA graph memory: PIECEWISE=35 (largest=256), FULL=19 (largest=128)", "CG539")
        assert "max_num_seqs 128" in text
        assert "neither `vllm serve` nor LLM" in text
        drafts = told("Profiling CUDA graph memory: PIECEWISE=41 (largest=384), FULL=25 (largest=192)", "CG539")
        assert "48 requests of 4 tokens (3 drafts)" in drafts

    def test_other_requests_than_the_command_without_a_gpu(self) -> None:
        args = "INFO 05-05 10:00:00 [utils.py:233] non-default args: {{'max_num_seqs': {}, 'model_tag': 'org/M'}}\n"
        line = "INFO 05-05 10:00:20 [x.py:1] Profiling CUDA graph memory: PIECEWISE=35 (largest=256), FULL=19"
        line += " (largest=128)\n"
        assert "CG539" in {one.code for one in report(args.format(64) + line).findings}
        assert "CG539" not in {one.code for one in report(args.format(128) + line).findings}

    def test_of_a_whole_log_nothing(self) -> None:
        one = start(rank(graph_estimate=1.0), arguments={"model": "org/M"})
        assert "CG834" not in {finding.code for finding in report_of(one, 1, (one,), None).findings}
        part = replace(one, is_part=True)
        assert "CG834" in {finding.code for finding in report_of(part, 1, (part,), None).findings}

    def test_it_is_not_called_unfinished(self) -> None:
        assert "CG823" not in {one.code for one in report("Estimated CUDA graph memory: 1.00 GiB total").findings}


def test_the_length_of_a_refusal_that_was_cut() -> None:
    text = (
        "To serve at least one request with the model's max seq len (40000), (5.00 GiB KV cache is needed, which is"
        " larger than the available KV cache memory (2.50 GiB)"
    )
    assert "--max-model-len 20000 or less" in fix(text)
    whole = f"{text}. Based on the available memory, the estimated maximum model length is 17000"
    assert fix(whole).startswith("--max-model-len 17000 or less")


def test_requested_sizes_are_those_of_the_line() -> None:
    found = report("Free memory on device (20.1/22.36 GiB) on startup is less than desired GPU memory utilization")
    assert found.diagnosis is not None
    assert found.diagnosis.code == "CG504"
    assert found.diagnosis.largest == {"gpu_memory_utilization": 0.89}
    assert found.diagnosis.values["total_bytes"] == round(22.36 * GIB)


class TestBeyondTheBudget:
    """Case C07, in other numbers: torch on ROCm does not say what the process holds."""

    CRASH = (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 200.00"
        " GiB of which 0.25 GiB is free. Of the allocated memory 190.00 GiB is allocated by PyTorch, with {} MiB"
        " allocated in private pools (e.g., HIP Graphs), and 300 MiB is reserved by PyTorch but unallocated."
    )

    def crashed(self, pools: int) -> StartReport:
        one = start(
            rank(kv=100.0), crash=self.CRASH.format(pools), arguments={"gpu_memory_utilization": 0.85}, kv_tokens=5
        )
        return report_of(one, 1, (one,), None)

    def test_of_what_torch_holds(self) -> None:
        found = self.crashed(60).diagnosis
        assert found is not None
        (finding,) = (one for one in found.also if one.code == "CG530")
        assert "holds 190.00 GiB, 20.00 GiB more than it asked for, and 60 MiB of it are graphs" in finding.message
        assert "98.00 GiB" in str(finding.fix)
        assert "fewer sizes" not in found.fix

    def test_graphs_that_take_it_are_to_blame(self) -> None:
        found = self.crashed(15000).diagnosis
        assert found is not None
        assert "CG530" not in {one.code for one in found.also}
        assert "fewer sizes with --cudagraph-capture-sizes" in found.fix
